//! The search for parameters and a batch.

use ndarray::{ArrayView2, s};
use unspoken_ckks::{CkksParameters, CostModel, Encoder, PRESETS, Preset};

use crate::design::Design;
use crate::diagonals::Prices;
use crate::error::NetworkError;
use crate::layout::{Arrangement, Order};
use crate::program::Program;
use crate::schedule::Schedule;
use crate::simulation::Simulation;

const OPERATION: &str = "choose parameters";

/// Most vectors of a value: more of them are never the cheapest, and take long to plan.
const MOST_VECTORS: usize = 64;

/// What is wanted of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Wishes {
    /// Names of presets. If there are none, all secure presets that switch keys; those that bootstrap only if no ring
    /// of a smaller degree has enough levels.
    pub presets: Vec<String>,
    /// The number of rows of a query: the latency of such a query is to be least. `None` for any batch: seconds per row
    /// are to be least.
    pub rows: Option<usize>,
    /// Largest error by noise, as a part of the radius of an output's range.
    pub noise: f64,
    /// Most bytes of memory of weights, of one run and of the keys of one client together.
    pub memory: u64,
    /// Most bytes of the keys that a client sends once. Clients refuse more than 4 GiB.
    pub key_bytes: u64,
}

impl Default for Wishes {
    /// Any preset and batch, noise up to 2^-7, 8 GiB of memory, and 4 GiB of keys.
    fn default() -> Self {
        Wishes { presets: Vec::new(), rows: None, noise: 2f64.powi(-7), memory: 8 << 30, key_bytes: 4 << 30 }
    }
}

/// A program for a design, and what is predicted of it.
pub struct Choice {
    /// The program: its parameters, batch, levels, layouts, bytes and keys.
    pub program: Program,
    /// Bytes of the keys that a client sends once.
    pub key_bytes: u64,
    /// Predicted seconds of a run on one core ([`CostModel::nominal`]).
    pub seconds: f64,
    /// The simulated batch of calibration rows.
    pub simulation: Simulation,
}

/// A candidate that has enough levels, slots and memory.
struct Candidate {
    parameters: CkksParameters,
    arrangement: Arrangement,
    seconds: f64,
    /// What is to be least.
    price: f64,
    schedule: Schedule,
}

/// Finds the cheapest parameters and batch for a design whose noise, simulated on calibration rows (one table for each
/// input), is small enough.
///
/// Candidates are planned without values, and simulated in the order of their prices.
///
/// # Errors
/// If a preset is unknown, or no candidate has enough levels and slots, little enough memory and little enough noise:
/// the message has the numbers.
pub fn choose(design: &Design, calibration: &[ArrayView2<'_, f64>], wishes: &Wishes) -> Result<Choice, NetworkError> {
    let count = design.network().check_rows(calibration)?;
    let mut candidates = candidates(design, wishes)?;
    candidates.sort_by(|a, b| a.price.total_cmp(&b.price));
    let mut least = f64::INFINITY;
    for candidate in candidates {
        let rows: Vec<ArrayView2<'_, f64>> =
            calibration.iter().map(|table| table.slice(s![..count.min(candidate.arrangement.batch), ..])).collect();
        let Candidate { parameters, arrangement, schedule, .. } = &candidate;
        let program = Program::scheduled(design, parameters, *arrangement, Some(schedule.clone()))?;
        // It fits: without values, each diagonal was counted with a whole period of them.
        let program = program.within(design, wishes.memory)?;
        let simulation = program.simulate(design.original(), &Encoder::new(&candidate.parameters), &rows, 1)?;
        least = least.min(simulation.noise);
        if simulation.noise <= wishes.noise && simulation.overflows.is_empty() {
            let key_bytes = program.key_plan().wire_bytes(candidate.parameters.ring());
            return Ok(Choice { program, key_bytes, seconds: candidate.seconds, simulation });
        }
    }
    let found = format!("noise of 2^{:.1} or more with all presets that fit the memory", least.log2());
    Err(NetworkError::mismatch(OPERATION, found, format!("2^{:.1}; allow more", wishes.noise.log2())))
}

/// All candidates with their prices.
fn candidates(design: &Design, wishes: &Wishes) -> Result<Vec<Candidate>, NetworkError> {
    let (mut candidates, mut deepest, mut least, mut refused) = (Vec::new(), 0, u64::MAX, None);
    let mut fewest = u64::MAX;
    let mut smallest = usize::MAX;
    for preset in presets(wishes)? {
        let parameters = preset.build()?;
        let degree = parameters.ring().degree();
        if preset.bootstraps() {
            deepest = usize::MAX;
            // A smaller ring with enough levels is always cheaper than bootstraps.
            if wishes.presets.is_empty() && degree > smallest {
                continue;
            }
        } else {
            deepest = deepest.max(parameters.circuit_level());
            if parameters.circuit_level() < design.depth() {
                continue;
            }
            smallest = smallest.min(degree);
        }
        let prices = Prices::new(&Encoder::new(&parameters));
        let model = CostModel::nominal(&parameters);
        for arrangement in arrangements(design, &parameters, wishes) {
            let mut program = match Program::priced(design, &prices, arrangement) {
                Ok(program) => program,
                // Level 0 of another preset may have more room for results.
                Err(error) => {
                    refused = Some(error);
                    continue;
                }
            };
            let memory = program.stream(&prices, design, wishes.memory)?;
            least = least.min(memory);
            if memory > wishes.memory {
                continue;
            }
            let key_bytes = program.key_plan().wire_bytes(parameters.ring());
            fewest = fewest.min(key_bytes);
            if key_bytes <= wishes.key_bytes {
                let (seconds, rows) = (program.seconds(&model), arrangement.batch as f64);
                let price = if wishes.rows.is_some() { seconds } else { seconds / rows };
                let (parameters, schedule) = (parameters.clone(), program.schedule);
                candidates.push(Candidate { parameters, arrangement, seconds, price, schedule });
            }
        }
    }
    if !candidates.is_empty() {
        return Ok(candidates);
    }
    if let Some(error) = refused.filter(|_| least == u64::MAX) {
        return Err(error);
    }
    if fewest < u64::MAX {
        let found = format!("{} MiB or more of keys", fewest >> 20);
        return Err(NetworkError::mismatch(OPERATION, found, format!("{} MiB; allow more", wishes.key_bytes >> 20)));
    }
    let needed = format!("{} levels", design.depth());
    Err(if deepest < design.depth() {
        NetworkError::mismatch(
            OPERATION,
            format!("presets of up to {deepest} levels"),
            needed + "; allow larger errors",
        )
    } else if least < u64::MAX {
        let found = format!("{} MiB or more of memory", least >> 20);
        NetworkError::mismatch(OPERATION, found, format!("{} MiB; allow more", wishes.memory >> 20))
    } else {
        let found = format!("no preset of {needed} with room for {:?} rows", wishes.rows);
        NetworkError::mismatch(OPERATION, found, "fewer rows: larger batches need several queries")
    })
}

/// The presets that may be chosen, those that bootstrap last.
fn presets(wishes: &Wishes) -> Result<Vec<&'static Preset>, NetworkError> {
    if !wishes.presets.is_empty() {
        return Ok(wishes.presets.iter().map(|name| Preset::find(name)).collect::<Result<_, _>>()?);
    }
    let is_for_circuits = |preset: &&Preset| {
        let special = ["_linear_", "_query_"];
        !preset.is_insecure() && !special.iter().any(|kind| preset.name.contains(kind))
    };
    let mut presets: Vec<&Preset> = PRESETS.iter().filter(is_for_circuits).collect();
    presets.sort_by_key(|preset| preset.bootstraps());
    Ok(presets)
}

/// The batches that may be chosen: the one for the wanted rows, or all that need few vectors. One row has one order.
fn arrangements(design: &Design, parameters: &CkksParameters, wishes: &Wishes) -> Vec<Arrangement> {
    let slots = parameters.slots();
    let batches = match wishes.rows {
        Some(rows) => {
            let batch = rows.max(1).checked_next_power_of_two().unwrap_or(usize::MAX);
            if batch <= slots { vec![batch] } else { Vec::new() }
        }
        None => {
            let largest = design.network().sizes.iter().copied().max().unwrap_or(1);
            let few = |batch: &usize| largest.div_ceil(slots / batch) <= MOST_VECTORS;
            (0..=slots.trailing_zeros()).map(|log2| 1 << log2).filter(few).collect()
        }
    };
    let orders = |batch: usize| {
        let consecutive = (batch > 1).then_some(Order::Consecutive);
        [Order::Interleaved].into_iter().chain(consecutive).map(move |order| Arrangement { batch, order })
    };
    batches.into_iter().flat_map(orders).collect()
}

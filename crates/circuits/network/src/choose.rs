//! The search for parameters and a batch.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ndarray::{ArrayView2, s};
use unspoken_ckks::{CkksParameters, CostModel, Encoder, PRESETS, Preset, Simulator};

use crate::design::Design;
use crate::diagonals::{Forms, Prices};
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

/// How far a compilation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Steps of the network that were gone through, to fit maps again.
    Fitting {
        /// Number of steps.
        done: usize,
        /// All steps that may be fitted.
        total: usize,
    },
    /// Presets for which the network was planned.
    Planning {
        /// Number of presets.
        done: usize,
        /// All that may be chosen.
        total: usize,
    },
    /// Steps of the network that ran on calibration rows, with the parameters that are the next in price. It begins
    /// again if their noise is too large.
    Simulating {
        /// Number of steps.
        done: usize,
        /// All steps.
        total: usize,
    },
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
    choose_with(design, calibration, wishes, &mut |_| {}, &Arc::default())
}

/// As [`choose`], which takes up to minutes. `progress` is called between its parts; raising `cancel` ends the search.
///
/// # Errors
/// As for [`choose`], or [`RlweError::Interrupted`](unspoken_rlwe::RlweError::Interrupted) if it was cancelled.
pub fn choose_with(
    design: &Design,
    calibration: &[ArrayView2<'_, f64>],
    wishes: &Wishes,
    progress: &mut dyn FnMut(Progress),
    cancel: &Arc<AtomicBool>,
) -> Result<Choice, NetworkError> {
    let count = design.network().check_rows(calibration)?;
    let forms = Forms::with_cancel(cancel);
    let mut candidates = candidates(design, wishes, &forms, progress)?;
    candidates.sort_by(|a, b| a.price.total_cmp(&b.price));
    let mut least = f64::INFINITY;
    for candidate in candidates {
        let rows: Vec<ArrayView2<'_, f64>> =
            calibration.iter().map(|table| table.slice(s![..count.min(candidate.arrangement.batch), ..])).collect();
        let Candidate { parameters, arrangement, schedule, .. } = &candidate;
        let encoder = Encoder::new(parameters);
        let prices = Prices::of_forms(&encoder, &forms);
        let program = Program::scheduled(design, &prices, *arrangement, schedule.clone())?;
        // It fits: without values, each diagonal was counted with a whole period of them.
        let program = program.priced_within(&prices, design, wishes.memory)?;
        let simulator = Simulator::new(&encoder, 1).with_cancel(Arc::clone(cancel));
        let total = design.network().steps().len();
        progress(Progress::Simulating { done: 0, total });
        let mut watch = |step: usize| progress(Progress::Simulating { done: step + 1, total });
        let simulation = program.simulate_on(design.original(), &simulator, &rows, &mut watch)?;
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
fn candidates(
    design: &Design,
    wishes: &Wishes,
    forms: &Arc<Forms>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Candidate>, NetworkError> {
    let (mut candidates, mut deepest, mut least, mut refused) = (Vec::new(), 0, u64::MAX, None);
    let mut fewest = u64::MAX;
    let mut smallest = usize::MAX;
    let presets = presets(wishes)?;
    for (done, preset) in presets.iter().enumerate() {
        progress(Progress::Planning { done, total: presets.len() });
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
        let prices = Prices::of_forms(&Encoder::new(&parameters), forms);
        let model = CostModel::nominal(&parameters);
        for arrangement in arrangements(design, &parameters, wishes) {
            let mut program = match Program::priced(design, &prices, arrangement) {
                Ok(program) => program,
                Err(error) if error.is_cancelled() => return Err(error),
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

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::function::Function;
    use crate::matrix::SparseMatrix;
    use crate::network::NetworkBuilder;
    use crate::{Options, Ranges};

    /// A convolution whose results may stay where its pixels are, and a residual sum.
    fn design() -> Design {
        let mut builder = NetworkBuilder::new();
        let x = builder.input("x", 64).unwrap();
        let window = |out: usize| (0..4).map(move |k| (out, out / 7 * 8 + out % 7 + k / 2 * 8 + k % 2, 0.25));
        let sums = SparseMatrix::new((49, 64), (0..49).flat_map(window)).unwrap();
        let pooled = builder.affine(vec![(x, sums)], vec![0.1; 49]).unwrap();
        let squares = builder.function(pooled, Function::Power(2)).unwrap();
        let dense =
            |seed: usize| SparseMatrix::dense((10, 49), move |r, c| ((r * 49 + c + seed) as f64).sin()).unwrap();
        let y = builder.affine(vec![(squares, dense(1)), (pooled, dense(2))], vec![0.0; 10]).unwrap();
        let network = builder.finish(&[("y", y)]).unwrap();
        let table = Array2::from_shape_fn((64, 64), |(row, i)| ((row * 64 + i) as f64 * 0.7).sin());
        let ranges = Ranges::of(&network, &[table.view()]).unwrap();
        Design::new(&network, &ranges, &Options::default()).unwrap()
    }

    #[test]
    fn plans_are_the_same_if_their_forms_are_known() {
        let (design, known) = (design(), Arc::default());
        let presets =
            ["insecure_n11_depth12_scale40", "insecure_n11_depth24_scale52", "insecure_n11_boot_depth15_scale40"];
        for name in presets {
            let encoder = Encoder::new(&Preset::find(name).unwrap().build().unwrap());
            for order in [Order::Interleaved, Order::Consecutive] {
                for batch in [2, 16] {
                    let plan = |prices: &Prices| {
                        let program = Program::priced(&design, prices, Arrangement { batch, order }).unwrap();
                        let shape = (program.key_plan().clone(), program.cost().clone(), program.memory());
                        (shape, program.steps().to_vec(), program.schedule.levels.clone())
                    };
                    assert_eq!(plan(&Prices::of_forms(&encoder, &known)), plan(&Prices::new(&encoder)), "{name}");
                }
            }
        }
    }

    #[test]
    fn a_choice_tells_how_far_it_is_and_can_be_cancelled() {
        let design = design();
        let table = Array2::from_shape_fn((4, 64), |(row, i)| ((row * 64 + i) as f64 * 0.7).sin());
        let presets = vec!["insecure_n11_depth12_scale40".to_owned()];
        let wishes = Wishes { presets, rows: Some(4), ..Wishes::default() };
        let run = |last: Option<Progress>| {
            let (mut seen, cancel) = (Vec::new(), Arc::new(AtomicBool::new(false)));
            let mut progress = |step: Progress| {
                seen.push(step);
                cancel.store(last == Some(step), std::sync::atomic::Ordering::Relaxed);
            };
            let choice = choose_with(&design, &[table.view()], &wishes, &mut progress, &cancel);
            (seen, choice)
        };
        let (seen, choice) = run(None);
        assert!(choice.is_ok());
        let simulating = |done| Progress::Simulating { done, total: 4 };
        let planning = Progress::Planning { done: 0, total: 1 };
        assert_eq!(seen, [planning, simulating(0), simulating(2), simulating(3), simulating(4)]);
        for last in [planning, simulating(0), simulating(3)] {
            let (seen, choice) = run(Some(last));
            assert!(choice.err().unwrap().is_cancelled() && seen.last() == Some(&last), "{last:?} {seen:?}");
        }
    }
}

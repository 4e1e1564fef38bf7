//! `unspoken plan --bootstrap`

use unspoken_ckks::{
    Bootstrap, BootstrapEstimate, BootstrapSearch, CkksError, CkksParameters, CostModel, Encoder, FoundBootstrap,
    PRESETS, Preset, Simulator, SlotValues, SubringBootstrap,
};
use unspoken_rlwe::SubringQueryParameters;

use crate::progress;

/// Shows the requirements and the result of a bootstrap with one preset.
pub fn show(parameters: &CkksParameters, slots: Option<usize>) -> anyhow::Result<()> {
    if parameters.bootstrap().is_some_and(|literal| literal.slots_to_coeffs == 0) {
        return show_queries(parameters, slots);
    }
    let plan = Bootstrap::new(parameters, slots.unwrap_or(parameters.slots()), SlotValues::Complex)?;
    println!("{plan}");
    let found = estimate(&plan)?;
    println!(
        "precision  {:.1} bits (root mean square), {:.1} in the worst slot",
        found.bits(),
        -found.error.worst.log2()
    );
    println!("time       about {:.1} s on one thread of this machine", found.seconds);
    Ok(())
}

/// Shows the same for subring queries of `elements` elements.
fn show_queries(parameters: &CkksParameters, elements: Option<usize>) -> anyhow::Result<()> {
    let elements = elements.map_or_else(|| SubringQueryParameters::most(parameters.rlwe()), Ok)?;
    let plan = SubringBootstrap::new(parameters, elements)?;
    println!("{plan}");
    let simulator = Simulator::new(&Encoder::new(parameters), 1);
    let torus: Vec<f64> = (0..elements).map(|i| (i * i % 509) as f64 / 509.0 - 0.5).collect();
    let error = plan.simulate(&simulator, &torus, parameters.scale())?.error();
    println!(
        "precision  {:.1} bits (root mean square), {:.1} in the worst slot",
        -error.rms.log2(),
        -error.worst.log2()
    );
    println!(
        "time       about {:.1} s on one thread of this machine",
        one_thread(parameters)?.seconds(&simulator.cost())
    );
    Ok(())
}

/// The speed of one thread.
fn one_thread(parameters: &CkksParameters) -> anyhow::Result<CostModel> {
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    Ok(one_thread.install(|| CostModel::measure(parameters))?)
}

/// Predicts with the speed of one thread.
fn estimate(plan: &Bootstrap) -> anyhow::Result<BootstrapEstimate> {
    let parameters = plan.parameters();
    Ok(plan.estimate(&Encoder::new(parameters), &one_thread(parameters)?)?)
}

/// Shows all presets whose bootstrap of `slots` slots gives `bits` bits, and which of them no other surpasses.
pub fn compare(bits: f64, slots: Option<usize>) -> anyhow::Result<()> {
    let mut found: Vec<(&Preset, BootstrapEstimate)> = Vec::new();
    for preset in PRESETS.iter().filter(|preset| preset.bootstraps() && !preset.is_insecure()) {
        let parameters = preset.build()?;
        progress::note(&format!("simulating {}", preset.name));
        match Bootstrap::new(&parameters, slots.unwrap_or(parameters.slots()), SlotValues::Complex) {
            Ok(plan) => found.push((preset, estimate(&plan)?)),
            Err(CkksError::Shape { .. }) => progress::note(&format!("{} has fewer slots", preset.name)),
            Err(error) => return Err(error.into()),
        }
    }
    let best = found.iter().map(|(_, e)| e.bits()).fold(f64::NEG_INFINITY, f64::max);
    anyhow::ensure!(!found.is_empty(), "no preset has that many slots; give a power of two of at most 32768");
    found.retain(|(_, e)| e.bits() >= bits);
    anyhow::ensure!(!found.is_empty(), "no preset gives {bits} bits; the most precise one gives {best:.1}");
    found.sort_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds));
    println!("  preset                        bits  worst  products  seconds  keys MB  matrices MB");
    for (preset, e) in &found {
        let surpassed = found.iter().any(|(_, other)| other.dominates(e));
        println!(
            "{} {:<28} {:>5.1}  {:>5.1}  {:>8}  {:>7.1}  {:>7.0}  {:>11.0}",
            if surpassed { ' ' } else { '*' },
            preset.name,
            e.bits(),
            -e.error.worst.log2(),
            e.depth,
            e.seconds,
            e.key_bytes as f64 / 1e6,
            e.matrix_bytes as f64 / 1e6,
        );
    }
    println!();
    println!("* no other preset is at least as good in bits, products, seconds and memory");
    println!("bits are those of the root mean square of the errors of slots of modulus 1, simulated; seconds are");
    println!("predicted for one thread of this machine, to a factor of two");
    Ok(())
}

/// Preset whose ring all candidates of a search have.
const SEARCHED_RING: &str = "n16_boot_depth15_scale40";

/// Most candidates of a search for each scale: some minutes for all.
const MAX_CANDIDATES: usize = 40;

/// Searches for the shapes of parameter sets whose bootstrap of `slots` slots gives `bits` bits.
pub fn search(bits: f64, slots: Option<usize>) -> anyhow::Result<()> {
    anyhow::ensure!(bits.is_finite() && bits > 0.0, "{bits} bits; needed a positive number");
    let parameters = Preset::find(SEARCHED_RING)?.build()?;
    let slots = slots.unwrap_or(parameters.slots());
    let model = one_thread(&parameters)?;
    let search = BootstrapSearch { bits, slots, most_candidates: MAX_CANDIDATES };
    let found = search.run(&model, progress::note)?;
    anyhow::ensure!(!found.is_empty(), "no shape that was tried gives {bits} bits; ask for fewer");
    println!("scale   bits  worst  products  seconds  keys MB  matrices MB  shape");
    let best = found.iter().filter(|one| !found.iter().any(|other| other.estimate.dominates(&one.estimate)));
    for FoundBootstrap { scale_bits, shape, estimate } in best {
        println!(
            "2^{scale_bits:<4} {:>5.1}  {:>5.1}  {:>8}  {:>7.1}  {:>7.0}  {:>11.0}  {shape}",
            estimate.bits(),
            -estimate.error.worst.log2(),
            estimate.depth,
            estimate.seconds,
            estimate.key_bytes as f64 / 1e6,
            estimate.matrix_bytes as f64 / 1e6,
        );
    }
    println!();
    println!(
        "Shapes that no other one surpasses, the fastest for a product first; sizes of levels are in bits. Bits of"
    );
    println!("precision are simulated; seconds are predicted for one thread of this machine, to a factor of two.");
    Ok(())
}

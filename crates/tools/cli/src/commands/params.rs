//! `unspoken params`

use serde_json::json;
use unspoken_ckks::{PRESETS, Preset};
use unspoken_exact::Scheme;
use unspoken_pir_scheme::{DatabaseShape, MAX_INDEX_BITS, Mode, PirParameters};
use unspoken_rlwe::{INSECURE_PREFIX, Parameters, SecuredObject};

/// List the parameter sets and their security
#[derive(clap::Args)]
pub struct Arguments {
    /// Print one JSON object per parameter set
    #[arg(long)]
    json: bool,
    /// Include the parameter sets for tests, which are not secure
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = |name: &str| arguments.all || !name.starts_with(INSECURE_PREFIX);
    let shipped = PRESETS.iter().filter(|preset| wanted(preset.name));
    if !arguments.json {
        println!(
            "{:32} {:>6} {:>6} {:>6} {:>7} {:>9}  purpose",
            "name", "slots", "levels", "scale", "log2 QP", "security"
        );
    }
    for preset in shipped {
        if arguments.json { print_json(preset)? } else { print_line(preset)? }
    }
    if !arguments.json {
        println!(
            "\n{:32} {:>6} {:>15} {:>7} {:>9}  purpose",
            "exact, name", "slots", "plain modulus", "log2 Q", "security"
        );
    }
    for preset in unspoken_exact::PRESETS.iter().filter(|preset| wanted(preset.name)) {
        // The objects of BFV and BGV are the same.
        let parameters = preset.build(Scheme::Bfv)?;
        if arguments.json {
            print_objects(preset.name, parameters.rlwe(), None);
            continue;
        }
        let (largest, security) = largest_and_security(parameters.rlwe());
        println!(
            "{:32} {:>6} {:>15} {largest:>7.1} {security:>9}  {}",
            preset.name,
            parameters.slots(),
            parameters.plain_modulus(),
            preset.purpose
        );
    }
    print_retrieval(arguments)
}

/// Index bits of a typical table, of about a million pieces, for the text output.
const USUAL_INDEX_BITS: u32 = 20;

/// Prints the parameter sets of private retrieval: every object, and the failure probability of a query.
fn print_retrieval(arguments: &Arguments) -> anyhow::Result<()> {
    for preset in unspoken_pir_scheme::Preset::ALL {
        let parameters = preset.build()?;
        if !arguments.all && parameters.ring().name().starts_with(INSECURE_PREFIX) {
            continue;
        }
        if arguments.json { print_retrieval_json(&parameters)? } else { print_retrieval_table(&parameters)? }
    }
    Ok(())
}

fn print_retrieval_json(parameters: &PirParameters) -> anyhow::Result<()> {
    // The mode with the highest failure probability, for the largest table it supports.
    let failures = Mode::ALL.into_iter().map(|mode| Ok(largest(parameters, mode)?.1));
    let log2_failure = failures.collect::<anyhow::Result<Vec<f64>>>()?.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let object = |o: &unspoken_pir_scheme::SecuredObject| {
        json!({
            "what": o.what, "n": o.dimension, "log2_q": round(o.log2_modulus), "secret": o.secret,
            "sigma": o.sigma, "security_bits": round(o.security_bits),
        })
    };
    let objects: Vec<_> = parameters.secured_objects().iter().map(object).collect();
    let name = parameters.ring().name();
    println!("{}", json!({ "name": name, "objects": objects, "log2_failure": round(log2_failure) }));
    Ok(())
}

fn print_retrieval_table(parameters: &PirParameters) -> anyhow::Result<()> {
    println!("\n{:36} {:>6} {:>7} {:>9} {:>9}  secret", "retrieval, object", "n", "log2 q", "sigma", "security");
    println!("{}", parameters.ring().name());
    for object in parameters.secured_objects() {
        let about = if object.security_bits >= 128.0 { ">=" } else { "about " };
        println!(
            "  {:34} {:>6} {:>7.1} {:>9.1} {:>9}  {}",
            object.what,
            object.dimension,
            object.log2_modulus,
            object.sigma,
            format!("{about}{:.0}", object.security_bits.floor()),
            object.secret
        );
    }
    println!("  queries to tables of pieces of {} bytes fail at most once in:", parameters.piece_bytes());
    for mode in Mode::ALL {
        let (most, largest) = largest(parameters, mode)?;
        let usual = log2_failure(parameters, mode, USUAL_INDEX_BITS)?;
        let sizes = format!("2^{:.0} (2^{USUAL_INDEX_BITS} pieces), 2^{:.0} (2^{most}, the most)", -usual, -largest);
        println!("    {:8} {sizes}", mode.to_string());
    }
    Ok(())
}

/// Index bits of the largest table that these parameters support in a mode, and `log2` of a query's failure
/// probability.
fn largest(parameters: &PirParameters, mode: Mode) -> anyhow::Result<(u32, f64)> {
    let serves = |bits: &u32| {
        let shape = DatabaseShape::new(parameters, 1 << bits);
        shape.is_ok_and(|shape| parameters.check_failure(shape, mode).is_ok())
    };
    let most = (USUAL_INDEX_BITS..=MAX_INDEX_BITS).rev().find(serves).unwrap_or(USUAL_INDEX_BITS);
    Ok((most, log2_failure(parameters, mode, most)?))
}

/// `log2` of the failure probability of a query in a mode to a table with this many index bits.
fn log2_failure(parameters: &PirParameters, mode: Mode, index_bits: u32) -> anyhow::Result<f64> {
    Ok(parameters.log2_failure(DatabaseShape::new(parameters, 1 << index_bits)?, mode))
}

fn print_line(preset: &Preset) -> anyhow::Result<()> {
    let parameters = preset.build()?;
    let (largest, security) = largest_and_security(parameters.rlwe());
    println!(
        "{:32} {:>6} {:>6} {:>6.1} {largest:>7.1} {security:>9}  {}",
        preset.name,
        parameters.slots(),
        parameters.max_level(),
        parameters.scale().log2(),
        preset.purpose
    );
    Ok(())
}

/// Bits of the largest modulus, and the security of the weakest object, for the text output.
fn largest_and_security(parameters: &Parameters) -> (f64, String) {
    let objects = parameters.secured_objects();
    let largest = objects.iter().map(|o| o.log2_modulus).fold(0.0, f64::max);
    let security = objects.iter().map(|o| o.security_bits).fold(f64::INFINITY, f64::min);
    (largest, format!("{}{security:.0}", if security >= 128.0 { ">=" } else { "about " }))
}

fn print_json(preset: &Preset) -> anyhow::Result<()> {
    let parameters = preset.build()?;
    print_objects(preset.name, parameters.rlwe(), parameters.log2_failure().map(round));
    Ok(())
}

fn print_objects(name: &str, parameters: &Parameters, log2_failure: Option<f64>) {
    let object = |o: &SecuredObject| {
        json!({
            "what": o.what, "n": o.degree, "log2_q": round(o.log2_modulus), "secret": o.secret.to_string(),
            "sigma": o.sigma, "security_bits": round(o.security_bits),
        })
    };
    let objects: Vec<_> = parameters.secured_objects().iter().map(object).collect();
    println!("{}", json!({ "name": name, "objects": objects, "log2_failure": log2_failure }));
}

fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

//! `unspoken params`

use serde_json::json;
use unspoken_ckks::{PRESETS, Preset};
use unspoken_rlwe::SecuredObject;

/// List the parameter sets and their security
#[derive(clap::Args)]
pub struct Arguments {
    /// One JSON object per parameter set
    #[arg(long)]
    json: bool,
    /// Also those for tests, which are not secure
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let shipped = PRESETS.iter().filter(|preset| arguments.all || !preset.name.starts_with("insecure_"));
    if !arguments.json {
        println!(
            "{:32} {:>6} {:>6} {:>6} {:>7} {:>9}  purpose",
            "name", "slots", "levels", "scale", "log2 QP", "security"
        );
    }
    for preset in shipped {
        if arguments.json { print_json(preset)? } else { print_line(preset)? }
    }
    Ok(())
}

fn print_line(preset: &Preset) -> anyhow::Result<()> {
    let parameters = preset.build()?;
    let objects = parameters.rlwe().secured_objects();
    let largest = objects.iter().map(|o| o.log2_modulus).fold(0.0, f64::max);
    let security = objects.iter().map(|o| o.security_bits).fold(f64::INFINITY, f64::min);
    println!(
        "{:32} {:>6} {:>6} {:>6.1} {:>7.1} {:>9}  {}",
        preset.name,
        parameters.slots(),
        parameters.max_level(),
        parameters.scale().log2(),
        largest,
        format!("{}{security:.0}", if security >= 128.0 { ">=" } else { "about " }),
        preset.purpose
    );
    Ok(())
}

fn print_json(preset: &Preset) -> anyhow::Result<()> {
    let parameters = preset.build()?;
    let object = |o: &SecuredObject| {
        json!({
            "what": o.what, "n": o.degree, "log2_q": round(o.log2_modulus), "secret": o.secret.to_string(),
            "sigma": o.sigma, "security_bits": round(o.security_bits),
        })
    };
    let objects: Vec<_> = parameters.rlwe().secured_objects().iter().map(object).collect();
    let failure = parameters.log2_failure().map(round);
    println!("{}", json!({ "name": preset.name, "objects": objects, "log2_failure": failure }));
    Ok(())
}

fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

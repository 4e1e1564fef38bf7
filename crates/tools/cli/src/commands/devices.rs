//! `unspoken devices`

use serde_json::json;

/// List the devices that a service can compute on
///
/// Their names are what `unspoken serve --device` takes. Language models, digits and private retrieval run on a device;
/// all other applications run on the processor.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (found, reason) = match unspoken_cuda::devices() {
        Ok(found) => (found, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    if arguments.json {
        let devices = found.iter().map(|device| {
            let (major, minor) = device.capability;
            let capability = format!("{major}.{minor}");
            json!({
                "name": device.name,
                "model": device.model,
                "compute_capability": capability,
                "memory_bytes": device.memory,
            })
        });
        println!("{}", json!({ "devices": devices.collect::<Vec<_>>(), "reason": reason }));
        return Ok(());
    }
    if found.is_empty() {
        println!("no device: {}", reason.as_deref().unwrap_or("the driver found none"));
    }
    for device in &found {
        let (major, minor) = device.capability;
        let gib = device.memory as f64 / f64::from(1 << 30);
        println!("{}  {}, {gib:.1} GiB, compute capability {major}.{minor}", device.name, device.model);
    }
    Ok(())
}

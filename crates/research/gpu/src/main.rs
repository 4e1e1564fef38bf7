//! The `unspoken-gpu-check` command.

mod bits;
mod bootstraps;
mod counting;
mod rates;
mod report;
mod retrieval;
mod table_bits;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use report::Report;
use serde_json::json;
use unspoken_ring::Device;

/// Compare a device with the processor, and measure both
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Device, such as cuda:0 [default: the kernels on the processor]
    #[arg(long)]
    device: Option<String>,
    /// Run this part alone: bits, rates, bootstraps, retrieval, threads, floors or
    /// retrieval-floors; may be given several times
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Small rings alone
    #[arg(long)]
    quick: bool,
    /// Write all lines to this file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Bytes of memory of the vehicle for tests.
const SHIM_BYTES: usize = 8 << 30;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut report = Report::new(arguments.out.clone());
    let device = match &arguments.device {
        Some(name) => unspoken_cuda::open(name)?,
        None => unspoken_device_shim::device(SHIM_BYTES),
    };
    let (free, memory) = device.memory()?;
    report.line(json!({
        "part": "machine", "device": device.name(), "model": device.model(), "memory": memory, "free": free,
        "threads": rayon::current_num_threads(), "backend": unspoken_ring::Backend::detect().name(),
    }))?;
    type Part = fn(&Device, bool, &mut Report) -> anyhow::Result<()>;
    let parts: [(&str, Part); 7] = [
        ("bits", |device, quick, report| {
            bits::run(device, quick, report)?;
            table_bits::run(device, quick, report)
        }),
        ("rates", rates::run),
        ("bootstraps", bootstraps::run),
        ("retrieval", retrieval::run),
        ("threads", bootstraps::threads),
        ("floors", bootstraps::floors),
        ("retrieval-floors", retrieval::floors),
    ];
    if let Some(unknown) = arguments.only.iter().find(|only| !parts.iter().any(|(name, _)| name == only)) {
        anyhow::bail!("--only {unknown}: needed one of {}", parts.map(|(name, _)| name).join(", "));
    }
    for (name, run) in parts {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == name) {
            let start = Instant::now();
            run(&device, arguments.quick, &mut report).with_context(|| format!("part {name}"))?;
            report.line(json!({ "part": name, "done_in": start.elapsed().as_secs_f64() }))?;
        }
    }
    report.finish()
}

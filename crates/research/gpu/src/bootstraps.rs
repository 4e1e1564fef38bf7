//! Bootstraps on the device and on the processor.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::{Map, Value, json};
use unspoken_ckks::{
    Bootstrap, BootstrapPhase, Bootstrapper, Ciphertext, CkksError, CkksParameters, Complex64, Encoder, Evaluator,
    Preset, SeededCiphertext, SlotValues,
};
use unspoken_device::{Launches, NAMES};
use unspoken_ring::{Device, SecretRng};
use unspoken_rlwe::{EvaluationKeys, KeyBundle, KeyStorage, SecretKey};

use crate::counting;
use crate::report::Report;

/// The presets, the preset of language models first.
const PRESETS: [&str; 2] = ["n16_boot_depth15_scale40", "n16_boot_depth10_scale50"];
const QUICK: [&str; 1] = ["insecure_n11_boot_depth10_scale50"];

/// Bootstraps that are timed.
const REPETITIONS: usize = 5;

fn parameters(preset: &str) -> anyhow::Result<CkksParameters> {
    Ok(Preset::find(preset)?.build()?)
}

/// What a client sends: its keys, and an encrypted vector at the lowest level.
struct Sent {
    keys: Vec<u8>,
    vector: Vec<u8>,
}

impl Sent {
    fn new(parameters: &CkksParameters) -> anyhow::Result<Self> {
        let encoder = Encoder::new(parameters);
        let plan = Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex)?;
        let mut rng = SecretRng::from_os()?;
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let mut keys = Vec::new();
        KeyBundle::write(&secret, &plan.key_plan(), &mut rng, &mut keys, |_, _| (), &AtomicBool::new(false))?;
        let value = |i: usize| Complex64::new((i % 7) as f64 / 7.0, (i % 5) as f64 / 9.0);
        let values: Vec<Complex64> = (0..parameters.slots()).map(value).collect();
        let plaintext = encoder.encode(&values, plan.input_level(), parameters.scale())?;
        let vector = encoder.encrypt(&plaintext, &secret, &mut rng)?.to_bytes(parameters);
        Ok(Sent { keys, vector })
    }
}

/// A server with the keys of a client.
struct Server {
    encoder: Encoder,
    keys: EvaluationKeys,
    bootstrapper: Bootstrapper,
    input: Ciphertext,
}

impl Server {
    fn new(parameters: &CkksParameters, sent: &Sent) -> anyhow::Result<Self> {
        let encoder = Encoder::new(parameters);
        let plan = Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex)?;
        let keys = KeyBundle::read(parameters.rlwe(), KeyStorage::Expanded, &mut sent.keys.as_slice())?;
        let bootstrapper = Bootstrapper::new(&encoder, plan)?;
        let input = SeededCiphertext::from_bytes(parameters, &sent.vector)?.expand(parameters);
        Ok(Server { encoder, keys, bootstrapper, input })
    }

    /// The bytes of a bootstrap, and its seconds.
    fn refresh(&self) -> anyhow::Result<(Vec<u8>, f64)> {
        self.timed(|evaluator| self.bootstrapper.refresh(evaluator, &self.input))
    }

    /// The same phase by phase, without a graph.
    fn in_phases(&self, ended: impl FnMut(BootstrapPhase)) -> anyhow::Result<(Vec<u8>, f64)> {
        self.timed(|evaluator| self.bootstrapper.refresh_in_phases(evaluator, &self.input, ended))
    }

    fn timed(
        &self,
        work: impl FnOnce(&Evaluator<'_>) -> Result<Ciphertext, CkksError>,
    ) -> anyhow::Result<(Vec<u8>, f64)> {
        let start = Instant::now();
        let mut result = work(&Evaluator::new(&self.encoder, &self.keys))?;
        let parameters = self.encoder.parameters();
        result.fetch(parameters)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((result.to_bytes(parameters), seconds))
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn run(device: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    for preset in presets(quick) {
        let host = parameters(preset)?;
        let sent = Sent::new(&host)?;
        let first = timed(device, preset, (&host, &sent), report)?;
        let (wanted, seconds) = Server::new(&host, &sent)?.refresh()?;
        report.line(json!({
            "part": "bootstraps", "preset": preset, "where": "processor", "seconds": seconds, "same": wanted == first,
        }))?;
    }
    Ok(())
}

/// What bootstraps cost, counted on a device that computes nothing: all, and each phase.
pub fn floors(_: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    for preset in presets(quick) {
        let (device, host) = (counting::device(), parameters(preset)?);
        let sent = Sent::new(&host)?;
        timed(&device, preset, (&host, &sent), report)?;
        let server = Server::new(&host.on_device(&device)?, &sent)?;
        // Its first bootstrap copies keys and matrices to the device.
        report.line(together(preset, &server, &device)?)?;
        let (mut before, mut rows) = (device.launches(), Vec::new());
        server.in_phases(|phase| {
            let kernels = counted(&before, &device.launches(), 1);
            before = device.launches();
            let row = json!({
                "part": "phases", "preset": preset, "phase": format!("{phase:?}"), "totals": totals(&kernels),
                "kernels": kernels,
            });
            rows.push(row);
        })?;
        rows.into_iter().try_for_each(|row| report.line(row))?;
    }
    Ok(())
}

/// The floor of memory of a bootstrap for each of several clients, if one pass ran all of them and read the matrices
/// once. Keys and ciphertexts are each client's own.
fn together(preset: &str, server: &Server, device: &Device) -> anyhow::Result<Value> {
    server.refresh()?;
    let before = device.launches();
    server.refresh()?;
    let all = totals(&counted(&before, &device.launches(), 1))["bytes"].as_u64().unwrap_or_default();
    let matrices = server.bootstrapper.plan().prepared_bytes();
    let each = |clients: u64| {
        let bytes = (all - matrices) + matrices / clients;
        json!({ "clients": clients, "h100_ms_of_memory": bytes as f64 / H100[1] * 1e3 })
    };
    let each = [1, 2, 4, 8, 16].map(each);
    Ok(json!({
        "part": "clients", "preset": preset, "bytes": all, "bytes_of_matrices": matrices, "each": each,
    }))
}

/// What was queued of each kernel between two counts, for each of some repetitions.
pub fn counted(before: &[Launches], after: &[Launches], repetitions: u64) -> Map<String, Value> {
    let each = NAMES.iter().zip(after.iter().zip(before)).map(|(name, (now, before))| {
        let count = |now: u64, before: u64| (now - before) / repetitions;
        let (work, earlier) = (now.work, before.work);
        let counts = json!({
            "launches": count(now.launches, before.launches),
            "blocks": count(now.blocks, before.blocks),
            "multiplications": count(work.multiplications, earlier.multiplications),
            "bytes": count(work.bytes, earlier.bytes),
        });
        ((*name).to_owned(), counts)
    });
    each.filter(|(_, counts)| counts["launches"] != 0).collect()
}

/// Multiplications, and bytes of memory, of an H100 in a second, by its data sheet.
const H100: [f64; 2] = [14e12, 3.35e12];

/// The counts of all kernels together, and the milliseconds that follow for an H100.
pub fn totals(kernels: &Map<String, Value>) -> Value {
    let total = |what: &str| kernels.values().filter_map(|counts| counts[what].as_u64()).sum::<u64>();
    let [launches, multiplications, bytes] = ["launches", "multiplications", "bytes"].map(total);
    json!({
        "launches": launches, "multiplications": multiplications, "bytes": bytes,
        "h100_ms_of_multiplications": multiplications as f64 / H100[0] * 1e3,
        "h100_ms_of_memory": bytes as f64 / H100[1] * 1e3,
    })
}

fn presets(quick: bool) -> &'static [&'static str] {
    if quick { &QUICK } else { &PRESETS }
}

/// Bootstraps on a device: the bytes of the result.
fn timed(
    device: &Device,
    preset: &str,
    (host, sent): (&CkksParameters, &Sent),
    report: &mut Report,
) -> anyhow::Result<Vec<u8>> {
    let there = host.on_device(device)?;
    let start = Instant::now();
    let server = Server::new(&there, sent)?;
    let loaded = start.elapsed().as_secs_f64();
    // The first one copies keys and matrices to the device.
    let (first, first_seconds) = server.refresh()?;
    let (before, launched) = (there.ring().fetched_polynomials(), device.launches());
    let copied = device.copied_bytes();
    let mut times = Vec::new();
    for _ in 0..REPETITIONS {
        let (bytes, seconds) = server.refresh()?;
        anyhow::ensure!(bytes == first, "a bootstrap on the device gave other bits than the one before it");
        times.push(seconds);
    }
    // The two components of each result.
    let repetitions = REPETITIONS as u64;
    let fetched = (there.ring().fetched_polynomials() - before) / repetitions;
    let kernels = counted(&launched, &device.launches(), repetitions);
    let recordings = device.recorded();
    // Without a graph.
    let times_of_kernels = (0..REPETITIONS).map(|_| {
        let (bytes, seconds) = server.in_phases(|_| ())?;
        anyhow::ensure!(bytes == first, "a bootstrap without a graph gave other bits");
        Ok(seconds)
    });
    let without_graph = median(times_of_kernels.collect::<anyhow::Result<_>>()?);
    let [up, down] = [0, 1].map(|which| (device.copied_bytes()[which] - copied[which]) / repetitions);
    let (used, idle) = device.taken_bytes();
    report.line(json!({
        "part": "bootstraps", "preset": preset, "where": device.name(), "seconds": median(times),
        "first_seconds": first_seconds, "load_seconds": loaded, "seconds_without_graph": without_graph,
        "graphs": recordings, "fetched": fetched, "used_bytes": used, "idle_bytes": idle, "bytes_to_device": up,
        "bytes_from_device": down, "totals": totals(&kernels), "kernels": kernels,
    }))?;
    Ok(first)
}

/// Bootstraps on some threads of the processor.
pub fn threads(_: &Device, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let preset = if quick { QUICK[0] } else { PRESETS[0] };
    let host = parameters(preset)?;
    let server = Server::new(&host, &Sent::new(&host)?)?;
    let most = rayon::current_num_threads();
    for count in std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|&count| count <= most) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build()?;
        let times = pool.install(|| (0..2).map(|_| Ok(server.refresh()?.1)).collect::<anyhow::Result<Vec<f64>>>())?;
        let seconds = times.into_iter().fold(f64::INFINITY, f64::min);
        report.line(json!({ "part": "threads", "preset": preset, "threads": count, "seconds": seconds }))?;
    }
    Ok(())
}

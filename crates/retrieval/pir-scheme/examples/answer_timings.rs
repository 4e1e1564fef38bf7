//! Measures the time of an answer, by phase: `answer_timings MEGABYTES [avx2|portable] [compact|bits|packed ...]`. For
//! one thread, set `RAYON_NUM_THREADS=1`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use unspoken_pir_scheme::{Database, Mode, Phase, PirParameters, PirSecret, Preset, SeededKeys, answer_in_phases};
use unspoken_ring::{Backend, SecretRng};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().unwrap_or_else(|| "16".into()).parse()?;
    let wanted: Vec<String> = arguments.collect();
    let backend = Backend::ALL.into_iter().find(|backend| wanted.iter().any(|name| name == backend.name()));
    let parameters = PirParameters::with_backend(Preset::N11.literal(), backend.unwrap_or(Backend::detect()))?;
    let mut rng = SecretRng::from_os()?;
    let mut records = vec![0; megabytes << 20];
    rng.fill(&mut records);
    let started = Instant::now();
    let database = Database::new(&parameters, 0, &records)?;
    let shape = database.shape();
    println!(
        "{} pieces encoded in {:.2} s, {} MB",
        shape.pieces,
        started.elapsed().as_secs_f64(),
        database.bytes() >> 20
    );
    println!("{shape:?}");
    let failures = Mode::ALL.map(|mode| parameters.log2_failure(shape, mode));
    println!("log2 of failure (compact, session, bits, packed): {failures:.1?}");
    println!("log2 deviation of a response: {:.2}", parameters.response_noise(shape).log2_deviation());
    println!("log2 deviation of a bit: {:.2}", parameters.bit_noise().log2_deviation());
    let bits = shape.index_bits();
    let compact = parameters.extracted_bit_noise(bits, 0).log2_deviation();
    println!("log2 deviation of the lowest bit of a compact query: {compact:.2}");
    println!("bits of a compact query that are refreshed first: {}", parameters.refreshed_bits(shape));
    let secret = PirSecret::generate(&parameters, &mut rng)?;
    for mode in [Mode::Packed, Mode::Bits, Mode::Compact] {
        if wanted.len() > usize::from(backend.is_some()) && !wanted.contains(&mode.to_string()) {
            continue;
        }
        let started = Instant::now();
        let keys = secret.keys(mode, &mut rng)?;
        let made = started.elapsed().as_secs_f64();
        println!("{mode}: {} bytes of keys", SeededKeys::byte_len(&parameters, mode));
        let keys = keys.expand()?;
        println!("{mode}: keys made in {made:.2} s, ready after {:.2} s", started.elapsed().as_secs_f64());
        for index in [0, 1, shape.pieces / 7, shape.pieces / 3, shape.pieces / 2, shape.pieces - 2, shape.pieces - 1] {
            let query = secret.query(mode, shape, index, &mut rng)?;
            let started = Instant::now();
            let (mut phases, mut since) = (BTreeMap::<Phase, Duration>::new(), started);
            let ended = |phase| {
                *phases.entry(phase).or_default() += since.elapsed();
                since = Instant::now();
            };
            let (planes, never) = ([database.view()], AtomicBool::new(false));
            let responses = answer_in_phases(&keys, shape, &planes, &query, &never, ended)?;
            let response = &responses[0];
            let seconds = started.elapsed().as_secs_f64();
            let start = index as usize * parameters.piece_bytes();
            assert!(*secret.extract(response, 0, index)? == records[start..start + parameters.piece_bytes()]);
            let ratio = (secret.measured_noise(response)?.0 / parameters.response_noise(shape).0).sqrt();
            println!(
                "{mode}: {seconds:.3} s, {} bytes, noise {ratio:.2} times the predicted, {phases:?}",
                response.to_bytes(&parameters).len()
            );
        }
    }
    Ok(())
}

//! CKKS: every way of encrypting a full vector, beside SEAL's.

use std::cell::RefCell;
use std::time::Duration;

use serde_json::{Map, Value};
use unspoken_audit::MessageSpace;
use unspoken_rlwe::ZeroEncryption;

use super::baseline::{self, Baseline, Primes, Subject};
use super::rache::{Cache, Times};
use super::shop::{SCALE, Shop};
use super::ways::{STOCK, Way, Worker};
use super::{ENCRYPT, TOGETHER, VALUES, unit_values};
use crate::clock::{Contender, Effort, alternate, scaled};
use crate::error::BenchError;
use crate::peer::SealCall;
use crate::row::{Metric, params};
use crate::session::Session;

const ENCODE: Metric = Metric::less("encode", "ms");

/// What is measured, SEAL apart: encoding is a contender of its own.
const OURS: [Option<Way>; 9] = [
    None,
    Some(Way::Vanilla),
    Some(Way::Zinc),
    Some(Way::Seeded),
    Some(Way::PublicKey),
    Some(Way::Pool { seeded: true }),
    Some(Way::Pool { seeded: false }),
    Some(Way::Fill { seeded: true }),
    Some(Way::Fill { seeded: false }),
];

const SEAL: [Subject; 8] = [
    (Primes::Matched, SealCall::Encode),
    (Primes::Matched, SealCall::Public),
    (Primes::Matched, SealCall::PublicZeroOfAllPrimes),
    (Primes::Matched, SealCall::Symmetric),
    (Primes::Matched, SealCall::SymmetricSeeded),
    (Primes::Fewest, SealCall::Encode),
    (Primes::Fewest, SealCall::Public),
    (Primes::Fewest, SealCall::Symmetric),
];

/// Seconds of everything, taken in turn.
struct Samples {
    ours: Vec<Vec<f64>>,
    /// None where SEAL is absent.
    seal: Vec<Vec<f64>>,
}

impl Samples {
    fn of(&self, way: Option<Way>) -> &[f64] {
        let found = OURS.iter().position(|&other| other == way);
        found.and_then(|i| self.ours.get(i)).map_or(&[], Vec::as_slice)
    }

    fn of_seal(&self, subject: Subject) -> Option<&[f64]> {
        let found = SEAL.iter().position(|&other| other == subject)?;
        self.seal.get(found).map(Vec::as_slice)
    }

    /// Encoding and then a way, repetition by repetition.
    fn together(&self, way: Way) -> Vec<f64> {
        sums(self.of(None), self.of(Some(way)))
    }

    fn seal_together(&self, (primes, call): Subject) -> Option<Vec<f64>> {
        Some(sums(self.of_seal((primes, SealCall::Encode))?, self.of_seal((primes, call))?))
    }
}

/// The suite's part.
pub(super) fn run(
    session: &mut Session<'_>,
    shop: &Shop,
    seal: &mut Baseline,
    caches: &[Cache],
) -> Result<(), BenchError> {
    session.note("CKKS: every way in turn, with SEAL");
    let samples = sample(session, shop, seal)?;
    encodings(session, shop, seal, &samples);
    for way in OURS.into_iter().flatten() {
        report(session, shop, seal, &samples, way);
    }
    sizes(session, shop, seal)?;
    for &cache in caches {
        session.note(format!("CKKS: {}", cache.name()));
        let times = cache.measure(session, shop, &[], session.slow_effort())?;
        report_rache(session, shop, cache, &times);
    }
    Ok(())
}

/// Checks everything, then times it in turn.
fn sample(session: &Session<'_>, shop: &Shop, seal: &mut Baseline) -> Result<Samples, BenchError> {
    let (clock, single) = (session.clock(), &session.single);
    let values = unit_values(shop.slots());
    let message = shop.message(&values)?;
    let (there, seal) = (seal.is_there(), RefCell::new(seal));
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for way in OURS {
        let Some(way) = way else {
            contenders.push(Box::new(|| {
                let (made, seconds) = clock.time_in(single, || shop.encode(&values));
                made?;
                Ok(seconds)
            }));
            continue;
        };
        let mut worker = Worker::new(shop, way)?;
        worker.check(&way.to_string(), &values)?;
        let message = &message;
        contenders.push(Box::new(move || {
            worker.prepare()?;
            let (made, seconds) = clock.time_in(single, || worker.work(message));
            made?;
            Ok(seconds)
        }));
    }
    if there {
        for subject in SEAL {
            let seal = &seal;
            contenders.push(Box::new(move || seal.borrow_mut().time(subject)));
        }
    }
    let effort = if session.options.quick {
        session.effort()
    } else {
        Effort { least: 11, most: 41, budget: Duration::from_secs(20) }
    };
    let mut ours = alternate(effort, &mut contenders)?;
    let seal = ours.split_off(OURS.len());
    Ok(Samples { ours, seal })
}

fn encodings(session: &mut Session<'_>, shop: &Shop, seal: &Baseline, samples: &Samples) {
    let subject = (Primes::Matched, SealCall::Encode);
    let theirs = samples.of_seal(subject).map(|seconds| scaled(seconds, 1e3));
    let theirs = theirs.as_ref().map(|ms| (baseline::name(subject), ms.as_slice()));
    let params = with(params_of(shop), seal.params(subject.0));
    let theirs = theirs.as_ref().map(|(name, ms)| (name.as_str(), *ms));
    session.timing(ENCODE, "CKKS, encoding of all slots", &scaled(samples.of(None), 1e3), theirs, params);
}

/// The baselines of a way: SEAL's calls, and whether vanilla encryption and Zinc are among them.
fn baselines(way: Way) -> (&'static [Subject], &'static [Way]) {
    const PUBLIC: [Subject; 3] = [
        (Primes::Matched, SealCall::Public),
        (Primes::Matched, SealCall::PublicZeroOfAllPrimes),
        (Primes::Fewest, SealCall::Public),
    ];
    const SYMMETRIC: [Subject; 4] = [
        (Primes::Matched, SealCall::Symmetric),
        (Primes::Matched, SealCall::SymmetricSeeded),
        (Primes::Fewest, SealCall::Symmetric),
        (Primes::Matched, SealCall::Public),
    ];
    match way {
        Way::Vanilla => (&PUBLIC, &[]),
        Way::Zinc => (&[], &[Way::Vanilla]),
        Way::Seeded => (&SYMMETRIC, &[Way::Vanilla, Way::Zinc]),
        Way::PublicKey | Way::Pool { .. } => (&PUBLIC, &[Way::Vanilla, Way::Zinc]),
        Way::Fill { .. } => (&[], &[]),
    }
}

/// A baseline of a way: seconds of encryption alone, and with encoding.
struct Theirs {
    name: String,
    alone: Vec<f64>,
    /// None of a zero without a message, which is no encryption.
    together: Option<Vec<f64>>,
    params: Map<String, Value>,
}

/// The baselines of a way that were measured.
fn theirs(shop: &Shop, seal: &Baseline, samples: &Samples, way: Way) -> Vec<Theirs> {
    let (subjects, ways) = baselines(way);
    let of_seal = |&subject: &Subject| {
        let is_whole = subject.1 != SealCall::PublicZeroOfAllPrimes;
        Some(Theirs {
            name: baseline::name(subject),
            alone: samples.of_seal(subject)?.to_vec(),
            together: samples.seal_together(subject).filter(|_| is_whole),
            params: with(params_of(shop), seal.params(subject.0)),
        })
    };
    let of_way = |&way: &Way| Theirs {
        name: way.to_string(),
        alone: samples.of(Some(way)).to_vec(),
        together: Some(samples.together(way)),
        params: params_of(shop),
    };
    subjects.iter().filter_map(of_seal).chain(ways.iter().map(of_way)).collect()
}

/// The rows of one way: encryption alone, with encoding, and numbers per second with it.
fn report(session: &mut Session<'_>, shop: &Shop, seal: &Baseline, samples: &Samples, way: Way) {
    let case = format!("CKKS, {way}");
    let ms = |seconds: &[f64]| scaled(seconds, 1e3);
    let rate = |seconds: &[f64]| seconds.iter().map(|s| shop.slots() as f64 / s).collect::<Vec<f64>>();
    let (alone, together) = (samples.of(Some(way)), samples.together(way));
    let found = theirs(shop, seal, samples, way);
    for Theirs { name, alone: other, params, .. } in &found {
        session.timing(ENCRYPT, &case, &ms(alone), Some((name, &ms(other))), params.clone());
    }
    if found.is_empty() {
        session.timing(ENCRYPT, &case, &ms(alone), None, params_of(shop));
        if !matches!(way, Way::Fill { .. }) {
            session.timing(TOGETHER, &case, &ms(&together), None, params_of(shop));
            session.timing(VALUES, &case, &rate(&together), None, params_of(shop));
        }
    }
    for Theirs { name, together: other, params, .. } in &found {
        let Some(other) = other else { continue };
        session.timing(TOGETHER, &case, &ms(&together), Some((name, &ms(other))), params.clone());
        session.timing(VALUES, &case, &rate(&together), Some((name, &rate(other))), params.clone());
    }
}

fn report_rache(session: &mut Session<'_>, shop: &Shop, cache: Cache, times: &Times) {
    let (case, vanilla) = (format!("CKKS, {}", cache.name()), Way::Vanilla.to_string());
    let theirs = scaled(&times.vanilla, 1e3);
    let params = || with(params_of(shop), params! { "values_per_ciphertext": 1 });
    session.timing(ENCRYPT, &case, &scaled(&times.rache, 1e3), Some((&vanilla, &theirs)), params());
    let rate: Vec<f64> = times.rache.iter().map(|s| 1.0 / s).collect();
    session.timing(VALUES, &case, &rate, None, params());
}

/// Bytes of ciphertexts as sent, and of a pool's entries in memory.
fn sizes(session: &mut Session<'_>, shop: &Shop, seal: &Baseline) -> Result<(), BenchError> {
    let (parameters, chain) = (shop.space.rlwe(), shop.space.basis().chain);
    let theirs = seal.setup(Primes::Matched).map(|setup| setup.ciphertext_bytes.clone());
    for (seeded, name) in [(true, "secret"), (false, "public key")] {
        let sent = ZeroEncryption::byte_len(parameters, chain, seeded) as f64;
        let theirs =
            theirs.as_ref().map(|bytes| if seeded { bytes.encrypt_symmetric_seeded } else { bytes.encrypt_public });
        let theirs = theirs.map(|bytes| ("SEAL, compressed", bytes as f64));
        let params = with(params_of(shop), seal.params(Primes::Matched));
        session.fact(Metric::less("ciphertext_bytes", "bytes"), format!("CKKS, {name}"), sent, theirs, params);
        let entry = ZeroEncryption::memory_bytes(parameters, chain, seeded) as f64;
        let params = with(params_of(shop), params! { "entries": STOCK, "bytes_of_all": STOCK as f64 * entry });
        session.fact(Metric::less("pool_entry_memory", "bytes"), format!("CKKS, {name}"), entry, None, params);
    }
    Ok(())
}

/// What a row was measured with.
fn params_of(shop: &Shop) -> Map<String, Value> {
    let MessageSpace::Approximate(encoder) = &shop.space else { return Map::new() };
    let parameters = encoder.parameters();
    let level = parameters.max_level();
    params! {
        "preset": parameters.name(), "n": parameters.ring().degree(), "slots": parameters.slots(),
        "primes": parameters.chain(level), "log2_q": baseline::rounded(parameters.log2_modulus(level)), "scale_bits": SCALE.log2(),
        "backend": parameters.ring().backend().name(),
    }
}

fn with(mut params: Map<String, Value>, more: Map<String, Value>) -> Map<String, Value> {
    params.extend(more);
    params
}

fn sums(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

//! CKKS: every method of encrypting a full vector, compared with SEAL's.

use std::cell::RefCell;
use std::time::Duration;

use serde_json::{Map, Value};
use unspoken_audit::MessageSpace;
use unspoken_audit::insecure_reproduction::RacheShape;
use unspoken_rlwe::ZeroEncryption;

use super::methods::{EncryptionMethod, POOL_SIZE, PreparedMethod, timed_encoding};
use super::rache::{self, RacheTimes};
use super::scheme::{SCALE, SchemeFixture};
use super::seal::{self, SealBaseline, SealOperation, SealPrimes};
use super::{ENCRYPT, TOGETHER, VALUES, unit_values};
use crate::clock::{Repetitions, TimedOperation, alternate, scaled};
use crate::harness::Harness;
use crate::peer::SealCall;
use crate::row::{Metric, params};

const ENCODE: Metric = Metric::less("encode", "ms");

/// Measurements compared with SEAL: encoding (`None`), then the methods.
const OURS: [Option<EncryptionMethod>; 9] = [
    None,
    Some(EncryptionMethod::Vanilla),
    Some(EncryptionMethod::Zinc),
    Some(EncryptionMethod::Seeded),
    Some(EncryptionMethod::PublicKey),
    Some(EncryptionMethod::Pool { seeded: true }),
    Some(EncryptionMethod::Pool { seeded: false }),
    Some(EncryptionMethod::Fill { seeded: true }),
    Some(EncryptionMethod::Fill { seeded: false }),
];

const SEAL: [SealOperation; 8] = [
    (SealPrimes::Matched, SealCall::Encode),
    (SealPrimes::Matched, SealCall::Public),
    (SealPrimes::Matched, SealCall::PublicZeroOfAllPrimes),
    (SealPrimes::Matched, SealCall::Symmetric),
    (SealPrimes::Matched, SealCall::SymmetricSeeded),
    (SealPrimes::Fewest, SealCall::Encode),
    (SealPrimes::Fewest, SealCall::Public),
    (SealPrimes::Fewest, SealCall::Symmetric),
];

/// Seconds of all measurements, taken in turn.
struct MethodTimes {
    ours: Vec<Vec<f64>>,
    /// Empty if SEAL is absent.
    seal: Vec<Vec<f64>>,
}

impl MethodTimes {
    fn of(&self, method: Option<EncryptionMethod>) -> &[f64] {
        let found = OURS.iter().position(|&other| other == method);
        found.and_then(|i| self.ours.get(i)).map_or(&[], Vec::as_slice)
    }

    fn of_seal(&self, operation: SealOperation) -> Option<&[f64]> {
        let found = SEAL.iter().position(|&other| other == operation)?;
        self.seal.get(found).map(Vec::as_slice)
    }

    /// Sums of encoding and a method, repetition by repetition.
    fn together(&self, method: EncryptionMethod) -> Vec<f64> {
        sums(self.of(None), self.of(Some(method)))
    }

    fn seal_together(&self, (primes, call): SealOperation) -> Option<Vec<f64>> {
        Some(sums(self.of_seal((primes, SealCall::Encode))?, self.of_seal((primes, call))?))
    }
}

/// Runs this part of the suite.
pub(super) fn run(
    harness: &mut Harness<'_>,
    fixture: &SchemeFixture,
    seal: &mut SealBaseline,
    caches: &[RacheShape],
) -> anyhow::Result<()> {
    harness.progress("CKKS: every method in turn, with SEAL");
    let samples = sample(harness, fixture, seal)?;
    encodings(harness, fixture, seal, &samples);
    for method in OURS.into_iter().flatten() {
        report(harness, fixture, seal, &samples, method);
    }
    sizes(harness, fixture, seal)?;
    for &shape in caches {
        harness.progress(format!("CKKS: {}", rache::name(shape)));
        let times = rache::measure(shape, harness, fixture, &[], harness.slow_repetitions())?;
        report_rache(harness, fixture, shape, &times);
    }
    Ok(())
}

/// Checks all methods, then times them in turn.
fn sample(harness: &Harness<'_>, fixture: &SchemeFixture, seal: &mut SealBaseline) -> anyhow::Result<MethodTimes> {
    let stopwatch = harness.stopwatch();
    let values = unit_values(fixture.slots());
    let message = fixture.message(&values)?;
    let (there, seal) = (seal.is_there(), RefCell::new(seal));
    let mut operations: Vec<TimedOperation<'_>> = Vec::new();
    for method in OURS {
        let Some(method) = method else {
            operations.push(timed_encoding(stopwatch, fixture, &values));
            continue;
        };
        let mut prepared = PreparedMethod::new(fixture, method)?;
        prepared.check(&method.to_string(), &values)?;
        operations.push(prepared.timed(stopwatch, &message));
    }
    if there {
        for operation in SEAL {
            let seal = &seal;
            operations.push(Box::new(move || seal.borrow_mut().time(operation)));
        }
    }
    let repetitions = if harness.options.quick {
        harness.repetitions()
    } else {
        Repetitions { min: 11, max: 41, budget: Duration::from_secs(20) }
    };
    let mut ours = alternate(repetitions, &mut operations)?;
    let seal = ours.split_off(OURS.len());
    Ok(MethodTimes { ours, seal })
}

fn encodings(harness: &mut Harness<'_>, fixture: &SchemeFixture, seal: &SealBaseline, samples: &MethodTimes) {
    let operation = (SealPrimes::Matched, SealCall::Encode);
    let theirs = samples.of_seal(operation).map(|seconds| scaled(seconds, 1e3));
    let theirs = theirs.as_ref().map(|ms| (seal::name(operation), ms.as_slice()));
    let params = with(params_of(fixture), seal.params(operation.0));
    let theirs = theirs.as_ref().map(|(name, ms)| (name.as_str(), *ms));
    harness.timing(ENCODE, "CKKS, encoding of all slots", &scaled(samples.of(None), 1e3), theirs, params);
}

/// Baselines of a method: calls of SEAL, and our methods among vanilla encryption and Zinc.
fn baselines(method: EncryptionMethod) -> (&'static [SealOperation], &'static [EncryptionMethod]) {
    const PUBLIC: [SealOperation; 3] = [
        (SealPrimes::Matched, SealCall::Public),
        (SealPrimes::Matched, SealCall::PublicZeroOfAllPrimes),
        (SealPrimes::Fewest, SealCall::Public),
    ];
    const SYMMETRIC: [SealOperation; 4] = [
        (SealPrimes::Matched, SealCall::Symmetric),
        (SealPrimes::Matched, SealCall::SymmetricSeeded),
        (SealPrimes::Fewest, SealCall::Symmetric),
        (SealPrimes::Matched, SealCall::Public),
    ];
    match method {
        EncryptionMethod::Vanilla => (&PUBLIC, &[]),
        EncryptionMethod::Zinc => (&[], &[EncryptionMethod::Vanilla]),
        EncryptionMethod::Seeded => (&SYMMETRIC, &[EncryptionMethod::Vanilla, EncryptionMethod::Zinc]),
        EncryptionMethod::PublicKey | EncryptionMethod::Pool { .. } => {
            (&PUBLIC, &[EncryptionMethod::Vanilla, EncryptionMethod::Zinc])
        }
        EncryptionMethod::Fill { .. } => (&[], &[]),
    }
}

/// A baseline of a method: seconds of encryption alone, and with encoding.
struct BaselineTimes {
    name: String,
    alone: Vec<f64>,
    /// `None` for a zero without a message, which is not an encryption of a message.
    together: Option<Vec<f64>>,
    params: Map<String, Value>,
}

/// The measured baselines of a method.
fn baseline_times(
    fixture: &SchemeFixture,
    seal: &SealBaseline,
    samples: &MethodTimes,
    method: EncryptionMethod,
) -> Vec<BaselineTimes> {
    let (operations, methods) = baselines(method);
    let of_seal = |&operation: &SealOperation| {
        let is_whole = operation.1 != SealCall::PublicZeroOfAllPrimes;
        Some(BaselineTimes {
            name: seal::name(operation),
            alone: samples.of_seal(operation)?.to_vec(),
            together: samples.seal_together(operation).filter(|_| is_whole),
            params: with(params_of(fixture), seal.params(operation.0)),
        })
    };
    let of_method = |&method: &EncryptionMethod| BaselineTimes {
        name: method.to_string(),
        alone: samples.of(Some(method)).to_vec(),
        together: Some(samples.together(method)),
        params: params_of(fixture),
    };
    operations.iter().filter_map(of_seal).chain(methods.iter().map(of_method)).collect()
}

/// Rows of one method: encryption alone, with encoding, and numbers per second with encoding.
fn report(
    harness: &mut Harness<'_>,
    fixture: &SchemeFixture,
    seal: &SealBaseline,
    samples: &MethodTimes,
    method: EncryptionMethod,
) {
    let case = format!("CKKS, {method}");
    let ms = |seconds: &[f64]| scaled(seconds, 1e3);
    let rate = |seconds: &[f64]| seconds.iter().map(|s| fixture.slots() as f64 / s).collect::<Vec<f64>>();
    let (alone, together) = (samples.of(Some(method)), samples.together(method));
    let found = baseline_times(fixture, seal, samples, method);
    for BaselineTimes { name, alone: other, params, .. } in &found {
        harness.timing(ENCRYPT, &case, &ms(alone), Some((name, &ms(other))), params.clone());
    }
    if found.is_empty() {
        harness.timing(ENCRYPT, &case, &ms(alone), None, params_of(fixture));
        if !matches!(method, EncryptionMethod::Fill { .. }) {
            harness.timing(TOGETHER, &case, &ms(&together), None, params_of(fixture));
            harness.timing(VALUES, &case, &rate(&together), None, params_of(fixture));
        }
    }
    for BaselineTimes { name, together: other, params, .. } in &found {
        let Some(other) = other else { continue };
        harness.timing(TOGETHER, &case, &ms(&together), Some((name, &ms(other))), params.clone());
        harness.timing(VALUES, &case, &rate(&together), Some((name, &rate(other))), params.clone());
    }
}

fn report_rache(harness: &mut Harness<'_>, fixture: &SchemeFixture, shape: RacheShape, times: &RacheTimes) {
    let (case, vanilla) = (format!("CKKS, {}", rache::name(shape)), EncryptionMethod::Vanilla.to_string());
    let theirs = scaled(&times.vanilla, 1e3);
    let params = || with(params_of(fixture), params! { "values_per_ciphertext": 1 });
    harness.timing(ENCRYPT, &case, &scaled(&times.rache, 1e3), Some((&vanilla, &theirs)), params());
    let rate: Vec<f64> = times.rache.iter().map(|s| 1.0 / s).collect();
    harness.timing(VALUES, &case, &rate, None, params());
}

/// Bytes of ciphertexts on the wire, and of a pool's entries in memory.
fn sizes(harness: &mut Harness<'_>, fixture: &SchemeFixture, seal: &SealBaseline) -> anyhow::Result<()> {
    let (parameters, basis) = (fixture.space.rlwe(), fixture.space.basis());
    let theirs = seal.setup(SealPrimes::Matched).map(|setup| setup.ciphertext_bytes.clone());
    for (seeded, name) in [(true, "secret"), (false, "public key")] {
        let sent = ZeroEncryption::byte_len(parameters, basis, seeded) as f64;
        let theirs =
            theirs.as_ref().map(|bytes| if seeded { bytes.encrypt_symmetric_seeded } else { bytes.encrypt_public });
        let theirs = theirs.map(|bytes| ("SEAL, compressed", bytes as f64));
        let params = with(params_of(fixture), seal.params(SealPrimes::Matched));
        harness.value(Metric::less("ciphertext_bytes", "bytes"), format!("CKKS, {name}"), sent, theirs, params);
        let entry = ZeroEncryption::memory_bytes(parameters, basis, seeded) as f64;
        let params =
            with(params_of(fixture), params! { "entries": POOL_SIZE, "bytes_of_all": POOL_SIZE as f64 * entry });
        harness.value(Metric::less("pool_entry_memory", "bytes"), format!("CKKS, {name}"), entry, None, params);
    }
    Ok(())
}

/// Parameters of the rows.
fn params_of(fixture: &SchemeFixture) -> Map<String, Value> {
    let MessageSpace::Approximate(encoder) = &fixture.space else { return Map::new() };
    let parameters = encoder.parameters();
    let level = parameters.max_level();
    params! {
        "preset": parameters.name(), "n": parameters.ring().degree(), "slots": parameters.slots(),
        "primes": parameters.limbs(level), "log2_q": seal::rounded(parameters.log2_modulus(level)),
        "scale_bits": SCALE.log2(),
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

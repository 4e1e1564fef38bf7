//! BFV and BGV: the published methods and the product's, with vanilla encryption as the baseline, and with SEAL's in
//! BFV. tenseal, through which SEAL is measured, does not have its BGV; the rows say so.

use std::cell::RefCell;

use unspoken_audit::insecure_reproduction::RacheShape;
use unspoken_audit::{MessageSpace, Scheme};

use super::methods::{EncryptionMethod, PreparedMethod, timed_encoding};
use super::rache;
use super::scheme::SchemeFixture;
use super::seal::{self, SealBaseline, SealPrimes};
use super::{ENCRYPT, TOGETHER};
use crate::clock::{alternate, scaled};
use crate::harness::Harness;
use crate::peer::SealCall;
use crate::row::{Metric, params};

/// Measures one scheme. Encoding includes the transform over the ciphertext's modulus.
pub(super) fn run(
    harness: &mut Harness<'_>,
    fixture: &SchemeFixture,
    seal: &mut SealBaseline,
    caches: &[RacheShape],
) -> anyhow::Result<()> {
    let MessageSpace::Exact(encoder) = &fixture.space else { return Ok(()) };
    let (scheme, parameters) = (fixture.space.scheme(), encoder.parameters());
    let params = || {
        let ring = parameters.ring();
        let mut params = params! {
            "preset": parameters.name(), "n": ring.degree(), "slots": parameters.slots(), "primes": ring.chain().len(),
            "plain_modulus": parameters.plain_modulus(), "backend": ring.backend().name(),
        };
        if scheme == Scheme::Bgv {
            params.insert("seal".into(), "not measured: tenseal has no BGV".into());
        }
        params
    };
    harness.progress(format!("{scheme}: every method in turn"));
    let samples = sample(harness, fixture, seal)?;
    let (encode, rest) = samples.split_at(1);
    let (rest, of_seal) = rest.split_at(EncryptionMethod::ENCRYPTING.len());
    let together = |seconds: &[f64]| encode[0].iter().zip(seconds).map(|(a, b)| 1e3 * (a + b)).collect::<Vec<f64>>();
    let ms = scaled(&encode[0], 1e3);
    harness.timing(Metric::less("encode", "ms"), format!("{scheme}, encoding of all slots"), &ms, None, params());
    let vanilla = EncryptionMethod::Vanilla.to_string();
    for (method, seconds) in EncryptionMethod::ENCRYPTING.iter().zip(rest) {
        let case = format!("{scheme}, {method}");
        let theirs = (*method != EncryptionMethod::Vanilla).then(|| (scaled(&rest[0], 1e3), together(&rest[0])));
        let baseline = theirs.as_ref().map(|(alone, _)| (vanilla.as_str(), alone.as_slice()));
        harness.timing(ENCRYPT, &case, &scaled(seconds, 1e3), baseline, params());
        let baseline = theirs.as_ref().map(|(_, together)| (vanilla.as_str(), together.as_slice()));
        harness.timing(TOGETHER, &case, &together(seconds), baseline, params());
    }
    for (method, seconds) in EncryptionMethod::ENCRYPTING.iter().zip(rest) {
        for (call, theirs) in SEAL.iter().zip(of_seal).filter(|(call, _)| seal_calls(*method).contains(call)) {
            let operation = (SealPrimes::Matched, *call);
            let (name, ms) = (seal::name(operation), scaled(theirs, 1e3));
            let mut params = params();
            params.extend(seal.params(SealPrimes::Matched));
            harness.timing(ENCRYPT, format!("{scheme}, {method}"), &scaled(seconds, 1e3), Some((&name, &ms)), params);
        }
    }
    for &shape in caches {
        harness.progress(format!("{scheme}: {}", rache::name(shape)));
        let times = rache::measure(shape, harness, fixture, &[], harness.slow_repetitions())?;
        let baseline = scaled(&times.vanilla, 1e3);
        let case = format!("{scheme}, {}", rache::name(shape));
        harness.timing(ENCRYPT, case, &scaled(&times.rache, 1e3), Some((&vanilla, &baseline)), params());
    }
    Ok(())
}

/// The calls of SEAL that are timed.
const SEAL: [SealCall; 3] = [SealCall::Public, SealCall::Symmetric, SealCall::SymmetricSeeded];

/// The calls of SEAL that do what a method does.
fn seal_calls(method: EncryptionMethod) -> &'static [SealCall] {
    match method {
        EncryptionMethod::Seeded | EncryptionMethod::Pool { seeded: true } => {
            &[SealCall::Symmetric, SealCall::SymmetricSeeded]
        }
        EncryptionMethod::Vanilla | EncryptionMethod::PublicKey | EncryptionMethod::Pool { seeded: false } => {
            &[SealCall::Public]
        }
        EncryptionMethod::Zinc | EncryptionMethod::Fill { .. } => &[],
    }
}

/// Seconds of encoding, then of each method, then of each call of SEAL if it is there, taken in turn.
fn sample(harness: &Harness<'_>, fixture: &SchemeFixture, seal: &mut SealBaseline) -> anyhow::Result<Vec<Vec<f64>>> {
    let (there, seal) = (seal.is_there(), RefCell::new(seal));
    let stopwatch = harness.stopwatch();
    let limit = fixture.plain_modulus().map_or(1.0, |t| f64::from(t / 2));
    let values: Vec<f64> = super::unit_values(fixture.slots()).iter().map(|x| (x * limit).round()).collect();
    let message = fixture.message(&values)?;
    let mut operations = vec![timed_encoding(stopwatch, fixture, &values)];
    for method in EncryptionMethod::ENCRYPTING {
        let mut prepared = PreparedMethod::new(fixture, method)?;
        prepared.check(&format!("{}, {method}", fixture.space.scheme()), &values)?;
        operations.push(prepared.timed(stopwatch, &message));
    }
    for call in SEAL.into_iter().filter(|_| there) {
        let seal = &seal;
        operations.push(Box::new(move || seal.borrow_mut().time((SealPrimes::Matched, call))));
    }
    alternate(harness.repetitions(), &mut operations)
}

//! BFV and BGV: the published methods and the product's, with vanilla encryption as the baseline.

use unspoken_audit::MessageSpace;
use unspoken_audit::insecure_reproduction::RacheShape;

use super::methods::{EncryptionMethod, PreparedMethod, timed_encoding};
use super::rache;
use super::scheme::SchemeFixture;
use super::{ENCRYPT, TOGETHER};
use crate::clock::{alternate, scaled};
use crate::error::BenchError;
use crate::harness::Harness;
use crate::row::{Metric, params};

/// Measures one scheme. Encoding includes the transform over the ciphertext's modulus.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &SchemeFixture, caches: &[RacheShape]) -> Result<(), BenchError> {
    let MessageSpace::Exact(encoder) = &fixture.space else { return Ok(()) };
    let (scheme, parameters) = (fixture.space.scheme(), encoder.parameters());
    let params = || {
        let ring = parameters.ring();
        params! {
            "preset": parameters.name(), "n": ring.degree(), "slots": parameters.slots(), "primes": ring.chain().len(),
            "plain_modulus": parameters.plain_modulus(), "backend": ring.backend().name(),
        }
    };
    harness.progress(format!("{scheme}: every method in turn"));
    let samples = sample(harness, fixture)?;
    let (encode, rest) = samples.split_at(1);
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
    for &shape in caches {
        harness.progress(format!("{scheme}: {}", rache::name(shape)));
        let times = rache::measure(shape, harness, fixture, &[], harness.slow_repetitions())?;
        let baseline = scaled(&times.vanilla, 1e3);
        let case = format!("{scheme}, {}", rache::name(shape));
        harness.timing(ENCRYPT, case, &scaled(&times.rache, 1e3), Some((&vanilla, &baseline)), params());
    }
    Ok(())
}

/// Seconds of encoding, then of each method, taken in turn.
fn sample(harness: &Harness<'_>, fixture: &SchemeFixture) -> Result<Vec<Vec<f64>>, BenchError> {
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
    alternate(harness.repetitions(), &mut operations)
}

//! BFV and BGV: the published ways and the product's, with vanilla encryption as the baseline of all.

use unspoken_audit::MessageSpace;

use super::rache::Cache;
use super::shop::Shop;
use super::ways::{Way, Worker};
use super::{ENCRYPT, TOGETHER};
use crate::clock::{Contender, alternate, scaled};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

/// One scheme. Encoding includes the transform over the ciphertext's modulus.
pub(super) fn run(session: &mut Session<'_>, shop: &Shop, caches: &[Cache]) -> Result<(), BenchError> {
    let MessageSpace::Exact(encoder) = &shop.space else { return Ok(()) };
    let (scheme, parameters) = (shop.space.scheme(), encoder.parameters());
    let params = || {
        let ring = parameters.ring();
        params! {
            "preset": parameters.name(), "n": ring.degree(), "slots": parameters.slots(), "primes": ring.chain().len(),
            "plain_modulus": parameters.plain_modulus(), "backend": ring.backend().name(),
        }
    };
    session.note(format!("{scheme}: every way in turn"));
    let samples = sample(session, shop)?;
    let (encode, rest) = samples.split_at(1);
    let together = |seconds: &[f64]| encode[0].iter().zip(seconds).map(|(a, b)| 1e3 * (a + b)).collect::<Vec<f64>>();
    let ms = scaled(&encode[0], 1e3);
    session.timing(Metric::less("encode", "ms"), format!("{scheme}, encoding of all slots"), &ms, None, params());
    let vanilla = Way::Vanilla.to_string();
    for (way, seconds) in Way::ENCRYPTING.iter().zip(rest) {
        let case = format!("{scheme}, {way}");
        let theirs = (*way != Way::Vanilla).then(|| (scaled(&rest[0], 1e3), together(&rest[0])));
        let baseline = theirs.as_ref().map(|(alone, _)| (vanilla.as_str(), alone.as_slice()));
        session.timing(ENCRYPT, &case, &scaled(seconds, 1e3), baseline, params());
        let baseline = theirs.as_ref().map(|(_, together)| (vanilla.as_str(), together.as_slice()));
        session.timing(TOGETHER, &case, &together(seconds), baseline, params());
    }
    for &cache in caches {
        session.note(format!("{scheme}: {}", cache.name()));
        let times = cache.measure(session, shop, &[], session.slow_effort())?;
        let baseline = scaled(&times.vanilla, 1e3);
        let case = format!("{scheme}, {}", cache.name());
        session.timing(ENCRYPT, case, &scaled(&times.rache, 1e3), Some((&vanilla, &baseline)), params());
    }
    Ok(())
}

/// Seconds of encoding, then of each way, in turn.
fn sample(session: &Session<'_>, shop: &Shop) -> Result<Vec<Vec<f64>>, BenchError> {
    let (clock, single) = (session.clock(), &session.single);
    let limit = shop.plain_modulus().map_or(1.0, |t| f64::from(t / 2));
    let values: Vec<f64> = super::unit_values(shop.slots()).iter().map(|x| (x * limit).round()).collect();
    let message = shop.message(&values)?;
    let mut contenders: Vec<Contender<'_>> = vec![Box::new(|| {
        let (made, seconds) = clock.time_in(single, || shop.encode(&values));
        made?;
        Ok(seconds)
    })];
    for way in Way::ENCRYPTING {
        let mut worker = Worker::new(shop, way)?;
        worker.check(&format!("{}, {way}", shop.space.scheme()), &values)?;
        let message = &message;
        contenders.push(Box::new(move || {
            worker.prepare()?;
            let (made, seconds) = clock.time_in(single, || worker.work(message));
            made?;
            Ok(seconds)
        }));
    }
    alternate(session.effort(), &mut contenders)
}

//! Switching keys: bytes in memory and on the wire, seconds to generate and to load.

use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyBundle, KeyKind, KeyPlan, KeyStorage, SeededSwitchingKey};

use super::fixture::{Fixture, rotation_key};
use crate::clock::alternate;
use crate::harness::Harness;
use crate::peer::{EvaluatorSetup, PeerEvaluator};
use crate::row::{Metric, params};

/// Keys for all levels: one rotation key, one relinearisation key.
pub(super) fn run(harness: &mut Harness<'_>, fixture: &Fixture, peers: &[PeerEvaluator]) -> anyhow::Result<()> {
    let ring = fixture.parameters.ring();
    bytes(harness, fixture, "rotation key", rotation_key(ring), (peers, |setup| setup.rotation_key_bytes));
    let relinearisation = KeyKind::Relinearisation;
    bytes(harness, fixture, "relinearisation key", relinearisation, (peers, |setup| setup.relin_key_bytes));
    harness.progress("making and loading a rotation key");
    seconds(harness, fixture)
}

fn plan(fixture: &Fixture, kind: KeyKind) -> KeyPlan {
    let mut plan = KeyPlan::new();
    plan.require(kind, fixture.parameters.ring().chain().len());
    plan
}

/// Bytes of a key on the wire, beside those of each peer, and in memory.
fn bytes(
    harness: &mut Harness<'_>,
    fixture: &Fixture,
    case: &str,
    kind: KeyKind,
    (peers, serialised): (&[PeerEvaluator], fn(&EvaluatorSetup) -> u64),
) {
    let plan = plan(fixture, kind);
    let rlwe = fixture.parameters.rlwe();
    let params = || params! { "preset": rlwe.name(), "keys": 1 };
    let (metric, wire) = (Metric::less("wire_bytes", "bytes"), KeyBundle::byte_len(rlwe, &plan) as f64);
    for peer in peers {
        let name = format!("{}, serialised", peer.library.name());
        harness.value(metric, case, wire, Some((&name, serialised(&peer.setup) as f64)), params());
    }
    if peers.is_empty() {
        harness.value(metric, case, wire, None, params());
    }
    let memory = plan.memory_bytes(rlwe.ring()) as f64;
    harness.value(Metric::less("memory_bytes", "bytes"), case, memory, None, params());
}

fn seconds(harness: &mut Harness<'_>, fixture: &Fixture) -> anyhow::Result<()> {
    let rlwe = fixture.parameters.rlwe();
    let (kind, chain) = (rotation_key(rlwe.ring()), rlwe.ring().chain().len());
    let plan = plan(fixture, kind);
    let mut rng = SecretRng::insecure_from_seed(2);
    let mut bundle = Vec::new();
    KeyBundle::write_plan(rlwe, &plan, &mut bundle)?;
    KeyBundle::write_key(rlwe, &SeededSwitchingKey::generate(&fixture.secret, kind, chain, &mut rng)?, &mut bundle)?;
    let stopwatch = harness.stopwatch();
    let make = || stopwatch.seconds(|| SeededSwitchingKey::generate(&fixture.secret, kind, chain, &mut rng));
    let read = || stopwatch.seconds(|| KeyBundle::read(rlwe, KeyStorage::Expanded, &mut bundle.as_slice()));
    let samples = alternate(harness.repetitions(), &mut [Box::new(make), Box::new(read)])?;
    let params = || params! { "preset": rlwe.name(), "backend": fixture.backend() };
    let time = Metric::less("time", "s");
    harness.timing(time, "rotation key, make (client)", &samples[0], None, params());
    harness.timing(time, "rotation key, read and expand (server)", &samples[1], None, params());
    Ok(())
}

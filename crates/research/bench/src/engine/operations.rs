//! Evaluator operations at three levels, compared with those of other libraries at the nearest modulus.

use unspoken_ckks::{Arithmetic, Ciphertext};
use unspoken_rlwe::{self as rlwe, Hoisted, galois};

use super::fixture::{Fixture, Operands, STEPS};
use crate::clock::{TimedOperation, alternate, scaled};
use crate::harness::Harness;
use crate::peer::PeerEvaluator;
use crate::row::{Metric, params};

const TIME: Metric = Metric::less("time", "ms");

/// One operation on ciphertexts that all sides time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Rotate,
    MultiplyRelinearise,
    /// Ours divides once; the time of a peer is the sum of its two calls.
    MultiplyRelineariseRescale,
    Rescale,
    Hoist,
    HoistedRotation,
    MultiplyPlain,
    Add,
}

/// The output of an operation, kept until the clock has stopped.
pub(super) enum Outcome<'a> {
    Vector(Ciphertext),
    /// A ciphertext at this scale.
    Raw(rlwe::Ciphertext, f64),
    Digits(Hoisted<'a>),
}

impl Operation {
    pub(super) const ALL: [Operation; 8] = [
        Operation::Rotate,
        Operation::MultiplyRelinearise,
        Operation::MultiplyRelineariseRescale,
        Operation::Rescale,
        Operation::Hoist,
        Operation::HoistedRotation,
        Operation::MultiplyPlain,
        Operation::Add,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Rotate => "rotate",
            Operation::MultiplyRelinearise => "multiply and relinearise",
            Operation::MultiplyRelineariseRescale => "multiply, relinearise and rescale",
            Operation::Rescale => "rescale",
            Operation::Hoist => "hoist",
            Operation::HoistedRotation => "hoisted rotation, each",
            Operation::MultiplyPlain => "multiply by a plaintext",
            Operation::Add => "add",
        }
    }

    /// The calls of a peer for the same operation.
    fn peer_calls(self) -> &'static [&'static str] {
        match self {
            Operation::Rotate => &["rotate"],
            Operation::MultiplyRelinearise => &["mult_relin"],
            Operation::MultiplyRelineariseRescale => &["mult_relin", "rescale"],
            Operation::Rescale => &["rescale"],
            Operation::Hoist => &["hoist"],
            Operation::HoistedRotation => &["hoisted_rotation"],
            Operation::MultiplyPlain => &["mult_plain"],
            Operation::Add => &["add"],
        }
    }

    /// Runs the operation once. `hoisted` are the raised digits of `operands.a`.
    pub(super) fn apply<'a>(
        self,
        fixture: &Fixture,
        operands: &'a Operands,
        hoisted: &Hoisted<'_>,
    ) -> anyhow::Result<Outcome<'a>> {
        let (evaluator, ring) = (fixture.evaluator(), fixture.parameters.ring());
        let Operands { a, b, product, plain, .. } = operands;
        Ok(match self {
            Operation::Rotate => Outcome::Vector(evaluator.rotate(a, STEPS)?),
            Operation::MultiplyRelinearise => Outcome::Vector(evaluator.relinearise(&evaluator.tensor(a, b)?)?),
            Operation::MultiplyRelineariseRescale => Outcome::Vector(evaluator.multiply(a, b)?),
            Operation::Rescale => Outcome::Vector(evaluator.rescale(product)?),
            Operation::Hoist => Outcome::Digits(a.inner().hoist(ring)?),
            Operation::HoistedRotation => {
                let element = galois::rotation(ring, STEPS);
                Outcome::Raw(hoisted.automorphism(ring, element, &fixture.keys)?, a.scale())
            }
            Operation::MultiplyPlain => Outcome::Vector(evaluator.mul_prepared(a, plain)?),
            Operation::Add => Outcome::Vector(evaluator.add(a, b)?),
        })
    }

    /// Runs the operation once untimed and decrypts: a wrong result is an error.
    fn check(self, fixture: &Fixture, operands: &Operands, hoisted: &Hoisted<'_>) -> anyhow::Result<()> {
        let expected = |a: f64, b: f64, next: f64| match self {
            Operation::Rotate | Operation::Hoist | Operation::HoistedRotation => next,
            Operation::Add => a + b,
            _ => a * b,
        };
        match self.apply(fixture, operands, hoisted)? {
            Outcome::Vector(found) => fixture.check(self.name(), found.inner(), found.scale(), expected),
            Outcome::Raw(found, scale) => fixture.check(self.name(), &found, scale, expected),
            Outcome::Digits(digits) => {
                let element = galois::rotation(fixture.parameters.ring(), STEPS);
                let rotated = digits.automorphism(fixture.parameters.ring(), element, &fixture.keys)?;
                fixture.check(self.name(), &rotated, operands.a.scale(), expected)
            }
        }
    }
}

/// The highest level, half of it, and the lowest level from which a product can still be rescaled.
fn levels(max_level: usize) -> [(&'static str, usize); 3] {
    [("full", max_level), ("half", max_level / 2), ("lowest", 1)]
}

pub(super) fn run(harness: &mut Harness<'_>, fixtures: &[Fixture], peers: &mut [PeerEvaluator]) -> anyhow::Result<()> {
    for (name, level) in levels(fixtures[0].parameters.max_level()) {
        let operands: Vec<Operands> = fixtures.iter().map(|f| f.operands(level)).collect::<Result<_, _>>()?;
        for operation in Operation::ALL {
            harness.progress(format!("{}, {name} level", operation.name()));
            measure(harness, operation, name, fixtures, &operands, peers)?;
        }
    }
    Ok(())
}

/// One operation at one level: times every fixture and the peers in turn; one row per fixture and peer.
fn measure(
    harness: &mut Harness<'_>,
    operation: Operation,
    level_name: &str,
    fixtures: &[Fixture],
    operands: &[Operands],
    peers: &mut [PeerEvaluator],
) -> anyhow::Result<()> {
    let parameters = &fixtures[0].parameters;
    let (ring, level) = (parameters.ring(), operands[0].level);
    let stopwatch = harness.stopwatch();
    let theirs: Vec<_> = peers
        .iter()
        .map(|peer| (peer.library, peer.setup.clone(), peer.setup.towers_near(parameters.log2_modulus(level))))
        .collect();
    let mut timed: Vec<TimedOperation<'_>> = Vec::new();
    for (fixture, operands) in fixtures.iter().zip(operands) {
        let hoisted = operands.a.inner().hoist(fixture.parameters.ring())?;
        operation.check(fixture, operands, &hoisted)?;
        timed.push(Box::new(move || stopwatch.seconds(|| operation.apply(fixture, operands, &hoisted))));
    }
    for (peer, &(_, _, (towers, _))) in peers.iter_mut().zip(&theirs) {
        timed.push(Box::new(move || operation.peer_calls().iter().map(|call| peer.time(call, towers)).sum()));
    }
    let mut samples = alternate(harness.repetitions(), &mut timed)?;
    drop(timed);
    let baselines = samples.split_off(fixtures.len());
    for (fixture, seconds) in fixtures.iter().zip(&samples) {
        let seconds = scaled(seconds, 1e3);
        let params = params! {
            "preset": parameters.name(), "n": ring.degree(), "backend": fixture.backend(), "level": level,
            "primes": parameters.limbs(level), "log2_q": rounded(parameters.log2_modulus(level)),
            "log2_qp_max": rounded(log2_qp(fixture)), "digits_max": ring.digit_count(ring.chain().len()),
        };
        let case = format!("{}, {level_name} level, {}", operation.name(), fixture.backend());
        for ((library, setup, (towers, log2_q)), theirs) in theirs.iter().zip(&baselines) {
            let mut params = params.clone();
            params.extend(params! {
                "baseline_version": setup.version, "baseline_primes": towers, "baseline_log2_q": log2_q,
                "baseline_log2_qp_max": rounded(setup.log2_qp), "baseline_digits_max": setup.digits,
            });
            let theirs = scaled(theirs, 1e3);
            harness.timing(TIME, case.as_str(), &seconds, Some((library.name(), &theirs)), params);
        }
        if theirs.is_empty() {
            harness.timing(TIME, case, &seconds, None, params);
        }
    }
    Ok(())
}

fn log2_qp(fixture: &Fixture) -> f64 {
    let rlwe = fixture.parameters.rlwe();
    rlwe.log2_modulus(rlwe.ring().gadget_key_basis(rlwe.ring().chain().len()))
}

fn rounded(bits: f64) -> f64 {
    (bits * 10.0).round() / 10.0
}

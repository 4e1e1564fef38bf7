//! SEAL beside us, at two sets of primes.

use serde_json::{Map, Value};

use crate::error::BenchError;
use crate::peer::{Seal, SealCall, SealRequest, SealSetup};
use crate::row::params;
use crate::session::Session;

/// Which primes SEAL has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primes {
    /// As many bits of data as ours, as nearly as its security check allows.
    Matched,
    /// One prime less, and less data: the fewest primes at nearly the same bits in all.
    Fewest,
}

/// What of SEAL is timed.
pub(super) type Subject = (Primes, SealCall);

/// SEAL, where it is set up.
pub(super) struct Baseline(Option<[Seal; 2]>);

impl Baseline {
    /// Starts SEAL at both sets of primes, the matched one first.
    pub(super) fn start(session: &mut Session<'_>, requests: [SealRequest; 2]) -> Result<Self, BenchError> {
        let (root, clock) = (&session.options.root, session.clock());
        if !session.options.peers || !Seal::is_set_up(root) {
            session.note("SEAL is not measured: 'make peers' sets it up");
            return Ok(Baseline(None));
        }
        let [matched, fewest] = requests;
        Ok(Baseline(Some([Seal::start(root, matched, clock)?, Seal::start(root, fewest, clock)?])))
    }

    /// Whether it is there.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Seconds of one call; NaN where SEAL is absent.
    pub(super) fn time(&mut self, (primes, call): Subject) -> Result<f64, BenchError> {
        let Some([matched, fewest]) = &mut self.0 else { return Ok(f64::NAN) };
        match primes {
            Primes::Matched => matched.time(call),
            Primes::Fewest => fewest.time(call),
        }
    }

    /// What it set up at these primes.
    pub(super) fn setup(&self, primes: Primes) -> Option<&SealSetup> {
        let [matched, fewest] = self.0.as_ref()?;
        Some(match primes {
            Primes::Matched => &matched.setup,
            Primes::Fewest => &fewest.setup,
        })
    }

    /// Its parameters, for a row.
    pub(super) fn params(&self, primes: Primes) -> Map<String, Value> {
        self.setup(primes).map_or_else(Map::new, |setup| {
            params! {
                "baseline_version": setup.version, "baseline_primes": setup.towers, "baseline_log2_q": rounded(setup.log2_q),
                "baseline_log2_qp": rounded(setup.log2_qp), "baseline_security": setup.security_level,
            }
        })
    }
}

/// As a baseline's name.
pub(super) fn name((primes, call): Subject) -> String {
    let call = match call {
        SealCall::Encode => "encoding",
        SealCall::EncodeOne => "encoding of one number",
        SealCall::Public => "public key",
        SealCall::PublicZeroOfAllPrimes => "public key, a zero of all primes",
        SealCall::Symmetric => "symmetric",
        SealCall::SymmetricSeeded => "symmetric, seeded",
    };
    match primes {
        Primes::Matched => format!("SEAL, {call}"),
        Primes::Fewest => format!("SEAL of one prime less, {call}"),
    }
}

/// Bits for a row.
pub(super) fn rounded(bits: f64) -> f64 {
    (bits * 10.0).round() / 10.0
}

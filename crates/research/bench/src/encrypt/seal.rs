//! SEAL as a baseline, at two sets of primes.

use serde_json::{Map, Value};

use crate::harness::Harness;
use crate::peer::{Seal, SealCall, SealRequest, SealSetup};
use crate::row::params;

/// The set of SEAL's primes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealPrimes {
    /// About the bits of data of our set: as close as SEAL's security check allows.
    Matched,
    /// One prime less and fewer bits of data: the fewest primes at nearly the same total bits.
    Fewest,
}

/// A timed operation of SEAL.
pub(super) type SealOperation = (SealPrimes, SealCall);

/// SEAL, if it is set up.
pub(super) struct SealBaseline(Option<[Seal; 2]>);

impl SealBaseline {
    /// Starts SEAL at both sets of primes, the matched one first.
    pub(super) fn start(harness: &mut Harness<'_>, requests: [SealRequest; 2]) -> anyhow::Result<Self> {
        let (root, clock) = (&harness.options.root, harness.clock());
        if !harness.options.peers || !Seal::is_set_up(root) {
            harness.progress("SEAL is not measured: 'make peers' sets it up");
            return Ok(SealBaseline(None));
        }
        let [matched, fewest] = requests;
        Ok(SealBaseline(Some([Seal::start(root, matched, clock)?, Seal::start(root, fewest, clock)?])))
    }

    /// No SEAL: for a scheme that tenseal does not have.
    pub(super) fn absent() -> Self {
        SealBaseline(None)
    }

    /// Whether SEAL is available.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Seconds of one call; NaN if SEAL is absent.
    pub(super) fn time(&mut self, (primes, call): SealOperation) -> anyhow::Result<f64> {
        let Some([matched, fewest]) = &mut self.0 else { return Ok(f64::NAN) };
        match primes {
            SealPrimes::Matched => matched.time(call),
            SealPrimes::Fewest => fewest.time(call),
        }
    }

    /// The parameters that SEAL reports for these primes.
    pub(super) fn setup(&self, primes: SealPrimes) -> Option<&SealSetup> {
        let [matched, fewest] = self.0.as_ref()?;
        Some(match primes {
            SealPrimes::Matched => &matched.setup,
            SealPrimes::Fewest => &fewest.setup,
        })
    }

    /// SEAL's parameters for a row.
    pub(super) fn params(&self, primes: SealPrimes) -> Map<String, Value> {
        self.setup(primes).map_or_else(Map::new, |setup| {
            params! {
                "baseline_version": setup.version, "baseline_primes": setup.towers,
                "baseline_log2_q": rounded(setup.log2_q), "baseline_log2_qp": rounded(setup.log2_qp),
                "baseline_security": setup.security_level,
            }
        })
    }
}

/// Name of a baseline.
pub(super) fn name((primes, call): SealOperation) -> String {
    let call = match call {
        SealCall::Encode => "encoding",
        SealCall::EncodeOne => "encoding of one number",
        SealCall::Public => "public key",
        SealCall::PublicZeroOfAllPrimes => "public key, a zero of all primes",
        SealCall::Symmetric => "symmetric",
        SealCall::SymmetricSeeded => "symmetric, seeded",
    };
    match primes {
        SealPrimes::Matched => format!("SEAL, {call}"),
        SealPrimes::Fewest => format!("SEAL of one prime less, {call}"),
    }
}

/// Bits, rounded for a row.
pub(super) fn rounded(bits: f64) -> f64 {
    (bits * 10.0).round() / 10.0
}

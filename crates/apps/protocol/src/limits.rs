//! Limits on what a service may request of a client. No application needs more, so a service that requests more must
//! not be trusted.
//!
//! A client makes the keys and queries that a service describes, which costs it memory and time. A bootstrapping key
//! also lets a service do more with a query than its application needs.

use unspoken_rlwe::{KeyBundle, KeyKind, KeyPlan, Parameters};

/// Largest key bundle, in bytes.
const MAX_KEY_BYTES: u64 = 4 << 30;

/// Largest query, in bytes: the one-hot baseline for 4 subtables of 256 columns, 591,464,448 bytes, fits.
const MAX_QUERY_BYTES: u64 = 640 << 20;

/// Largest answer, in bytes: a client keeps all answers of a call in memory.
pub const MAX_ANSWER_BYTES: u64 = 512 << 20;

/// A service requests too much, or keys for which it has no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: found {found}, needed {needed}; do not trust this service")]
pub struct LimitExceeded {
    /// What the service requests: a query, an answer, or keys.
    pub what: &'static str,
    /// How much it requests, or which keys.
    pub found: String,
    /// What is allowed.
    pub needed: String,
}

impl LimitExceeded {
    pub(crate) fn new(what: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        LimitExceeded { what, found: found.to_string(), needed: needed.to_string() }
    }
}

/// What a service bootstraps. This determines the keys for which the service has a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstraps {
    /// Nothing.
    Nothing,
    /// Compact queries of few elements.
    ShortQueries,
    /// Compact queries that fill the ring.
    Queries,
    /// Ciphertexts in the middle of a computation.
    Ciphertexts,
    /// Compact queries, and ciphertexts in the middle of a computation.
    QueriesAndCiphertexts,
}

impl Bootstraps {
    /// What the keys of a plan are for.
    pub(crate) fn of(plan: &KeyPlan) -> Self {
        let all = [Bootstraps::Nothing, Bootstraps::ShortQueries, Bootstraps::Queries, Bootstraps::Ciphertexts];
        let fits = |bootstraps: &Bootstraps| check_key_kinds(plan, *bootstraps).is_ok();
        all.into_iter().find(fits).unwrap_or(Bootstraps::QueriesAndCiphertexts)
    }
}

/// Refuses keys of bootstraps that the service does not make. A bundle may be shared with applications that send small
/// answers, so the key of small answers is accepted here; descriptions are checked for this key separately.
///
/// # Errors
/// If the application has no use for a key.
pub fn check_key_kinds(plan: &KeyPlan, bootstraps: Bootstraps) -> Result<(), LimitExceeded> {
    let useful = |kind: &KeyKind| match kind {
        KeyKind::Relinearisation | KeyKind::Galois { .. } | KeyKind::HalfRing => true,
        KeyKind::SubringQuery => bootstraps == Bootstraps::ShortQueries,
        KeyKind::Decapsulation { .. } => !matches!(bootstraps, Bootstraps::Nothing | Bootstraps::ShortQueries),
        KeyKind::QueryEncapsulation => {
            matches!(bootstraps, Bootstraps::Queries | Bootstraps::QueriesAndCiphertexts)
        }
        KeyKind::Encapsulation => {
            matches!(bootstraps, Bootstraps::Ciphertexts | Bootstraps::QueriesAndCiphertexts)
        }
    };
    match plan.iter().map(|(kind, _)| kind).find(|kind| !useful(kind)) {
        Some(kind) => Err(LimitExceeded::new("key plan", kind, "keys that its queries take")),
        None => Ok(()),
    }
}

/// Refuses the key of small answers.
///
/// # Errors
/// If the plan has one.
pub fn check_no_short_answers(plan: &KeyPlan) -> Result<(), LimitExceeded> {
    match plan.iter().find(|(kind, _)| *kind == KeyKind::HalfRing) {
        Some((kind, _)) => Err(LimitExceeded::new("key plan", kind, "keys that its queries take")),
        None => Ok(()),
    }
}

/// Refuses a bundle of more than 4 GiB.
///
/// # Errors
/// If the keys of the plan are larger.
pub fn check_key_bytes(parameters: &Parameters, plan: &KeyPlan) -> Result<(), LimitExceeded> {
    check_bytes("key plan", KeyBundle::byte_len(parameters, plan), MAX_KEY_BYTES)
}

/// Refuses a query of more than 640 MiB.
///
/// # Errors
/// If `bytes` is more.
pub fn check_query_bytes(bytes: u64) -> Result<(), LimitExceeded> {
    check_bytes("query", bytes, MAX_QUERY_BYTES)
}

/// Refuses answers of more than 512 MiB.
///
/// # Errors
/// If `bytes` is more.
pub fn check_answer_bytes(bytes: u64) -> Result<(), LimitExceeded> {
    check_bytes("answer", bytes, MAX_ANSWER_BYTES)
}

fn check_bytes(what: &'static str, bytes: u64, most: u64) -> Result<(), LimitExceeded> {
    if bytes <= most {
        Ok(())
    } else {
        Err(LimitExceeded::new(what, format!("{bytes} bytes"), format!("at most {most}")))
    }
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;

    use super::*;

    #[test]
    fn kinds_of_keys() {
        let check = |kind, bootstraps: Bootstraps| {
            let mut plan = KeyPlan::new();
            plan.require(kind, 1);
            check_key_kinds(&plan, bootstraps)
        };
        use Bootstraps::{Ciphertexts, Nothing, Queries, ShortQueries};
        for (kind, allowed) in [
            (KeyKind::Relinearisation, [true, true, true, true]),
            (KeyKind::Galois { element: 5 }, [true, true, true, true]),
            (KeyKind::HalfRing, [true, true, true, true]),
            (KeyKind::SubringQuery, [false, true, false, false]),
            (KeyKind::Decapsulation { element: 1 }, [false, false, true, true]),
            (KeyKind::QueryEncapsulation, [false, false, true, false]),
            (KeyKind::Encapsulation, [false, false, false, true]),
        ] {
            let found = [Nothing, ShortQueries, Queries, Ciphertexts].map(|use_| check(kind, use_).is_ok());
            assert_eq!(found, allowed, "{kind}");
        }
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::Relinearisation, 1);
        assert!(check_no_short_answers(&plan).is_ok());
        plan.require(KeyKind::HalfRing, 1);
        assert!(check_no_short_answers(&plan).is_err());
        let error = check(KeyKind::Encapsulation, Nothing).unwrap_err().to_string();
        let told = "key plan: found encapsulation key, needed keys that its queries take; do not trust this service";
        assert_eq!(error, told);
    }

    #[test]
    fn bytes_of_keys_and_queries() {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let (rlwe, chain) = (parameters.rlwe(), parameters.chain(parameters.max_level()));
        let mut plan = KeyPlan::new();
        assert!(check_key_bytes(rlwe, &plan).is_ok());
        let one = {
            plan.require(KeyKind::Relinearisation, chain);
            KeyBundle::byte_len(rlwe, &plan)
        };
        let count = MAX_KEY_BYTES / one;
        (1..count).for_each(|i| plan.require(KeyKind::Galois { element: 2 * i + 1 }, chain));
        assert!(check_key_bytes(rlwe, &plan).is_ok());
        (count..count + 2).for_each(|i| plan.require(KeyKind::Galois { element: 2 * i + 1 }, chain));
        assert!(check_key_bytes(rlwe, &plan).unwrap_err().found.ends_with("bytes"));
        assert!(check_query_bytes(MAX_QUERY_BYTES).is_ok() && check_query_bytes(MAX_QUERY_BYTES + 1).is_err());
        assert!(check_answer_bytes(MAX_ANSWER_BYTES).is_ok() && check_answer_bytes(MAX_ANSWER_BYTES + 1).is_err());
    }
}

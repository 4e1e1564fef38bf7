//! What a client lets a service ask of it, beyond the parameters, which it looks up itself.

use unspoken_ckks::CkksParameters;
use unspoken_rlwe::{KeyBundle, KeyKind, KeyPlan, MAX_BUNDLE_KEYS};

use crate::error::LookupError;
use crate::query::{Form, Query, refuse};

/// Largest key bundle a client makes because a service says so.
const MAX_KEY_BYTES: u64 = 4 << 30;

/// Largest query a client makes because a service says so.
const MAX_QUERY_BYTES: usize = 1 << 30;

/// The keys a service asks for, each by its code and its chain primes.
///
/// # Errors
/// If there are too many or they take too many bytes, one does not exist in these parameters, or has no use for queries of
/// this form.
pub fn requested_keys(
    parameters: &CkksParameters,
    form: Form,
    keys: impl ExactSizeIterator<Item = (u64, usize)>,
) -> Result<KeyPlan, LookupError> {
    if keys.len() > MAX_BUNDLE_KEYS {
        return Err(refuse("a key plan", format!("{} keys", keys.len()), format!("at most {MAX_BUNDLE_KEYS}")));
    }
    let all = parameters.ring().chain().len();
    let mut plan = KeyPlan::new();
    for (code, chain) in keys {
        let kind = KeyKind::from_code(parameters.ring(), code).filter(|_| (1..=all).contains(&chain));
        let unknown = || refuse("a key plan", format!("kind {code} for {chain} primes"), "a key of this preset".into());
        let kind = kind.ok_or_else(unknown)?;
        parameters.rlwe().check_kind(kind, chain)?;
        if !is_useful(kind, form) {
            let needed = format!("keys that {form} queries take; do not trust this service");
            return Err(refuse("a key plan", kind.to_string(), needed));
        }
        plan.require(kind, chain);
    }
    let bytes = KeyBundle::byte_len(parameters.rlwe(), &plan);
    if bytes > MAX_KEY_BYTES {
        let needed = format!("at most {MAX_KEY_BYTES}; do not trust this service");
        return Err(refuse("a key plan", format!("keys of {bytes} bytes"), needed));
    }
    Ok(plan)
}

/// The keys of a bootstrap are for compact queries only, and nothing else than queries is bootstrapped.
fn is_useful(kind: KeyKind, form: Form) -> bool {
    match kind {
        KeyKind::Relinearisation | KeyKind::Galois { .. } => true,
        KeyKind::QueryEncapsulation | KeyKind::Decapsulation => form == Form::Compact,
        KeyKind::Encapsulation => false,
    }
}

impl Query {
    /// Refuses a form and shape of query that would take a client more memory than anybody has use for.
    ///
    /// # Errors
    /// If a query is larger than a gigabyte.
    pub fn check_size(&self) -> Result<(), LookupError> {
        let bytes = self.byte_len();
        if bytes <= MAX_QUERY_BYTES {
            return Ok(());
        }
        let needed = format!("at most {MAX_QUERY_BYTES}; do not trust this service");
        Err(refuse("a form of query", format!("queries of {bytes} bytes"), needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unspoken_ckks::Preset;

    #[test]
    fn a_service_gets_no_keys_beyond_the_forms_need() {
        let parameters = Preset::find("insecure_n11_boot_depth8_scale50").unwrap().build().unwrap();
        let primes = parameters.rlwe().encapsulation().unwrap().primes;
        let ask = |form, keys: &[(u64, usize)]| requested_keys(&parameters, form, keys.iter().copied());
        assert_eq!(ask(Form::Direct, &[(0, 5), (5, 3)]).unwrap().len(), 2);
        assert_eq!(ask(Form::Compact, &[(4, primes), (6, 40)]).unwrap().len(), 2);
        for (form, key) in [
            (Form::Direct, (4, primes)),      // of a bootstrap
            (Form::Direct, (6, 40)),          // of a bootstrap
            (Form::Compact, (2, primes)),     // of other ciphertexts
            (Form::Compact, (4, primes + 1)), // over more primes than are safe
            (Form::Compact, (4, 1)),
            (Form::Direct, (1, 5)), // the identity
            (Form::Direct, (8, 5)), // nothing
            (Form::Direct, (5, 0)),
            (Form::Direct, (5, 1000)),
        ] {
            assert!(ask(form, &[key]).is_err(), "{form} {key:?}");
        }
    }
}

//! The secrets of a client, and every kind of object that an adversary sees under one of them.
//!
//! All secrets but the main one are derived from it with a hash. [`DerivedSecret`] is the only way to derive one, and
//! the list of objects is made from these secrets and from the kinds of switching keys, so that none is left out.

use unspoken_ring::{Basis, ERROR_SIGMA, RingKind, SecretRng};

use crate::error::RlweError;
use crate::key_kind::KeyKind;
use crate::keys::SecretKey;
use crate::parameters::Parameters;
use crate::security::{SECURITY_BITS, SPARSE_SECRET, SPARSE_WEIGHT, SecretDistribution, security_bits};

/// One kind of object under a secret and its security, for reports.
#[derive(Clone, Debug, PartialEq)]
pub struct SecuredObject {
    /// Name of the object.
    pub what: &'static str,
    /// Ring degree.
    pub degree: usize,
    /// Bits of its modulus.
    pub log2_modulus: f64,
    /// The secret's distribution.
    pub secret: SecretDistribution,
    /// Standard deviation of its errors.
    pub sigma: f64,
    /// Its security level, at most 128 (see [`security_bits`]).
    pub security_bits: f64,
}

/// A secret that is derived from the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DerivedSecret {
    /// Under which a bootstrap raises the modulus.
    Sparse,
    /// Of [`CompactQuery`](crate::CompactQuery).
    CompactQuery,
    /// Of [`SubringQuery`](crate::SubringQuery).
    SubringQuery,
    /// Of the ring of half the degree.
    HalfRing,
    /// Of [`SmallRing`](crate::SmallRing).
    SmallRing,
}

/// A switching key of each kind; the elements of Galois keys make no difference here.
const SWITCHING_KEYS: [KeyKind; 7] = [
    KeyKind::Relinearisation,
    KeyKind::Galois { element: 5 },
    KeyKind::Decapsulation { element: 1 },
    KeyKind::SubringQuery,
    KeyKind::HalfRing,
    KeyKind::Encapsulation,
    KeyKind::QueryEncapsulation,
];

impl DerivedSecret {
    /// The label of the hash that it is derived with.
    const fn label(self) -> &'static str {
        match self {
            DerivedSecret::Sparse => "unspoken 2026 sparse secret of a bootstrap",
            DerivedSecret::CompactQuery => "unspoken 2026 secret of compact queries",
            DerivedSecret::SubringQuery => "unspoken 2026 sparse secret of subring queries",
            DerivedSecret::HalfRing => "unspoken 2026 secret of the ring of half the degree",
            DerivedSecret::SmallRing => "unspoken 2026 secret of the small ring",
        }
    }

    /// Its degree and distribution; `None` if the parameters have no such secret.
    fn shape(self, parameters: &Parameters) -> Option<(usize, SecretDistribution)> {
        let degree = parameters.ring().degree();
        let boots = parameters.encapsulation().is_ok();
        match self {
            DerivedSecret::Sparse => boots.then_some((degree, SPARSE_SECRET)),
            DerivedSecret::CompactQuery => boots.then_some((degree / 2, SecretDistribution::UniformTernary)),
            DerivedSecret::SubringQuery => Some((query_degree(parameters).ok()?, SPARSE_SECRET)),
            DerivedSecret::HalfRing => {
                (parameters.ring().kind() == RingKind::Standard).then_some((degree / 2, HALF_SECRET))
            }
            DerivedSecret::SmallRing => Some((least_small_degree(parameters)?, SecretDistribution::UniformTernary)),
        }
    }
}

impl SecretKey {
    /// A generator of a derived secret.
    ///
    /// # Errors
    /// If the parameters have no subring queries and one is asked for, or an operation of the ring fails.
    pub(crate) fn derive(&self, secret: DerivedSecret) -> Result<SecretRng, RlweError> {
        match secret {
            // Another degree gives an unrelated secret.
            DerivedSecret::SubringQuery => {
                let degree = query_degree(self.parameters())?;
                self.derive_with(&format!("{} of degree {degree}", secret.label()))
            }
            _ => self.derive_with(secret.label()),
        }
    }

    /// Sixteen bytes that identify this secret and reveal nothing else about it.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn identity(&self) -> Result<[u8; 16], RlweError> {
        let mut identity = [0; 16];
        self.derive_with("unspoken 2026 identity of a secret key")?.fill(&mut identity);
        Ok(identity)
    }

    fn derive_with(&self, label: &str) -> Result<SecretRng, RlweError> {
        let (fingerprint, weight) = (self.parameters().fingerprint(), (SPARSE_WEIGHT as u64).to_le_bytes());
        Ok(SecretRng::derived(label, &[&fingerprint.0, &weight, &self.to_bytes()?]))
    }
}

impl KeyKind {
    /// The secret to which a key of this kind switches, and under which the key is encrypted; `None` for the main
    /// secret.
    fn target(self) -> Option<DerivedSecret> {
        match self {
            KeyKind::Relinearisation
            | KeyKind::Galois { .. }
            | KeyKind::Decapsulation { .. }
            | KeyKind::SubringQuery => None,
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => Some(DerivedSecret::Sparse),
            KeyKind::HalfRing => Some(DerivedSecret::HalfRing),
        }
    }
}

impl Parameters {
    /// Every kind of object that a client of these parameters sends, grouped by its secret, with its security. Of keys,
    /// the list has the largest keys, and the keys of the smallest ring that are allowed.
    pub fn secured_objects(&self) -> Vec<SecuredObject> {
        let mut objects = vec![self.main_object("ciphertext")];
        let keys = SWITCHING_KEYS.iter().filter_map(|&kind| self.key_object(kind));
        for key in keys {
            if objects.iter().all(|object| object.what != key.what) {
                objects.push(key);
            }
        }
        objects.push(self.main_object("public key"));
        let queries = self.log2_modulus(Basis::chain(1));
        let small = self.small_ring_log2_modulus().unwrap_or_default();
        let others = [
            ("compact query", DerivedSecret::CompactQuery, queries),
            ("subring query", DerivedSecret::SubringQuery, queries),
            ("key of the small ring", DerivedSecret::SmallRing, small),
        ];
        let others = others
            .into_iter()
            .filter_map(|(what, secret, log2_modulus)| Some(secured(what, secret.shape(self)?, log2_modulus)));
        objects.extend(others);
        objects
    }

    /// An object under the main secret over all primes but the special ones.
    fn main_object(&self, what: &'static str) -> SecuredObject {
        let whole = self.ring().gadget_key_basis(self.ring().chain().len());
        secured(what, (self.ring().degree(), self.literal().secret), self.log2_modulus(whole.without_special()))
    }

    /// The largest key of a kind, if these parameters have such keys.
    fn key_object(&self, kind: KeyKind) -> Option<SecuredObject> {
        let most = self.ring().chain().len();
        let chain = (1..=most).rev().find(|&chain| self.check_kind(kind, chain).is_ok())?;
        let (_, basis) = kind.rows(self.ring(), chain);
        let (what, shape) = match kind.target() {
            None => ("key-switching key", (self.ring().degree(), self.literal().secret)),
            // The size of the keys of insecure sets is not bounded.
            Some(DerivedSecret::HalfRing) if self.is_insecure() => return None,
            Some(DerivedSecret::HalfRing) => {
                ("key to the ring of half the degree", DerivedSecret::HalfRing.shape(self)?)
            }
            Some(secret) => ("key under the sparse secret of a bootstrap", secret.shape(self)?),
        };
        Some(secured(what, shape, self.log2_modulus(basis)))
    }

    /// Bits of the modulus of the keys of a small ring: the primes of the lowest level and a special one.
    fn small_ring_log2_modulus(&self) -> Option<f64> {
        let base = self.encapsulation().ok()?.base;
        let special = self.ring().special().first()?;
        Some(self.log2_modulus(Basis::chain(base)) + f64::from(*special).log2())
    }
}

/// The least degree of a small ring: [`SmallRing::new`](crate::SmallRing::new) refuses smaller ones. `None` if the
/// parameters have none, or are insecure, which allows every degree.
fn least_small_degree(parameters: &Parameters) -> Option<usize> {
    let log2_modulus = parameters.small_ring_log2_modulus().filter(|_| !parameters.is_insecure())?;
    let secure =
        |&degree: &usize| security_bits(degree, log2_modulus, SecretDistribution::UniformTernary) >= SECURITY_BITS;
    (1..parameters.ring().degree().ilog2()).map(|log2| 1 << log2).find(secure)
}

fn secured(what: &'static str, (degree, secret): (usize, SecretDistribution), log2_modulus: f64) -> SecuredObject {
    let security_bits = security_bits(degree, log2_modulus, secret);
    SecuredObject { what, degree, log2_modulus, secret, sigma: ERROR_SIGMA, security_bits }
}

/// The distribution of the secret.
pub(crate) const HALF_SECRET: SecretDistribution = SecretDistribution::UniformTernary;

/// `log2` of the least degree of the ring of queries.
const MIN_LOG2_DEGREE: u32 = 14;

/// Degree of the rings of insecure sets over the degree of their queries.
const INSECURE_RATIO: usize = 2;

/// The degree of the ring of subring queries: the smallest one from 2^14 with 128 bits of security.
///
/// # Errors
/// If the parameters are not made for bootstrapping, or no degree below their own is secure.
pub(crate) fn query_degree(parameters: &Parameters) -> Result<usize, RlweError> {
    parameters.encapsulation()?;
    let degree = parameters.ring().degree();
    if parameters.is_insecure() {
        return Ok(degree / INSECURE_RATIO);
    }
    let bits = parameters.log2_modulus(Basis::chain(1));
    let secure = |degree: &usize| security_bits(*degree, bits, SPARSE_SECRET) >= SECURITY_BITS;
    (MIN_LOG2_DEGREE..degree.ilog2()).map(|log2| 1 << log2).find(secure).ok_or_else(|| {
        let reason = "no ring of smaller degree has a secure sparse secret".into();
        RlweError::Encapsulation { name: parameters.name().into(), reason }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use unspoken_ring::RingLiteral;
    use unspoken_ring::modular::primes_descending;

    use super::*;
    use crate::parameters::{EncapsulationLiteral, ParametersLiteral};
    use crate::small_ring::SmallRing;

    fn parameters() -> Parameters {
        let degree = 1 << 15;
        let mut primes = primes_descending(1 << 29, 1 << 30, 2 * degree as u32);
        let special = primes.by_ref().take(5).collect();
        let chain = primes.take(8).collect();
        Parameters::new(ParametersLiteral {
            name: "sound".into(),
            ring: RingLiteral { degree, kind: RingKind::Standard, chain, terminal: vec![], special, digit_len: 2 },
            secret: SecretDistribution::UniformTernary,
            encapsulation: Some(EncapsulationLiteral { base: 2, primes: 5 }),
        })
        .unwrap()
    }

    /// The objects under a derived secret. A new secret does not compile before it has some here.
    fn objects_of(secret: DerivedSecret) -> (usize, &'static str) {
        match secret {
            DerivedSecret::Sparse => (0, "key under the sparse secret of a bootstrap"),
            DerivedSecret::CompactQuery => (1, "compact query"),
            DerivedSecret::SubringQuery => (2, "subring query"),
            DerivedSecret::HalfRing => (3, "key to the ring of half the degree"),
            DerivedSecret::SmallRing => (4, "key of the small ring"),
        }
    }

    /// The label of every secret in the source of this crate.
    fn labels_in_the_source() -> Vec<String> {
        let mut labels = Vec::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
            let path = entry.unwrap().path();
            let source = fs::read_to_string(&path).unwrap();
            let code = source.split("#[cfg(test)]").next().unwrap();
            let derives = code.contains("SecretRng::derived(");
            assert!(!derives || path.ends_with("secured.rs"), "{path:?} derives a secret beside `DerivedSecret`");
            let quoted = code.split('"').filter(|text| text.starts_with("unspoken ") && text.contains("secret"));
            labels.extend(quoted.map(String::from));
        }
        labels
    }

    #[test]
    fn every_label_of_a_secret_has_an_object() {
        let objects = parameters().secured_objects();
        let all = [
            DerivedSecret::Sparse,
            DerivedSecret::CompactQuery,
            DerivedSecret::SubringQuery,
            DerivedSecret::HalfRing,
            DerivedSecret::SmallRing,
        ];
        for (number, secret) in all.into_iter().enumerate() {
            let (expected, what) = objects_of(secret);
            assert_eq!(number, expected);
            let object = objects.iter().find(|object| object.what == what).expect(what);
            assert_eq!(Some((object.degree, object.secret)), secret.shape(&parameters()));
        }
        let mut labels = labels_in_the_source();
        // It names a secret and is none.
        labels.retain(|label| label != "unspoken 2026 identity of a secret key");
        labels.sort_unstable();
        let mut known = all.map(|secret| secret.label().to_owned());
        known.sort_unstable();
        assert_eq!(labels, known);
    }

    #[test]
    fn every_kind_of_key_has_an_object_and_all_objects_are_secure() {
        let parameters = parameters();
        let objects = parameters.secured_objects();
        for code in (0..64).chain([KeyKind::Decapsulation { element: 5 }.code()]) {
            let Some(kind) = KeyKind::from_code(parameters.ring(), code) else { continue };
            let listed = SWITCHING_KEYS.iter().any(|key| std::mem::discriminant(key) == std::mem::discriminant(&kind));
            assert!(listed, "{kind}");
            assert!(objects.contains(&parameters.key_object(kind).unwrap()), "{kind}");
        }
        assert!(objects.iter().any(|object| object.what == "public key"));
        assert!(objects.iter().all(|object| object.security_bits >= SECURITY_BITS), "{objects:?}");
        // Keys of a smaller ring are refused.
        let small = objects.iter().find(|object| object.what == "key of the small ring").unwrap();
        assert_eq!(small.degree, 4096);
        let ring = SmallRing::new(&parameters, 4096, 128).unwrap();
        let used = ring.parameters().secured_objects();
        assert_eq!((used[1].degree, used[1].log2_modulus), (small.degree, small.log2_modulus));
        assert!(SmallRing::new(&parameters, 2048, 128).is_err());
    }
}

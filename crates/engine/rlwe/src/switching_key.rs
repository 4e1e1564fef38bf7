//! Switching keys in seeded form.

use unspoken_ring::{Poly, SecretRng, Seed};

use crate::encapsulation::raised_message;
use crate::error::RlweError;
use crate::galois;
use crate::key_kind::KeyKind;
use crate::keys::SecretKey;

/// A switching key for storage and transfer: a seed for one half of every row, and the other half in full.
#[derive(Debug, Clone)]
pub struct SeededSwitchingKey {
    pub(crate) kind: KeyKind,
    pub(crate) chain: usize,
    pub(crate) seed: Seed,
    /// Per row, over the extended basis, evaluation domain.
    pub(crate) bodies: Vec<Poly>,
}

impl SeededSwitchingKey {
    /// Generates the key of `kind` for ciphertexts of at most `chain` primes, under a fresh seed.
    ///
    /// Row `d` is `(b, a)` with `b = -a t + e + P mask_d m`: for relinearisation `t = s`, `m = s^2`; for the element
    /// `g`, `t` is the image of `s` under `g^-1` and `m = s`, so that the automorphism is applied after switching; for
    /// subring queries `t = s` and `m` is the sparse secret; for the ring of half the degree `t = s'(X^2)` and `m = s`.
    /// An encapsulation key has the sparse secret as `t`, one row, and for `P` the product of the chain primes that the
    /// switched ciphertexts do not have. A decapsulation key for `g` has the image of `s` under `g^-1` as `t`, the
    /// sparse secret as `m`, one row, and for `P` the product of the special primes after the first two
    /// ([`Parameters::raised_divisor`](crate::Parameters::raised_divisor)).
    ///
    /// # Errors
    /// If the parameters have no special primes or fewer chain primes, or `g` is not a Galois element, or as for
    /// [`Parameters::check_kind`](crate::Parameters::check_kind).
    pub fn generate(secret: &SecretKey, kind: KeyKind, chain: usize, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let ring = secret.parameters().ring();
        secret.parameters().check_kind(kind, chain)?;
        let (rows, basis) = kind.rows(ring, chain);
        let SwitchedSecrets { target, message } = SwitchedSecrets::of(secret, kind)?;
        let seed = rng.seed();
        let row = |digit: usize| -> Result<Poly, RlweError> {
            let error = rng.gaussian(ring.degree());
            let mut body = ring.small_minus_uniform_product(&error, (&seed, digit as u32), &target, basis)?;
            match kind {
                KeyKind::Encapsulation | KeyKind::QueryEncapsulation => {
                    ring.add_assign(&mut body, &secret.encapsulated_message(kind, &message, chain)?)?;
                }
                KeyKind::Decapsulation { .. } => ring.add_assign(&mut body, &raised_message(ring, &message, basis)?)?,
                _ => ring.add_gadget_message(&mut body, &message, digit)?,
            }
            // `a t + e + P m`.
            body.declare_public();
            Ok(body)
        };
        let bodies = (0..rows).map(row).collect::<Result<_, _>>()?;
        Ok(SeededSwitchingKey { kind, chain, seed, bodies })
    }

    /// The kind of the key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }
}

/// The two secrets of a switching key.
pub(crate) struct SwitchedSecrets {
    /// The secret that the key switches to, under which it is encrypted.
    pub(crate) target: Poly,
    /// The secret it switches from.
    pub(crate) message: Poly,
}

impl SwitchedSecrets {
    fn of(secret: &SecretKey, kind: KeyKind) -> Result<Self, RlweError> {
        let (ring, whole) = (secret.parameters().ring(), secret.poly());
        let (target, message) = match kind {
            KeyKind::Relinearisation => {
                let mut square = whole.clone();
                ring.mul_assign(&mut square, whole)?;
                (whole.clone(), square)
            }
            KeyKind::Galois { element } => (ring.automorphism(whole, galois::inverse(ring, element))?, whole.clone()),
            KeyKind::Encapsulation => (secret.sparse_secret()?, whole.clone()),
            KeyKind::QueryEncapsulation => (secret.sparse_secret()?, secret.embedded_query_secret()?),
            KeyKind::Decapsulation { element: 1 } => (whole.clone(), secret.sparse_secret()?),
            KeyKind::Decapsulation { element } => {
                (ring.automorphism(whole, galois::inverse(ring, element))?, secret.sparse_secret()?)
            }
            KeyKind::SubringQuery => (whole.clone(), secret.embedded_subring_query_secret()?),
            KeyKind::HalfRing => (secret.lift_secret(&secret.half_ring_secret()?)?, whole.clone()),
        };
        Ok(SwitchedSecrets { target, message })
    }
}

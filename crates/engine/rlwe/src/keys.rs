//! Secret keys, and switching keys in seeded form.

use std::fmt;
use std::hint::black_box;

use unspoken_ring::{Basis, Poly, Ring, RingKind, SecretRng, Seed, Special};
use zeroize::Zeroizing;

use crate::error::RlweError;
use crate::parameters::Parameters;
use crate::security::SecretDistribution;

/// A secret key. Never printed; wiped when dropped.
pub struct SecretKey {
    parameters: Parameters,
    /// Over the whole extended basis, evaluation domain.
    poly: Poly,
}

impl SecretKey {
    /// Draws a secret from the parameters' distribution.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn generate(parameters: &Parameters, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let ring = parameters.ring();
        let coefficients = match parameters.literal().secret {
            SecretDistribution::UniformTernary => rng.ternary(ring.degree()),
            SecretDistribution::SparseTernary { weight } => rng.sparse_ternary(ring.degree(), weight),
        };
        Self::from_coefficients(parameters, &coefficients)
    }

    pub(crate) fn from_coefficients(parameters: &Parameters, coefficients: &[i32]) -> Result<Self, RlweError> {
        let ring = parameters.ring();
        let all = ring.gadget_key_basis(ring.chain().len());
        let basis = if ring.special().is_empty() { all.without_special() } else { all };
        Ok(SecretKey { parameters: parameters.clone(), poly: secret_poly(ring, coefficients, basis)? })
    }

    /// Another secret over the same primes, in the evaluation domain.
    pub(crate) fn lift_secret(&self, coefficients: &[i32]) -> Result<Poly, RlweError> {
        secret_poly(self.parameters.ring(), coefficients, self.poly.basis())
    }

    /// The parameters it belongs to.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn poly(&self) -> &Poly {
        &self.poly
    }

    /// The ternary coefficients, two bits each, for storage by the owner. The bytes are secret.
    pub fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>, RlweError> {
        let ring = self.parameters.ring();
        let mut poly = ring.restricted(&self.poly, Basis::chain(1))?;
        ring.to_coefficients(&mut poly)?;
        let digits = ring.ternary_digits(&poly)?;
        let pack = |quad: &[u8]| quad.iter().rev().fold(0u8, |byte, digit| (byte << 2) | digit);
        Ok(Zeroizing::new(digits.chunks(4).map(pack).collect()))
    }

    /// The coefficients.
    pub(crate) fn coefficients(&self) -> Result<Zeroizing<Vec<i32>>, RlweError> {
        Ok(unpacked(&self.to_bytes()?))
    }

    /// Reads the output of [`SecretKey::to_bytes`].
    ///
    /// # Errors
    /// If the length does not fit the parameters or a coefficient is not ternary. Only that branch depends on them.
    #[inline(never)]
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, RlweError> {
        let degree = parameters.ring().degree();
        let bad =
            |found: String, needed: &str| RlweError::Decode { what: "a secret key", found, needed: needed.into() };
        if bytes.len() != degree / 4 {
            return Err(bad(format!("{} bytes", bytes.len()), &format!("{} bytes", degree / 4)));
        }
        let coefficients = unpacked(bytes);
        if any_above_one(&coefficients) {
            return Err(bad("a coefficient above 1".into(), "coefficients -1, 0 and 1"));
        }
        Self::from_coefficients(parameters, &coefficients)
    }
}

/// The coefficients of a secret, four in each byte.
fn unpacked(bytes: &[u8]) -> Zeroizing<Vec<i32>> {
    let unpack = |byte: &u8| [0, 2, 4, 6].map(|shift| i32::from(byte >> shift & 3) - 1);
    let mut coefficients = Zeroizing::new(Vec::with_capacity(4 * bytes.len()));
    coefficients.extend(bytes.iter().flat_map(unpack));
    coefficients
}

/// Whether a coefficient is above 1, without a branch on one.
#[inline(never)]
fn any_above_one(coefficients: &[i32]) -> bool {
    coefficients.iter().fold(0, |seen, &c| seen | black_box(u8::from(c > 1))) != 0
}

pub(crate) fn secret_poly(ring: &Ring, coefficients: &[i32], basis: Basis) -> Result<Poly, RlweError> {
    Ok(ring.evaluate_secret_i32(coefficients, basis)?)
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("parameters", &self.parameters.name()).finish_non_exhaustive()
    }
}

/// The kind of a switching key: the secret that it switches from. All kinds switch to the secret key itself, except the
/// kinds that name another secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// From `s^2`: for products.
    Relinearisation,
    /// From `s` to the sparse secret of a bootstrap, at the lowest level.
    Encapsulation,
    /// From the secret of compact queries ([`CompactQuery`](crate::CompactQuery)) to the sparse secret of a bootstrap.
    QueryEncapsulation,
    /// From the sparse secret of a bootstrap to `s`.
    Decapsulation,
    /// From the sparse secret of subring queries ([`SubringQuery`](crate::SubringQuery)) to `s`.
    SubringQuery,
    /// From `s` to the secret of the ring of half the degree ([`Ciphertext::rounded`](crate::Ciphertext::rounded)).
    HalfRing,
    /// From the image of `s` under `X -> X^element`: for rotations and conjugation.
    Galois {
        /// The exponent.
        element: u64,
    },
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Relinearisation => f.write_str("relinearisation key"),
            KeyKind::Encapsulation => f.write_str("encapsulation key"),
            KeyKind::QueryEncapsulation => f.write_str("encapsulation key of queries"),
            KeyKind::Decapsulation => f.write_str("decapsulation key"),
            KeyKind::SubringQuery => f.write_str("key of subring queries"),
            KeyKind::HalfRing => f.write_str("key to the ring of half the degree"),
            KeyKind::Galois { element } => write!(f, "Galois key {element}"),
        }
    }
}

impl KeyKind {
    /// The code of the kind in messages: the Galois element, or an even number, because Galois elements are odd.
    pub fn code(self) -> u64 {
        match self {
            KeyKind::Relinearisation => 0,
            KeyKind::Encapsulation => 2,
            KeyKind::QueryEncapsulation => 4,
            KeyKind::Decapsulation => 6,
            KeyKind::HalfRing => 8,
            KeyKind::SubringQuery => 10,
            KeyKind::Galois { element } => element,
        }
    }

    /// The kind with this [`KeyKind::code`], if the ring has one.
    pub fn from_code(ring: &Ring, code: u64) -> Option<Self> {
        match code {
            0 => Some(KeyKind::Relinearisation),
            2 => Some(KeyKind::Encapsulation),
            4 => Some(KeyKind::QueryEncapsulation),
            6 => Some(KeyKind::Decapsulation),
            8 => Some(KeyKind::HalfRing),
            10 => Some(KeyKind::SubringQuery),
            element if element % 2 == 1 && element != 1 && element < galois::order(ring) => {
                Some(KeyKind::Galois { element })
            }
            _ => None,
        }
    }

    /// Whether a key of this kind is a gadget key; the others have one row over chain primes alone.
    pub(crate) fn is_gadget(self) -> bool {
        !matches!(self, KeyKind::Encapsulation | KeyKind::QueryEncapsulation)
    }

    /// Number of rows of a key for ciphertexts of `chain` primes, and their basis. An encapsulation key has one row
    /// over chain primes alone.
    pub(crate) fn rows(self, ring: &Ring, chain: usize) -> (usize, Basis) {
        match self {
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => (1, Basis::chain(chain)),
            _ => (ring.digit_count(chain), ring.gadget_key_basis(chain)),
        }
    }
}

/// Galois elements of the slot operations.
pub mod galois {
    use unspoken_ring::{Ring, RingKind};

    /// The order of the ring's root of unity. Galois elements are numbers modulo this order.
    pub fn order(ring: &Ring) -> u64 {
        u64::from(ring.kind().prime_step(ring.degree()))
    }

    /// The element that rotates the slots to the left by `steps`: slot `j` gets the value of slot `j + steps`.
    pub fn rotation(ring: &Ring, steps: i64) -> u64 {
        let modulus = order(ring);
        let slots = match ring.kind() {
            RingKind::Standard => ring.degree() / 2,
            RingKind::ConjugateInvariant => ring.degree(),
        };
        let mut exponent = steps.rem_euclid(slots as i64) as u64;
        let (mut base, mut result) = (5u64, 1u64);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * base % modulus;
            }
            base = base * base % modulus;
            exponent >>= 1;
        }
        result
    }

    /// The element that conjugates the slots of the standard ring.
    pub fn conjugation(ring: &Ring) -> u64 {
        order(ring) - 1
    }

    /// The inverse of an odd element.
    pub fn inverse(ring: &Ring, element: u64) -> u64 {
        let mut inverse = element;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(element.wrapping_mul(inverse)));
        }
        inverse % order(ring)
    }
}

/// A switching key for storage and transfer: a seed for one half of every row, and the other half in full.
#[derive(Debug, Clone)]
pub struct SeededSwitchingKey {
    pub(crate) kind: KeyKind,
    pub(crate) chain: usize,
    pub(crate) seed: Seed,
    /// Per digit, over the extended basis, evaluation domain.
    pub(crate) bodies: Vec<Poly>,
}

impl SeededSwitchingKey {
    /// Generates the key of `kind` for ciphertexts of at most `chain` primes, under a fresh seed.
    ///
    /// Row `d` is `(b, a)` with `b = -a t + e + P mask_d m`: for relinearisation `t = s`, `m = s^2`; for the element
    /// `g`, `t` is the image of `s` under `g^-1` and `m = s`, so that the automorphism is applied after switching; for
    /// decapsulation and for subring queries `t = s` and `m` is the sparse secret; for the ring of half the degree `t =
    /// s'(X^2)` and `m = s`. An encapsulation key has the sparse secret as `t`, one row, and for `P` the product of the
    /// chain primes that the switched ciphertexts do not have.
    ///
    /// # Errors
    /// If the parameters have no special primes or fewer chain primes, or `g` is not a Galois element, or as for
    /// [`Parameters::check_kind`].
    pub fn generate(secret: &SecretKey, kind: KeyKind, chain: usize, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let ring = secret.parameters.ring();
        secret.parameters.check_kind(kind, chain)?;
        let (rows, basis) = kind.rows(ring, chain);
        let SwitchedSecrets { target, message } = SwitchedSecrets::of(secret, kind)?;
        let seed = rng.seed();
        let row = |digit: usize| -> Result<Poly, RlweError> {
            let error = rng.gaussian(ring.degree());
            let mut body = ring.small_minus_uniform_product(&error, (&seed, digit as u32), &target, basis)?;
            if basis.special != Special::None {
                ring.add_gadget_message(&mut body, &message, digit)?;
            } else {
                ring.add_assign(&mut body, &secret.encapsulated_message(kind, &message, chain)?)?;
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
        let (ring, whole) = (secret.parameters.ring(), secret.poly());
        let (target, message) = match kind {
            KeyKind::Relinearisation => {
                let mut square = whole.clone();
                ring.mul_assign(&mut square, whole)?;
                (whole.clone(), square)
            }
            KeyKind::Galois { element } => (ring.automorphism(whole, galois::inverse(ring, element))?, whole.clone()),
            KeyKind::Encapsulation => (secret.sparse_secret()?, whole.clone()),
            KeyKind::QueryEncapsulation => (secret.sparse_secret()?, secret.embedded_query_secret()?),
            KeyKind::Decapsulation => (whole.clone(), secret.sparse_secret()?),
            KeyKind::SubringQuery => (whole.clone(), secret.embedded_subring_query_secret()?),
            KeyKind::HalfRing => (secret.lift_secret(&secret.half_ring_secret()?)?, whole.clone()),
        };
        Ok(SwitchedSecrets { target, message })
    }
}

/// Number of slots: complex slots in the standard ring, real slots in the conjugate-invariant ring.
pub fn slot_count(ring: &Ring) -> usize {
    match ring.kind() {
        RingKind::Standard => ring.degree() / 2,
        RingKind::ConjugateInvariant => ring.degree(),
    }
}

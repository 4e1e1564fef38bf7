//! Secret keys, switching keys in seeded and in expanded form, and plans of the keys that a circuit needs.

use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_ring::{Basis, GadgetKey, Poly, Ring, RingKind, SecretRng, Seed};
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
        let special = !ring.special().is_empty();
        let basis = Basis { special, ..ring.gadget_key_basis(ring.chain().len()) };
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

    /// Sixteen bytes that identify this secret and reveal nothing else about it.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn identity(&self) -> Result<[u8; 16], RlweError> {
        let mut identity = [0; 16];
        self.derive("unspoken 2026 identity of a secret key")?.fill(&mut identity);
        Ok(identity)
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
        let unpack = |byte: &u8| [0, 2, 4, 6].map(|shift| i32::from(byte >> shift & 3) - 1);
        let coefficients = Zeroizing::new(bytes.iter().flat_map(unpack).collect::<Vec<i32>>());
        if any_above_one(&coefficients) {
            return Err(bad("a coefficient above 1".into(), "coefficients -1, 0 and 1"));
        }
        Self::from_coefficients(parameters, &coefficients)
    }
}

/// Whether a coefficient is above 1, without a branch on one.
#[inline(never)]
fn any_above_one(coefficients: &[i32]) -> bool {
    coefficients.iter().fold(0, |seen, &c| seen | black_box(u8::from(c > 1))) != 0
}

fn secret_poly(ring: &Ring, coefficients: &[i32], basis: Basis) -> Result<Poly, RlweError> {
    let mut poly = ring.evaluate_i32(coefficients, basis)?;
    poly.mark_secret();
    Ok(poly)
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("parameters", &self.parameters.name()).finish_non_exhaustive()
    }
}

/// The kind of a switching key: the secret that it switches from. All kinds switch to the secret key itself, except the
/// two kinds of encapsulation.
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
            element if element % 2 == 1 && element != 1 && element < galois::order(ring) => {
                Some(KeyKind::Galois { element })
            }
            _ => None,
        }
    }

    /// Number of rows of a key for ciphertexts of `chain` primes, and their basis. An encapsulation key has one row
    /// over chain primes alone.
    pub(crate) fn rows(self, ring: &Ring, chain: usize) -> (usize, Basis) {
        match self {
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => (1, Basis::chain(chain)),
            _ => (ring.digit_count(chain), ring.gadget_key_basis(chain)),
        }
    }

    fn memory_bytes(self, ring: &Ring, chain: usize) -> usize {
        match self {
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => 2 * ring.poly_bytes(Basis::chain(chain)),
            _ => ring.gadget_key_bytes(chain),
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

/// The switching keys that a circuit needs, each with the number of chain primes that it must cover.
///
/// A key that is used only on ciphertexts of low level need not cover the primes above that level, which saves memory
/// and traffic. Plans of several circuits are merged with [`KeyPlan::extend`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlan(BTreeMap<KeyKind, usize>);

impl KeyPlan {
    /// The empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `kind` for ciphertexts of at most `chain` primes. The identity automorphism needs no key.
    pub fn require(&mut self, kind: KeyKind, chain: usize) {
        if kind != (KeyKind::Galois { element: 1 }) {
            let covered = self.0.entry(kind).or_insert(0);
            *covered = (*covered).max(chain);
        }
    }

    /// Adds all keys of `other`.
    pub fn extend(&mut self, other: &KeyPlan) {
        other.iter().for_each(|(kind, chain)| self.require(kind, chain));
    }

    /// Whether the plan has this key for ciphertexts of `chain` primes.
    pub fn covers_key(&self, kind: KeyKind, chain: usize) -> bool {
        self.0.get(&kind).is_some_and(|&covered| covered >= chain)
    }

    /// Whether keys of this plan can be used wherever those of `other` can.
    pub fn covers(&self, other: &KeyPlan) -> bool {
        other.iter().all(|(kind, chain)| self.covers_key(kind, chain))
    }

    /// The keys, each with the number of chain primes that it covers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (KeyKind, usize)> + '_ {
        self.0.iter().map(|(&kind, &chain)| (kind, chain))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the plan has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the expanded keys in memory.
    pub fn memory_bytes(&self, ring: &Ring) -> u64 {
        self.iter().map(|(kind, chain)| kind.memory_bytes(ring, chain) as u64).sum()
    }

    /// Bytes of the seeded keys, without the few bytes of headers.
    pub fn wire_bytes(&self, ring: &Ring) -> u64 {
        let one = |(kind, chain): (KeyKind, usize)| {
            let (rows, basis) = kind.rows(ring, chain);
            rows * ring.residue_bytes(basis)
        };
        self.iter().map(|key| one(key) as u64).sum()
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
    /// decapsulation `t = s` and `m` is the sparse secret. An encapsulation key has the sparse secret as `t`, one row,
    /// and for `P` the product of the chain primes beyond those of the ciphertexts it switches.
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
            if basis.special {
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

    /// Expands the seeded halves into a key for use.
    fn expand(&self, ring: &Ring) -> Result<SwitchingKey, RlweError> {
        let (_, basis) = self.kind.rows(ring, self.chain);
        let mask = |digit: usize| ring.uniform(&self.seed, digit as u32, basis);
        if let (false, [body]) = (basis.special, self.bodies.as_slice()) {
            return Ok(SwitchingKey::SingleDigit([body.clone(), mask(0)]));
        }
        let mut builder = ring.gadget_key_builder(self.chain)?;
        for (digit, body) in self.bodies.iter().enumerate() {
            builder.push([body, &mask(digit)])?;
        }
        Ok(SwitchingKey::Gadget(builder.finish()?))
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
        };
        Ok(SwitchedSecrets { target, message })
    }
}

/// Generates every key of a plan, one after the other, and passes each to `sink`. Stops early if `cancel` is set.
///
/// # Errors
/// [`RlweError::Interrupted`] if cancelled, the errors of `sink`, or as for [`SeededSwitchingKey::generate`].
pub fn generate_keys(
    secret: &SecretKey,
    plan: &KeyPlan,
    rng: &mut SecretRng,
    cancel: &AtomicBool,
    mut sink: impl FnMut(SeededSwitchingKey) -> Result<(), RlweError>,
) -> Result<(), RlweError> {
    for (kind, chain) in plan.iter() {
        if cancel.load(Ordering::Relaxed) {
            return Err(RlweError::Interrupted);
        }
        sink(SeededSwitchingKey::generate(secret, kind, chain, rng)?)?;
    }
    Ok(())
}

/// The expanded switching keys of one client, on the server.
#[derive(Debug, Default)]
pub struct EvaluationKeys(BTreeMap<KeyKind, SwitchingKey>);

/// An expanded key.
#[derive(Debug)]
enum SwitchingKey {
    /// One row per digit, over the extended basis.
    Gadget(GadgetKey),
    /// One row over chain primes, in the evaluation domain.
    SingleDigit([Poly; 2]),
}

impl SwitchingKey {
    fn chain(&self) -> usize {
        match self {
            SwitchingKey::Gadget(key) => key.chain(),
            SwitchingKey::SingleDigit([body, _]) => body.basis().chain,
        }
    }
}

impl EvaluationKeys {
    /// An empty set of keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Generates and expands every key of a plan: for tests, benchmarks and use on a single machine.
    ///
    /// # Errors
    /// As for [`SeededSwitchingKey::generate`].
    pub fn generate(secret: &SecretKey, plan: &KeyPlan, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let mut keys = EvaluationKeys::new();
        let ring = secret.parameters().ring();
        generate_keys(secret, plan, rng, &AtomicBool::new(false), |key| keys.insert(ring, &key))?;
        Ok(keys)
    }

    /// Expands and adds a key.
    ///
    /// # Errors
    /// If the key belongs to another ring.
    pub fn insert(&mut self, ring: &Ring, key: &SeededSwitchingKey) -> Result<(), RlweError> {
        self.0.insert(key.kind, key.expand(ring)?);
        Ok(())
    }

    /// The gadget key of `kind` for a ciphertext of `chain` primes.
    ///
    /// # Errors
    /// [`RlweError::MissingKeys`] if it is absent or covers fewer primes.
    pub fn get(&self, operation: &'static str, kind: KeyKind, chain: usize) -> Result<&GadgetKey, RlweError> {
        match self.0.get(&kind) {
            Some(SwitchingKey::Gadget(key)) if key.chain() >= chain => Ok(key),
            _ => Err(RlweError::MissingKeys { operation, missing: vec![(kind, chain)] }),
        }
    }

    /// The row of an encapsulation key.
    pub(crate) fn single_digit(
        &self,
        operation: &'static str,
        kind: KeyKind,
        chain: usize,
    ) -> Result<&[Poly; 2], RlweError> {
        match self.0.get(&kind) {
            Some(SwitchingKey::SingleDigit(row)) if row[0].basis().chain == chain => Ok(row),
            _ => Err(RlweError::MissingKeys { operation, missing: vec![(kind, chain)] }),
        }
    }

    /// Checks that all keys of a plan are present.
    ///
    /// # Errors
    /// [`RlweError::MissingKeys`], which names all missing keys.
    pub fn check(&self, operation: &'static str, plan: &KeyPlan) -> Result<(), RlweError> {
        let there = |(kind, chain): &(KeyKind, usize)| self.0.get(kind).is_some_and(|key| key.chain() >= *chain);
        let missing: Vec<_> = plan.iter().filter(|key| !there(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(RlweError::MissingKeys { operation, missing }) }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let bytes = |key: &SwitchingKey| match key {
            SwitchingKey::Gadget(key) => key.bytes(),
            SwitchingKey::SingleDigit([body, mask]) => body.bytes() + mask.bytes(),
        };
        self.0.values().map(|key| bytes(key) as u64).sum()
    }
}

/// Number of slots: complex slots in the standard ring, real slots in the conjugate-invariant ring.
pub fn slot_count(ring: &Ring) -> usize {
    match ring.kind() {
        RingKind::Standard => ring.degree() / 2,
        RingKind::ConjugateInvariant => ring.degree(),
    }
}

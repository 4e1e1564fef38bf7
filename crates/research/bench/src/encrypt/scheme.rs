//! The keys and objects of one scheme, and the encoded inputs of every encryption method.

use std::sync::Arc;

use unspoken_audit::insecure_reproduction::{Vanilla, Zinc};
use unspoken_audit::{MessageSpace, Scheme, Size};
use unspoken_ckks as ckks;
use unspoken_ring::{Poly, SecretRng};
use unspoken_rlwe::{Ciphertext, PublicKey, SecretKey};

use crate::error::wrong;

/// The scale of CKKS messages: the paper's, and the scale of [`MessageSpace`].
pub(super) const SCALE: f64 = (1u64 << 55) as f64;

/// Largest error of a decrypted number, relative to the largest of its message.
const CKKS_TOLERANCE: f64 = 1.0 / (1u64 << 30) as f64;

/// The keys of one scheme.
pub(super) struct SchemeFixture {
    pub(super) space: MessageSpace,
    pub(super) secret: Arc<SecretKey>,
    pub(super) public: Arc<PublicKey>,
    /// The public key of the published methods.
    pub(super) vanilla: Vanilla,
    pub(super) zinc: Zinc,
}

/// An encoded message.
pub(super) struct Message {
    pub(super) own: Encoded,
    /// The polynomial that the published methods add, if it differs: in BGV.
    published: Option<Poly>,
}

/// Input of the product's methods.
pub(super) enum Encoded {
    Approximate(ckks::Plaintext),
    Exact(Poly),
}

impl SchemeFixture {
    pub(super) fn new(scheme: Scheme, size: Size) -> anyhow::Result<Self> {
        let space = MessageSpace::new(scheme, size)?;
        // These keys protect no data: a fixed seed gives every run the same numbers.
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(space.rlwe(), &mut rng)?;
        let public = PublicKey::generate(&secret, &mut rng)?;
        let vanilla = Vanilla::generate(&space, &secret, &mut rng)?;
        let zinc = Zinc::new(&vanilla, &mut rng)?;
        Ok(SchemeFixture { space, secret: Arc::new(secret), public: Arc::new(public), vanilla, zinc })
    }

    /// Number of values in one message.
    pub(super) fn slots(&self) -> usize {
        match &self.space {
            MessageSpace::Approximate(encoder) => encoder.parameters().slots(),
            MessageSpace::Exact(encoder) => encoder.parameters().slots(),
        }
    }

    /// The plaintext modulus; `None` in CKKS.
    pub(super) fn plain_modulus(&self) -> Option<u32> {
        match &self.space {
            MessageSpace::Approximate(_) => None,
            MessageSpace::Exact(encoder) => Some(encoder.parameters().plain_modulus()),
        }
    }

    /// Encodes as the product does. CKKS repeats the values to fill the slots; the exact schemes round to the nearest
    /// integers.
    pub(super) fn encode(&self, values: &[f64]) -> anyhow::Result<Encoded> {
        match &self.space {
            MessageSpace::Approximate(encoder) => {
                Ok(Encoded::Approximate(encoder.encode_real(values, encoder.parameters().max_level(), SCALE)?))
            }
            MessageSpace::Exact(encoder) => {
                let integers: Vec<i64> = values.iter().map(|x| x.round() as i64).collect();
                Ok(Encoded::Exact(encoder.message(&encoder.encode_slots(&integers)?)?))
            }
        }
    }

    /// Encodes for every method.
    pub(super) fn message(&self, values: &[f64]) -> anyhow::Result<Message> {
        let own = self.encode(values)?;
        let mut published = None;
        if self.space.scheme() == Scheme::Bgv {
            published = Some(self.space.encode(values)?);
        }
        Ok(Message { own, published })
    }

    /// Checks that a ciphertext decrypts to these numbers.
    pub(super) fn check(&self, case: &str, found: &Ciphertext, values: &[f64]) -> anyhow::Result<()> {
        let decrypted: Vec<f64> = match &self.space {
            MessageSpace::Approximate(encoder) => {
                let slots = encoder.decode(&self.secret.decrypt(found)?, SCALE)?;
                slots.iter().take(values.len()).map(|z| z.re).collect()
            }
            MessageSpace::Exact(_) => self.space.decrypt(&self.secret, found, values.len())?,
        };
        let (mut worst, mut largest) = (0.0f64, 1.0f64);
        for (found, expected) in decrypted.iter().zip(values) {
            let distance = match self.plain_modulus() {
                None => (found - expected).abs(),
                // Sums wrap around.
                Some(t) => (found - expected).rem_euclid(f64::from(t)),
            };
            // NaN must count as an error, not as a small distance.
            worst = if distance.is_nan() { f64::INFINITY } else { worst.max(distance) };
            largest = largest.max(expected.abs());
        }
        let needed = if self.plain_modulus().is_some() { 0.0 } else { CKKS_TOLERANCE * largest };
        if decrypted.len() == values.len() && worst <= needed {
            return Ok(());
        }
        Err(wrong(case, worst, needed))
    }
}

impl Message {
    /// A message of CKKS or BFV, which the published methods use unchanged.
    pub(super) fn shared(own: Encoded) -> Self {
        Message { own, published: None }
    }

    /// The polynomial that the published methods add to the first component.
    pub(super) fn published(&self) -> &Poly {
        self.published.as_ref().unwrap_or(match &self.own {
            Encoded::Approximate(plaintext) => plaintext.poly(),
            Encoded::Exact(message) => message,
        })
    }
}

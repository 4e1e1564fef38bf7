//! The ways of encrypting that are audited.

use std::fmt;
use std::sync::Arc;

use unspoken_ckks::Zero;
use unspoken_encrypt::{ClientKey, Pool, PoolOptions};
use unspoken_exact::Origin;
use unspoken_ring::SecretRng;
use unspoken_rlwe::{Ciphertext, PublicKey, SecretKey};

use crate::attack::Procedure;
use crate::error::AuditError;
use crate::insecure_reproduction::{Rache, Vanilla, Zinc};
use crate::space::{MessageSpace, integer};

/// A way of encrypting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One cached encryption of zero; broken.
    Zinc,
    /// Sums of cached powers of 2; broken.
    Rache2,
    /// Sums of cached powers of 6; broken.
    Rache6,
    /// The baseline of the papers: public-key encryption, step by step.
    Vanilla,
    /// The product's: under the secret key, the uniform half from a seed.
    Seeded,
    /// The product's: under a public key.
    PublicKey,
    /// The product's: encryptions of zero made ahead, each used once.
    Pool,
}

impl Mode {
    /// All of them, the broken ones first.
    pub const ALL: [Mode; 7] =
        [Mode::Zinc, Mode::Rache2, Mode::Rache6, Mode::Vanilla, Mode::Seeded, Mode::PublicKey, Mode::Pool];

    /// Whether it is claimed to be sound.
    pub fn is_sound(self) -> bool {
        !matches!(self, Mode::Zinc | Mode::Rache2 | Mode::Rache6)
    }

    /// The attacks it must face: the one made for it, or all.
    pub(super) fn procedures(self) -> &'static [Procedure] {
        match self {
            Mode::Zinc => &[Procedure::Difference],
            Mode::Rache2 | Mode::Rache6 => &[Procedure::Span],
            _ => &Procedure::ALL,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Zinc => "Zinc",
            Mode::Rache2 => "Rache, radix 2",
            Mode::Rache6 => "Rache, radix 6",
            Mode::Vanilla => "vanilla",
            Mode::Seeded => "seeded secret-key",
            Mode::PublicKey => "public-key",
            Mode::Pool => "single-use pool",
        })
    }
}

/// Radix and pivots that cover the messages: 2^10 and 6^4 are above 1000.
const RADIX_2: (u64, usize) = (2, 10);
const RADIX_6: (u64, usize) = (6, 4);

/// Encryptions of zero made at once.
const POOL_BATCH: usize = 8;

/// A mode with its keys.
pub(super) struct Encryptor {
    mode: Mode,
    space: MessageSpace,
    keys: Keys,
}

enum Keys {
    Zinc(Zinc),
    Rache(Rache),
    Vanilla(Vanilla),
    Seeded(SecretKey),
    PublicKey(PublicKey),
    Pool(SingleUse),
}

/// Encryptions of zero made ahead.
enum SingleUse {
    /// The product's pool.
    Approximate(Pool),
    /// What that pool does, for the schemes it does not know.
    Exact(PublicKey, Vec<Ciphertext>),
}

impl Encryptor {
    pub(super) fn new(
        mode: Mode,
        space: &MessageSpace,
        secret: &SecretKey,
        rng: &mut SecretRng,
    ) -> Result<Self, AuditError> {
        let mut vanilla = || Vanilla::generate(space, secret, rng);
        let keys = match mode {
            Mode::Zinc => Keys::Zinc(Zinc::new(&vanilla()?, rng)?),
            Mode::Rache2 => Keys::Rache(Rache::new(&vanilla()?, RADIX_2.0, RADIX_2.1, rng)?),
            Mode::Rache6 => Keys::Rache(Rache::new(&vanilla()?, RADIX_6.0, RADIX_6.1, rng)?),
            Mode::Vanilla => Keys::Vanilla(vanilla()?),
            Mode::Seeded => Keys::Seeded(SecretKey::from_bytes(space.rlwe(), &secret.to_bytes()?)?),
            Mode::PublicKey => Keys::PublicKey(PublicKey::generate(secret, rng)?),
            Mode::Pool => Keys::Pool(SingleUse::new(space, PublicKey::generate(secret, rng)?)?),
        };
        Ok(Encryptor { mode, space: space.clone(), keys })
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn encrypt(&mut self, values: &[f64], rng: &mut SecretRng) -> Result<Ciphertext, AuditError> {
        let space = &self.space;
        match &mut self.keys {
            Keys::Zinc(zinc) => zinc.encrypt(&space.encode(values)?, rng),
            Keys::Vanilla(vanilla) => vanilla.encrypt(&space.encode(values)?, rng),
            Keys::Rache(rache) => {
                let [value] = values else {
                    let (found, needed) = (format!("{} values", values.len()), "one value".into());
                    return Err(AuditError::Range { operation: "encrypt with Rache", found, needed });
                };
                let value = integer("encrypt with Rache", *value)?;
                rache.encrypt(value.unsigned_abs(), rng)
            }
            Keys::Seeded(secret) => match space {
                MessageSpace::Approximate(encoder) => {
                    let seeded = encoder.encrypt(&space.approximate(encoder, values)?, secret, rng)?;
                    Ok(seeded.expand(encoder.parameters()).inner().clone())
                }
                MessageSpace::Exact(encoder) => {
                    Ok(encoder.encrypt(&space.exact(encoder, values)?, secret, rng)?.expand()?.inner().clone())
                }
            },
            Keys::PublicKey(key) => match space {
                MessageSpace::Approximate(encoder) => {
                    Ok(encoder.encrypt_public(&space.approximate(encoder, values)?, key, rng)?.inner().clone())
                }
                MessageSpace::Exact(encoder) => {
                    Ok(encoder.encrypt_public(&space.exact(encoder, values)?, key, rng)?.inner().clone())
                }
            },
            Keys::Pool(pool) => pool.encrypt(space, values, rng),
        }
    }
}

impl SingleUse {
    fn new(space: &MessageSpace, key: PublicKey) -> Result<Self, AuditError> {
        Ok(match space {
            MessageSpace::Approximate(encoder) => {
                let (parameters, level) = (encoder.parameters(), encoder.parameters().max_level());
                let capacity_bytes = POOL_BATCH * Zero::memory_bytes(parameters, level, false);
                let options = PoolOptions { level, capacity_bytes, background: false };
                SingleUse::Approximate(Pool::new(parameters, ClientKey::Public(Arc::new(key)), options)?)
            }
            MessageSpace::Exact(_) => SingleUse::Exact(key, Vec::new()),
        })
    }

    /// Takes a zero by value, from a fresh batch if there is none, and adds the message to it.
    fn encrypt(&mut self, space: &MessageSpace, values: &[f64], rng: &mut SecretRng) -> Result<Ciphertext, AuditError> {
        match (self, space) {
            (SingleUse::Approximate(pool), MessageSpace::Approximate(encoder)) => {
                if pool.available()? == 0 {
                    pool.fill(rng)?;
                }
                let zero = pool.take()?.ok_or_else(|| no_zero("none after the pool was filled"))?;
                let encrypted = encoder.encrypt_with(&space.approximate(encoder, values)?, zero)?;
                Ok(encrypted.expand(encoder.parameters()).inner().clone())
            }
            (SingleUse::Exact(key, zeros), MessageSpace::Exact(encoder)) => {
                if zeros.is_empty() {
                    for _ in 0..POOL_BATCH {
                        zeros.push(key.encrypt_zero(space.basis().chain, rng)?);
                    }
                }
                let zero = zeros.pop().ok_or_else(|| no_zero("none after the pool was filled"))?;
                let message = encoder.message(&space.exact(encoder, values)?)?;
                Ok(encoder.adopt(zero.plus(space.ring(), &message)?, Origin::Public)?.inner().clone())
            }
            _ => Err(no_zero("those of another scheme")),
        }
    }
}

fn no_zero(found: &str) -> AuditError {
    AuditError::Range { operation: "take from the pool", found: found.into(), needed: "an encryption of zero".into() }
}

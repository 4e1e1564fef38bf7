//! The encryption modes that are audited.

use std::fmt;
use std::sync::Arc;

use unspoken_encrypt::{ClientKey, Pool, PoolOptions};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{Ciphertext, PublicKey, SecretKey, ZeroEncryption};

use crate::attack::Procedure;
use crate::error::AuditError;
use crate::insecure_reproduction::{Rache, RacheShape, Vanilla, Zinc};
use crate::space::{MessageSpace, Scheme, integer};

/// An encryption mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One cached encryption of zero; broken.
    Zinc,
    /// Sums of cached powers of a radix; broken.
    Rache(RacheShape),
    /// The baseline of the papers: public-key encryption, step by step.
    Vanilla,
    /// Product: under the secret key, with the uniform half from a seed.
    Seeded,
    /// Product: under a public key.
    PublicKey,
    /// Product: precomputed encryptions of zero, each used once.
    Pool,
}

impl Mode {
    /// The sound modes.
    const SOUND: [Mode; 4] = [Mode::Vanilla, Mode::Seeded, Mode::PublicKey, Mode::Pool];

    /// All modes for a scheme, the broken ones first: Rache with every radix and number of pivots of the papers.
    pub fn all(scheme: Scheme) -> Vec<Mode> {
        let rache = RacheShape::published(scheme).iter().copied().map(Mode::Rache);
        [Mode::Zinc].into_iter().chain(rache).chain(Mode::SOUND).collect()
    }

    /// Whether the mode is claimed to be sound.
    pub fn is_sound(self) -> bool {
        !matches!(self, Mode::Zinc | Mode::Rache(_))
    }

    /// Number of cached encryptions that the attacker reckons with.
    pub(super) fn cached(self) -> usize {
        match self {
            Mode::Rache(shape) => shape.pivots,
            _ => ASSUMED_CACHE,
        }
    }

    /// Messages are integers below this limit.
    pub(super) fn message_limit(self) -> u64 {
        match self {
            Mode::Rache(shape) => shape.limit().min(MESSAGE_LIMIT.into()) as u64,
            _ => MESSAGE_LIMIT,
        }
    }

    /// The attacks on this mode: for a broken mode the one designed for it, otherwise all.
    pub(super) fn procedures(self) -> &'static [Procedure] {
        match self {
            Mode::Zinc => &[Procedure::Difference],
            Mode::Rache(_) => &[Procedure::Span],
            _ => &Procedure::ALL,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Zinc => "Zinc",
            Mode::Rache(shape) => return f.pad(&format!("Rache, {shape}")),
            Mode::Vanilla => "vanilla",
            Mode::Seeded => "seeded secret-key",
            Mode::PublicKey => "public-key",
            Mode::Pool => "single-use pool",
        })
    }
}

/// Messages are integers below this limit, and below the limit of a cache.
const MESSAGE_LIMIT: u64 = 1000;

/// Number of cached encryptions that an attacker on a sound mode reckons with.
const ASSUMED_CACHE: usize = 8;

/// Number of encryptions of zero generated at once.
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
    Pool(Pool),
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
            Mode::Rache(shape) => Keys::Rache(Rache::new(&vanilla()?, shape, rng)?),
            Mode::Vanilla => Keys::Vanilla(vanilla()?),
            Mode::Seeded => Keys::Seeded(SecretKey::from_bytes(space.rlwe(), &secret.to_bytes()?)?),
            Mode::PublicKey => Keys::PublicKey(PublicKey::generate(secret, rng)?),
            Mode::Pool => Keys::Pool(pool(space, PublicKey::generate(secret, rng)?)?),
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
            Keys::Pool(pool) => {
                let zero = take(pool, rng)?;
                match space {
                    MessageSpace::Approximate(encoder) => {
                        let encrypted = encoder.encrypt_with(&space.approximate(encoder, values)?, zero)?;
                        Ok(encrypted.expand(encoder.parameters()).inner().clone())
                    }
                    MessageSpace::Exact(encoder) => {
                        let encrypted = encoder.encrypt_with(&space.exact(encoder, values)?, zero)?;
                        Ok(encrypted.expand()?.inner().clone())
                    }
                }
            }
        }
    }
}

/// The product's pool; `take` refills it.
fn pool(space: &MessageSpace, key: PublicKey) -> Result<Pool, AuditError> {
    let basis = space.basis();
    let capacity_bytes = POOL_BATCH * ZeroEncryption::memory_bytes(space.rlwe(), basis, false);
    Ok(Pool::new(ClientKey::Public(Arc::new(key)), PoolOptions { basis, capacity_bytes, background: false })?)
}

/// Takes an entry; refills an empty pool first.
fn take(pool: &Pool, rng: &mut SecretRng) -> Result<ZeroEncryption, AuditError> {
    if pool.available()? == 0 {
        pool.fill(rng)?;
    }
    pool.take()?.ok_or_else(|| AuditError::Range {
        operation: "take from the pool",
        found: "none after it was filled".into(),
        needed: "an encryption of zero".into(),
    })
}

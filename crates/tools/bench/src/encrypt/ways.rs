//! The ways of encrypting, each ready to be timed.

use std::fmt;
use std::sync::Arc;

use unspoken_audit::{AuditError, MessageSpace};
use unspoken_ckks::{self as ckks, Encrypted};
use unspoken_encrypt::{ClientKey, Pool, PoolOptions};
use unspoken_exact::{self as exact, EncryptionKey};
use unspoken_ring::{Poly, SecretRng};
use unspoken_rlwe::{Ciphertext, FreshCiphertext, SeededCiphertext, ZeroEncryption};

use super::shop::{Encoded, Message, Shop};
use crate::error::BenchError;

/// Zeros in a pool. The oldest is taken first, so that what is taken is not what was just made.
pub(super) const STOCK: usize = 8;

/// A way of encrypting, Rache apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Vanilla,
    Zinc,
    Seeded,
    PublicKey,
    /// Takes a zero, made with the secret or with the public key, and adds the message.
    Pool {
        seeded: bool,
    },
    /// Makes such a zero; in CKKS.
    Fill {
        seeded: bool,
    },
}

impl Way {
    /// Those that encrypt a message.
    pub(super) const ENCRYPTING: [Way; 6] =
        [Way::Vanilla, Way::Zinc, Way::Seeded, Way::PublicKey, Way::Pool { seeded: true }, Way::Pool { seeded: false }];

    /// Whether it is one of the product's own.
    pub(super) fn is_own(self) -> bool {
        !matches!(self, Way::Vanilla | Way::Zinc)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Vanilla => "vanilla",
            Way::Zinc => "Zinc (broken)",
            Way::Seeded => "seeded",
            Way::PublicKey => "public key",
            Way::Pool { seeded: true } => "pool of the secret's",
            Way::Pool { seeded: false } => "pool of a public key's",
            Way::Fill { seeded: true } => "filling the pool, secret",
            Way::Fill { seeded: false } => "filling the pool, public key",
        })
    }
}

/// A way at work, with the randomness and the pool it needs.
pub(super) struct Worker<'a> {
    shop: &'a Shop,
    way: Way,
    rng: SecretRng,
    pool: Option<Pool>,
}

/// What a way made: kept until the clock has stopped.
pub(super) enum Made {
    Published(Ciphertext),
    Approximate(Encrypted),
    Zero(ZeroEncryption),
    ExactSeeded(SeededCiphertext),
    Exact(exact::Ciphertext),
}

impl<'a> Worker<'a> {
    pub(super) fn new(shop: &'a Shop, way: Way) -> Result<Self, BenchError> {
        let pool = match way {
            Way::Pool { seeded } => {
                let chain = shop.space.basis().chain;
                let capacity_bytes = STOCK * ZeroEncryption::memory_bytes(shop.space.rlwe(), chain, seeded);
                let options = PoolOptions { chain, capacity_bytes, background: false };
                Some(Pool::new(client_key(shop, seeded), options)?)
            }
            _ => None,
        };
        Ok(Worker { shop, way, rng: SecretRng::insecure_from_seed(2), pool })
    }

    /// Fills the pool, where the way has one: before the clock starts.
    pub(super) fn prepare(&mut self) -> Result<(), BenchError> {
        if let Some(pool) = &self.pool {
            pool.fill(&mut self.rng)?;
        }
        Ok(())
    }

    fn take(&self) -> Result<ZeroEncryption, BenchError> {
        let pool = self.pool.as_ref().ok_or_else(|| unexpected("a way without a pool"))?;
        pool.take()?.ok_or_else(|| unexpected("an empty pool"))
    }

    /// Does it once.
    pub(super) fn work(&mut self, message: &Message) -> Result<Made, BenchError> {
        let (shop, rng) = (self.shop, &mut self.rng);
        match (self.way, &shop.space, &message.own) {
            (Way::Vanilla, ..) => Ok(Made::Published(shop.vanilla.encrypt(message.published(), rng)?)),
            (Way::Zinc, ..) => Ok(Made::Published(shop.zinc.encrypt(message.published(), rng)?)),
            (_, MessageSpace::Approximate(encoder), Encoded::Approximate(message)) => {
                self.approximate(encoder, message)
            }
            (_, MessageSpace::Exact(encoder), Encoded::Exact(message)) => self.exact(encoder, message),
            _ => Err(unexpected("a message of another scheme")),
        }
    }

    fn approximate(&mut self, encoder: &ckks::Encoder, message: &ckks::Plaintext) -> Result<Made, BenchError> {
        let shop = self.shop;
        let made = match self.way {
            Way::Seeded => Encrypted::Seeded(encoder.encrypt(message, &shop.secret, &mut self.rng)?),
            Way::PublicKey => Encrypted::Full(encoder.encrypt_public(message, &shop.public, &mut self.rng)?),
            Way::Pool { .. } => encoder.encrypt_with(message, self.take()?)?,
            Way::Fill { seeded } => {
                let chain = shop.space.basis().chain;
                return Ok(Made::Zero(client_key(shop, seeded).zero(chain, &mut self.rng)?));
            }
            Way::Vanilla | Way::Zinc => return Err(unexpected("a way without what it needs")),
        };
        Ok(Made::Approximate(made))
    }

    fn exact(&mut self, encoder: &exact::Encoder, message: &Poly) -> Result<Made, BenchError> {
        let shop = self.shop;
        let fresh = match self.way {
            Way::Seeded => FreshCiphertext::Seeded(SeededCiphertext::encrypt(&shop.secret, message, &mut self.rng)?),
            Way::PublicKey => FreshCiphertext::Full(shop.public.encrypt(message, &mut self.rng)?),
            Way::Pool { .. } => self.take()?.plus(shop.space.ring(), message)?,
            _ => return Err(unexpected("a way without what it needs")),
        };
        Ok(match fresh {
            FreshCiphertext::Seeded(ciphertext) => Made::ExactSeeded(ciphertext),
            FreshCiphertext::Full(ciphertext) => Made::Exact(encoder.import_fresh(ciphertext, EncryptionKey::Public)?),
        })
    }

    /// Does it once untimed and decrypts: a wrong result is an error, not a timing.
    pub(super) fn check(&mut self, case: &str, values: &[f64]) -> Result<(), BenchError> {
        self.prepare()?;
        let (shop, message) = (self.shop, self.shop.message(values)?);
        let made = self.work(&message)?;
        let ciphertext = match (made, &shop.space, message.own) {
            (Made::Published(ciphertext), ..) => ciphertext,
            (Made::Approximate(made), MessageSpace::Approximate(encoder), _) => {
                made.expand(encoder.parameters()).inner().clone()
            }
            (Made::Zero(zero), MessageSpace::Approximate(encoder), Encoded::Approximate(message)) => {
                encoder.encrypt_with(&message, zero)?.expand(encoder.parameters()).inner().clone()
            }
            (Made::ExactSeeded(made), MessageSpace::Exact(encoder), _) => {
                encoder.import_fresh(made.expand(shop.space.ring()), EncryptionKey::Secret)?.inner().clone()
            }
            (Made::Exact(made), ..) => made.inner().clone(),
            _ => return Err(unexpected("a message of another scheme")),
        };
        shop.check(case, &ciphertext, values)
    }
}

/// The key that zeros are made with.
fn client_key(shop: &Shop, seeded: bool) -> ClientKey {
    match seeded {
        true => ClientKey::Secret(Arc::clone(&shop.secret)),
        false => ClientKey::Public(Arc::clone(&shop.public)),
    }
}

fn unexpected(found: &str) -> BenchError {
    AuditError::Range { operation: "encrypt", found: found.into(), needed: "what the way takes".into() }.into()
}

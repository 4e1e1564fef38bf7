//! Encryption methods, prepared for timing.

use std::fmt;
use std::sync::Arc;

use unspoken_audit::{AuditError, MessageSpace};
use unspoken_ckks::{self as ckks, Encrypted};
use unspoken_encrypt::{ClientKey, Pool, PoolOptions};
use unspoken_exact::{self as exact, EncryptionKey};
use unspoken_ring::{Poly, SecretRng};
use unspoken_rlwe::{Ciphertext, FreshCiphertext, SeededCiphertext, ZeroEncryption};

use super::scheme::{Encoded, Message, SchemeFixture};
use crate::clock::{Stopwatch, TimedOperation};

/// Number of zeros in a pool. The oldest is taken first, so a zero is never taken right after its generation.
pub(super) const POOL_SIZE: usize = 8;

/// An encryption method; Rache is in [`super::rache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncryptionMethod {
    Vanilla,
    Zinc,
    Seeded,
    PublicKey,
    /// Takes an encryption of zero, generated with the secret or the public key, and adds the message.
    Pool {
        seeded: bool,
    },
    /// Generates such an encryption of zero, in CKKS.
    Fill {
        seeded: bool,
    },
}

impl EncryptionMethod {
    /// The methods that encrypt a message.
    pub(super) const ENCRYPTING: [EncryptionMethod; 6] = [
        EncryptionMethod::Vanilla,
        EncryptionMethod::Zinc,
        EncryptionMethod::Seeded,
        EncryptionMethod::PublicKey,
        EncryptionMethod::Pool { seeded: true },
        EncryptionMethod::Pool { seeded: false },
    ];

    /// Whether it is one of the product's own methods.
    pub(super) fn is_own(self) -> bool {
        !matches!(self, EncryptionMethod::Vanilla | EncryptionMethod::Zinc)
    }
}

impl fmt::Display for EncryptionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EncryptionMethod::Vanilla => "vanilla",
            EncryptionMethod::Zinc => "Zinc (broken)",
            EncryptionMethod::Seeded => "seeded",
            EncryptionMethod::PublicKey => "public key",
            EncryptionMethod::Pool { seeded: true } => "pool of the secret's",
            EncryptionMethod::Pool { seeded: false } => "pool of a public key's",
            EncryptionMethod::Fill { seeded: true } => "filling the pool, secret",
            EncryptionMethod::Fill { seeded: false } => "filling the pool, public key",
        })
    }
}

/// An encryption method with its randomness and, if needed, its pool.
pub(super) struct PreparedMethod<'a> {
    fixture: &'a SchemeFixture,
    method: EncryptionMethod,
    rng: SecretRng,
    pool: Option<Pool>,
}

/// The output of a method, kept until the clock has stopped.
pub(super) enum MethodOutput {
    Published(Ciphertext),
    Approximate(Encrypted),
    Zero(ZeroEncryption),
    ExactSeeded(SeededCiphertext),
    Exact(exact::Ciphertext),
}

impl<'a> PreparedMethod<'a> {
    pub(super) fn new(fixture: &'a SchemeFixture, method: EncryptionMethod) -> anyhow::Result<Self> {
        let pool = match method {
            EncryptionMethod::Pool { seeded } => {
                let basis = fixture.space.basis();
                let capacity_bytes = POOL_SIZE * ZeroEncryption::memory_bytes(fixture.space.rlwe(), basis, seeded);
                let options = PoolOptions { basis, capacity_bytes, background: false };
                Some(Pool::new(client_key(fixture, seeded), options)?)
            }
            _ => None,
        };
        Ok(PreparedMethod { fixture, method, rng: SecretRng::insecure_from_seed(2), pool })
    }

    /// Fills the pool, if the method has one. Not timed.
    pub(super) fn prepare(&mut self) -> anyhow::Result<()> {
        if let Some(pool) = &self.pool {
            pool.fill(&mut self.rng)?;
        }
        Ok(())
    }

    fn take(&self) -> anyhow::Result<ZeroEncryption> {
        let pool = self.pool.as_ref().ok_or_else(|| unexpected("a method without a pool"))?;
        pool.take()?.ok_or_else(|| unexpected("an empty pool"))
    }

    /// Encrypts a message, or generates an encryption of zero.
    pub(super) fn run(&mut self, message: &Message) -> anyhow::Result<MethodOutput> {
        let (fixture, rng) = (self.fixture, &mut self.rng);
        match (self.method, &fixture.space, &message.own) {
            (EncryptionMethod::Vanilla, ..) => {
                Ok(MethodOutput::Published(fixture.vanilla.encrypt(message.published(), rng)?))
            }
            (EncryptionMethod::Zinc, ..) => {
                Ok(MethodOutput::Published(fixture.zinc.encrypt(message.published(), rng)?))
            }
            (_, MessageSpace::Approximate(encoder), Encoded::Approximate(message)) => {
                self.approximate(encoder, message)
            }
            (_, MessageSpace::Exact(encoder), Encoded::Exact(message)) => self.exact(encoder, message),
            _ => Err(unexpected("a message of another scheme")),
        }
    }

    /// The method applied to one message, to be timed in turn with others.
    pub(super) fn timed(mut self, stopwatch: Stopwatch<'a>, message: &'a Message) -> TimedOperation<'a> {
        Box::new(move || {
            self.prepare()?;
            stopwatch.seconds(|| self.run(message))
        })
    }

    fn approximate(&mut self, encoder: &ckks::Encoder, message: &ckks::Plaintext) -> anyhow::Result<MethodOutput> {
        let fixture = self.fixture;
        let made = match self.method {
            EncryptionMethod::Seeded => Encrypted::Seeded(encoder.encrypt(message, &fixture.secret, &mut self.rng)?),
            EncryptionMethod::PublicKey => {
                Encrypted::Full(encoder.encrypt_public(message, &fixture.public, &mut self.rng)?)
            }
            EncryptionMethod::Pool { .. } => encoder.encrypt_with(message, self.take()?)?,
            EncryptionMethod::Fill { seeded } => {
                let basis = fixture.space.basis();
                return Ok(MethodOutput::Zero(client_key(fixture, seeded).zero(basis, &mut self.rng)?));
            }
            EncryptionMethod::Vanilla | EncryptionMethod::Zinc => {
                return Err(unexpected("a method without what it needs"));
            }
        };
        Ok(MethodOutput::Approximate(made))
    }

    fn exact(&mut self, encoder: &exact::Encoder, message: &Poly) -> anyhow::Result<MethodOutput> {
        let fixture = self.fixture;
        let fresh = match self.method {
            EncryptionMethod::Seeded => {
                FreshCiphertext::Seeded(SeededCiphertext::encrypt(&fixture.secret, message, &mut self.rng)?)
            }
            EncryptionMethod::PublicKey => FreshCiphertext::Full(fixture.public.encrypt(message, &mut self.rng)?),
            EncryptionMethod::Pool { .. } => self.take()?.plus(fixture.space.ring(), message)?,
            _ => return Err(unexpected("a method without what it needs")),
        };
        Ok(match fresh {
            FreshCiphertext::Seeded(ciphertext) => MethodOutput::ExactSeeded(ciphertext),
            FreshCiphertext::Full(ciphertext) => {
                MethodOutput::Exact(encoder.import_fresh(ciphertext, EncryptionKey::Public)?)
            }
        })
    }

    /// Encrypts and decrypts once, untimed: a wrong result is an error.
    pub(super) fn check(&mut self, case: &str, values: &[f64]) -> anyhow::Result<()> {
        self.prepare()?;
        let (fixture, message) = (self.fixture, self.fixture.message(values)?);
        let made = self.run(&message)?;
        let ciphertext = match (made, &fixture.space, message.own) {
            (MethodOutput::Published(ciphertext), ..) => ciphertext,
            (MethodOutput::Approximate(made), MessageSpace::Approximate(encoder), _) => {
                made.expand(encoder.parameters()).inner().clone()
            }
            (MethodOutput::Zero(zero), MessageSpace::Approximate(encoder), Encoded::Approximate(message)) => {
                encoder.encrypt_with(&message, zero)?.expand(encoder.parameters()).inner().clone()
            }
            (MethodOutput::ExactSeeded(made), MessageSpace::Exact(encoder), _) => {
                encoder.import_fresh(made.expand(fixture.space.ring()), EncryptionKey::Secret)?.inner().clone()
            }
            (MethodOutput::Exact(made), ..) => made.inner().clone(),
            _ => return Err(unexpected("a message of another scheme")),
        };
        fixture.check(case, &ciphertext, values)
    }
}

/// The encoding of these numbers, to be timed in turn with methods.
pub(super) fn timed_encoding<'a>(
    stopwatch: Stopwatch<'a>,
    fixture: &'a SchemeFixture,
    values: &'a [f64],
) -> TimedOperation<'a> {
    Box::new(move || stopwatch.seconds(|| fixture.encode(values)))
}

/// The key that encrypts zeros.
fn client_key(fixture: &SchemeFixture, seeded: bool) -> ClientKey {
    match seeded {
        true => ClientKey::Secret(Arc::clone(&fixture.secret)),
        false => ClientKey::Public(Arc::clone(&fixture.public)),
    }
}

fn unexpected(found: &str) -> anyhow::Error {
    AuditError::Range { operation: "encrypt", found: found.into(), needed: "what the method takes".into() }.into()
}

//! One call that encrypts a vector.

use std::time::Duration;

use unspoken_ckks::{CkksError, CkksParameters, Complex64, Encoder, Encrypted, Plaintext, Zero};
use unspoken_ring::SecretRng;

use crate::error::EncryptError;
#[cfg(unix)]
use crate::file::PoolFile;
use crate::key::ClientKey;
use crate::planner::{Needs, Plan};
use crate::pool::{Pool, PoolOptions};

/// What to do when a pool is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// Encrypt on the spot.
    #[default]
    FallBack,
    /// Wait so long for an entry. A file is not waited for: it is refilled by whoever has time to.
    Wait(Duration),
}

/// Encrypts vectors for one key, the fastest way there is at the moment.
pub struct Encryptor {
    encoder: Encoder,
    key: ClientKey,
    rng: SecretRng,
    plan: Plan,
    empty: Empty,
    zeros: Zeros,
}

enum Zeros {
    None,
    Memory(Pool),
    #[cfg(unix)]
    File(Box<PoolFile>),
}

impl Encryptor {
    /// Plans and makes what the plan asks for: a pool that a thread keeps full, or nothing.
    ///
    /// # Errors
    /// If the system gives no randomness or no thread.
    pub fn new(parameters: &CkksParameters, key: ClientKey, needs: Needs) -> Result<Self, EncryptError> {
        let level = parameters.max_level();
        let plan = Plan::choose(parameters, level, key.is_seeded(), needs);
        let zeros = if plan.zeros == 0 {
            Zeros::None
        } else {
            let options = PoolOptions { level, capacity_bytes: plan.memory_bytes, background: true };
            Zeros::Memory(Pool::new(parameters, key.clone(), options)?)
        };
        let (encoder, rng) = (Encoder::new(parameters), SecretRng::from_os()?);
        Ok(Encryptor { encoder, key, rng, plan, empty: Empty::default(), zeros })
    }

    /// Takes from a pool file; the plan has no zeros in memory.
    ///
    /// # Errors
    /// If the file was opened for another key or other parameters, or the system gives no randomness.
    #[cfg(unix)]
    pub fn with_file(parameters: &CkksParameters, key: ClientKey, file: PoolFile) -> Result<Self, EncryptError> {
        file.check_key(parameters, &key)?;
        let encryptor = Self::new(parameters, key, Needs::default())?;
        Ok(Encryptor { zeros: Zeros::File(Box::new(file)), ..encryptor })
    }

    /// From now on does this when its pool is empty.
    pub fn when_empty(self, empty: Empty) -> Self {
        Encryptor { empty, ..self }
    }

    /// What it decided.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Its parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    /// Encrypts values at the highest level and the default scale. Fewer values than slots are repeated to fill them; their
    /// number must divide the number of slots.
    ///
    /// # Errors
    /// As for [`Encryptor::encrypt_at`].
    pub fn encrypt(&mut self, values: &[Complex64]) -> Result<Encrypted, EncryptError> {
        let (level, scale) = (self.parameters().max_level(), self.parameters().scale());
        self.encrypt_at(values, level, scale)
    }

    /// Encrypts values at a level and a scale.
    ///
    /// # Errors
    /// A value that is no finite number ([`CkksError::Value`]) or too large ([`EncryptError::Overflow`]) is refused with its
    /// index, a number of values that does not fit as well. [`EncryptError::Exhausted`] where [`Empty::Wait`] was chosen and
    /// nothing came. [`EncryptError::Forked`] in a child of the process that made the pool.
    pub fn encrypt_at(&mut self, values: &[Complex64], level: usize, scale: f64) -> Result<Encrypted, EncryptError> {
        let plaintext = self.encoder.encode(values, level, scale).map_err(|e| name_largest(e, values, scale))?;
        self.encrypt_plaintext(&plaintext)
    }

    /// Encrypts what is encoded already.
    ///
    /// # Errors
    /// As for [`Encryptor::encrypt_at`].
    pub fn encrypt_plaintext(&mut self, plaintext: &Plaintext) -> Result<Encrypted, EncryptError> {
        Ok(match self.zero(plaintext.level())? {
            Some(zero) => self.encoder.encrypt_with(plaintext, zero)?,
            None => self.key.encrypt(&self.encoder, plaintext, &mut self.rng)?,
        })
    }

    /// An encryption of zero if there is one, or if one is worth waiting for.
    fn zero(&mut self, level: usize) -> Result<Option<Zero>, EncryptError> {
        let falls_back = self.empty == Empty::FallBack;
        let found = match &mut self.zeros {
            Zeros::None => return Ok(None),
            Zeros::Memory(pool) => match self.empty {
                Empty::FallBack => pool.take(),
                Empty::Wait(patience) => pool.take_within(patience).map(Some),
            },
            #[cfg(unix)]
            Zeros::File(file) if level > file.level() => {
                Err(EncryptError::Level { found: level, needed: file.level() })
            }
            #[cfg(unix)]
            Zeros::File(file) => match file.take() {
                Ok(None) if !falls_back => Err(EncryptError::Exhausted { waited: Duration::ZERO }),
                found => found,
            },
        };
        match found {
            Err(EncryptError::Refill { .. } | EncryptError::Level { .. }) if falls_back => Ok(None),
            found => found,
        }
    }
}

/// Names the largest value of a vector that does not fit.
fn name_largest(error: CkksError, values: &[Complex64], scale: f64) -> EncryptError {
    let CkksError::Overflow { found, needed, .. } = error else { return error.into() };
    let largest = values.iter().enumerate().max_by(|(_, a), (_, b)| a.norm().total_cmp(&b.norm()));
    let (index, value) = largest.map_or((0, String::new()), |(index, value)| (index, value.to_string()));
    EncryptError::Overflow { index, value, scale_bits: scale.log2(), found, needed }
}

//! The encryptor: one call that encodes and encrypts a vector.

#[cfg(unix)]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use unspoken_ckks::{CkksError, CkksParameters, Complex64, Encoder, Encrypted, Plaintext};
#[cfg(unix)]
use unspoken_ring::process_generation;
use unspoken_ring::{Basis, RandomSource, SecretRng};
use unspoken_rlwe::ZeroEncryption;

use crate::error::EncryptError;
#[cfg(unix)]
use crate::file::PoolFile;
use crate::key::ClientKey;
use crate::planner::{EncryptionPlan, Needs};
use crate::pool::{Pool, PoolOptions};

/// Behaviour of an encryptor when its pool is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenEmpty {
    /// Encrypt without the pool.
    #[default]
    EncryptDirectly,
    /// Wait for an entry for at most this time. An empty pool file is an error at once, because nothing refills it in
    /// the background.
    Wait(Duration),
}

/// Encrypts vectors under one key, with an entry of a pool if one is available. May be shared among threads.
///
/// Every encryption without a pool draws from a generator with a new key from the operating system, so a forked copy of
/// the process never draws the same randomness. The same holds for a restored snapshot of a whole machine if its
/// operating system detects the restore and reseeds its own generator; if it does not, no program can prevent the
/// repetition.
pub struct Encryptor {
    encoder: Encoder,
    key: ClientKey,
    plan: EncryptionPlan,
    empty: WhenEmpty,
    zeros: Zeros,
    /// Provides a generator for each encryption without a pool.
    random: RandomSource,
}

enum Zeros {
    None,
    Memory(Pool),
    #[cfg(unix)]
    File {
        file: Box<Mutex<PoolFile>>,
        /// Generation of the process that opened the file.
        generation: u64,
    },
}

impl Encryptor {
    /// Makes an encryptor for vectors of any level. If the plan has zeros, it also makes a pool that a thread keeps
    /// full.
    ///
    /// # Errors
    /// If the key belongs to other parameters, or the system provides no randomness or no thread.
    pub fn new(parameters: &CkksParameters, key: ClientKey, needs: Needs) -> Result<Self, EncryptError> {
        Self::for_level(parameters, key, parameters.max_level(), needs)
    }

    /// As [`Encryptor::new`], with a pool for vectors of at most `level`, whose entries are smaller. Vectors of higher
    /// levels are encrypted without the pool, or are errors if [`WhenEmpty::Wait`] is set.
    ///
    /// # Errors
    /// As for [`Encryptor::new`].
    pub fn for_level(
        parameters: &CkksParameters,
        key: ClientKey,
        level: usize,
        needs: Needs,
    ) -> Result<Self, EncryptError> {
        parameters.rlwe().check_key("make an encryptor", key.parameters())?;
        let plan = EncryptionPlan::choose(parameters, level, key.is_seeded(), needs);
        let zeros = if plan.zeros == 0 {
            Zeros::None
        } else {
            let basis = parameters.basis_up_to(level);
            let options = PoolOptions { basis, capacity_bytes: plan.memory_bytes, background: true };
            Zeros::Memory(Pool::new(key.clone(), options)?)
        };
        Ok(Encryptor { plan, zeros, ..Self::without_pool(parameters, key) })
    }

    /// Makes an encryptor that takes zeros from a pool file. The plan has no zeros in memory.
    ///
    /// # Errors
    /// If the file was opened for another key, or the key belongs to other parameters.
    #[cfg(unix)]
    pub fn with_file(parameters: &CkksParameters, key: ClientKey, file: PoolFile) -> Result<Self, EncryptError> {
        parameters.rlwe().check_key("make an encryptor", key.parameters())?;
        file.check_key(&key)?;
        let zeros = Zeros::File { file: Box::new(Mutex::new(file)), generation: process_generation() };
        Ok(Encryptor { zeros, ..Self::without_pool(parameters, key) })
    }

    /// Makes an encryptor for tests, without a pool, whose randomness all comes from `seed`. Anyone who knows the seed
    /// can decrypt.
    pub fn insecure_from_seed(parameters: &CkksParameters, key: ClientKey, seed: u64) -> Self {
        let random = RandomSource::insecure_from_seed(seed);
        Encryptor { random, ..Self::without_pool(parameters, key) }
    }

    fn without_pool(parameters: &CkksParameters, key: ClientKey) -> Self {
        let plan = EncryptionPlan::choose(parameters, parameters.max_level(), key.is_seeded(), Needs::default());
        let (encoder, empty) = (Encoder::new(parameters), WhenEmpty::default());
        Encryptor { encoder, key, plan, empty, zeros: Zeros::None, random: RandomSource::system() }
    }

    /// Sets the behaviour for an empty pool.
    pub fn when_empty(self, empty: WhenEmpty) -> Self {
        Encryptor { empty, ..self }
    }

    /// The plan that was chosen.
    pub fn plan(&self) -> EncryptionPlan {
        self.plan
    }

    /// Its parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    /// The encoder of its parameters.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The key it encrypts with.
    pub fn key(&self) -> &ClientKey {
        &self.key
    }

    /// A generator with a new key, for one encryption under the same key by other code.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn randomness(&self) -> Result<SecretRng, EncryptError> {
        Ok(self.random.generator()?)
    }

    /// Encrypts values at the highest level and the default scale. If there are fewer values than slots, they are
    /// repeated to fill the slots; their number must divide the number of slots.
    ///
    /// # Errors
    /// As for [`Encryptor::encrypt_at`].
    pub fn encrypt(&self, values: &[Complex64]) -> Result<Encrypted, EncryptError> {
        let (level, scale) = (self.parameters().max_level(), self.parameters().scale());
        self.encrypt_at(values, level, scale)
    }

    /// Encrypts values at a level and a scale.
    ///
    /// # Errors
    /// [`CkksError::Value`] if a value is not a finite number and [`EncryptError::Overflow`] if one is too large, both
    /// with its index; [`CkksError::Shape`] if the number of values does not fit. [`EncryptError::Exhausted`] if
    /// [`WhenEmpty::Wait`] is set and no entry is available in time. [`EncryptError::Forked`] in a child of the process
    /// that made the pool.
    pub fn encrypt_at(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Encrypted, EncryptError> {
        let plaintext = self.encoder.encode(values, level, scale).map_err(|e| name_largest(e, values, scale))?;
        self.encrypt_plaintext(&plaintext)
    }

    /// Encrypts an encoded vector.
    ///
    /// # Errors
    /// As for [`Encryptor::encrypt_at`].
    pub fn encrypt_plaintext(&self, plaintext: &Plaintext) -> Result<Encrypted, EncryptError> {
        Ok(match self.zero(self.parameters().basis(plaintext.level()))? {
            Some(zero) => self.encoder.encrypt_with(plaintext, zero)?,
            None => self.key.encrypt(&self.encoder, plaintext, &mut self.randomness()?)?,
        })
    }

    /// Takes an encryption of zero over these primes from the pool. `None` means: encrypt without the pool.
    fn zero(&self, basis: Basis) -> Result<Option<ZeroEncryption>, EncryptError> {
        let encrypts_directly = self.empty == WhenEmpty::EncryptDirectly;
        let found = match &self.zeros {
            Zeros::None => return Ok(None),
            Zeros::Memory(pool) => covers(pool.basis(), basis).and_then(|()| match self.empty {
                WhenEmpty::EncryptDirectly => pool.take(),
                WhenEmpty::Wait(patience) => pool.take_within(patience).map(Some),
            }),
            #[cfg(unix)]
            Zeros::File { file, generation } => take_from_file(file, *generation, basis, encrypts_directly),
        };
        match found {
            Err(EncryptError::Refill { .. } | EncryptError::Primes { .. }) if encrypts_directly => Ok(None),
            found => found,
        }
    }
}

#[cfg(unix)]
fn take_from_file(
    file: &Mutex<PoolFile>,
    generation: u64,
    basis: Basis,
    encrypts_directly: bool,
) -> Result<Option<ZeroEncryption>, EncryptError> {
    // Checked before the lock, because in a child the lock may be held by a thread that does not exist there.
    if process_generation() != generation {
        return Err(EncryptError::Forked { operation: "take from a pool file" });
    }
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    covers(file.basis(), basis)?;
    match file.take()? {
        None if !encrypts_directly => Err(EncryptError::Exhausted { waited: Duration::ZERO }),
        found => Ok(found),
    }
}

/// Checks that the entries of a pool have the primes of a vector.
fn covers(pool: Basis, vector: Basis) -> Result<(), EncryptError> {
    if pool.contains(vector) { Ok(()) } else { Err(EncryptError::Primes { found: vector, needed: pool }) }
}

/// Replaces an overflow error by one with the index of the largest value.
fn name_largest(error: CkksError, values: &[Complex64], scale: f64) -> EncryptError {
    let CkksError::Overflow { log2_limit, .. } = error else { return error.into() };
    let largest = values.iter().enumerate().max_by(|(_, a), (_, b)| a.norm().total_cmp(&b.norm()));
    let index = largest.map_or(0, |(index, _)| index);
    EncryptError::Overflow { index, scale_bits: scale.log2(), log2_limit }
}

//! One call that encrypts a vector.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use unspoken_ckks::{CkksError, CkksParameters, Complex64, Encoder, Encrypted, Plaintext};
use unspoken_ring::{RandomSource, SecretRng, process_generation};
use unspoken_rlwe::ZeroEncryption;

use crate::error::EncryptError;
#[cfg(unix)]
use crate::file::PoolFile;
use crate::key::ClientKey;
use crate::planner::{Needs, Plan};
use crate::pool::{Pool, PoolOptions};

/// What to do when a pool is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenEmpty {
    /// Encrypt on the spot.
    #[default]
    FallBack,
    /// Wait so long for an entry. A file is not waited for: it is refilled by whoever has time to.
    Wait(Duration),
}

/// Encrypts vectors for one key, the fastest way there is at the moment. May be shared among threads.
///
/// Every encryption on the spot draws from a generator keyed anew by the operating system: a forked copy of
/// the process never draws what this one drew. A restored snapshot of a whole machine does not either if its system
/// notices that it was restored and keys its own generator anew; if it does not, no program can help.
pub struct Encryptor {
    encoder: Encoder,
    key: ClientKey,
    plan: Plan,
    empty: WhenEmpty,
    zeros: Zeros,
    /// Gives each encryption on the spot a generator.
    random: RandomSource,
}

enum Zeros {
    None,
    Memory(Pool),
    #[cfg(unix)]
    File {
        file: Box<Mutex<PoolFile>>,
        /// The process that opened it.
        generation: u64,
    },
}

impl Encryptor {
    /// Plans for vectors of any level and makes what the plan asks for: a pool that a thread keeps full, or nothing.
    ///
    /// # Errors
    /// If the key belongs to other parameters, or the system gives no randomness or no thread.
    pub fn new(parameters: &CkksParameters, key: ClientKey, needs: Needs) -> Result<Self, EncryptError> {
        Self::for_level(parameters, key, parameters.max_level(), needs)
    }

    /// As [`Encryptor::new`], with a pool for vectors of at most `level`, which is smaller. Vectors of higher levels
    /// are encrypted as if the pool were empty.
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
        let plan = Plan::choose(parameters, level, key.is_seeded(), needs);
        let zeros = if plan.zeros == 0 {
            Zeros::None
        } else {
            let chain = parameters.chain(level);
            let options = PoolOptions { chain, capacity_bytes: plan.memory_bytes, background: true };
            Zeros::Memory(Pool::new(key.clone(), options)?)
        };
        Ok(Encryptor { plan, zeros, ..Self::without_pool(parameters, key) })
    }

    /// Takes from a pool file; the plan has no zeros in memory.
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

    /// For tests: encrypts on the spot and draws everything from a number. Whoever knows it reads everything.
    pub fn insecure_from_seed(parameters: &CkksParameters, key: ClientKey, seed: u64) -> Self {
        let random = RandomSource::insecure_from_seed(seed);
        Encryptor { random, ..Self::without_pool(parameters, key) }
    }

    fn without_pool(parameters: &CkksParameters, key: ClientKey) -> Self {
        let plan = Plan::choose(parameters, parameters.max_level(), key.is_seeded(), Needs::default());
        let (encoder, empty) = (Encoder::new(parameters), WhenEmpty::default());
        Encryptor { encoder, key, plan, empty, zeros: Zeros::None, random: RandomSource::system() }
    }

    /// From now on does this when its pool is empty.
    pub fn when_empty(self, empty: WhenEmpty) -> Self {
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

    /// The encoder of its parameters.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The key it encrypts with.
    pub fn key(&self) -> &ClientKey {
        &self.key
    }

    /// A generator for one more thing to be encrypted under the same key by other means, keyed anew.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn randomness(&self) -> Result<SecretRng, EncryptError> {
        Ok(self.random.generator()?)
    }

    /// Encrypts values at the highest level and the default scale. Fewer values than slots are repeated to fill them;
    /// their number must divide the number of slots.
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
    /// A value that is no finite number ([`CkksError::Value`]) or too large ([`EncryptError::Overflow`]) is refused
    /// with its index, a number of values that does not fit as well. [`EncryptError::Exhausted`] where
    /// [`WhenEmpty::Wait`] was chosen and nothing came. [`EncryptError::Forked`] in a child of the process that made
    /// the pool.
    pub fn encrypt_at(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Encrypted, EncryptError> {
        let plaintext = self.encoder.encode(values, level, scale).map_err(|e| name_largest(e, values, scale))?;
        self.encrypt_plaintext(&plaintext)
    }

    /// Encrypts what is encoded already.
    ///
    /// # Errors
    /// As for [`Encryptor::encrypt_at`].
    pub fn encrypt_plaintext(&self, plaintext: &Plaintext) -> Result<Encrypted, EncryptError> {
        Ok(match self.zero(self.parameters().chain(plaintext.level()))? {
            Some(zero) => self.encoder.encrypt_with(plaintext, zero)?,
            None => self.key.encrypt(&self.encoder, plaintext, &mut self.randomness()?)?,
        })
    }

    /// An encryption of zero over so many primes or more if there is one, or if one is worth waiting for.
    fn zero(&self, chain: usize) -> Result<Option<ZeroEncryption>, EncryptError> {
        let falls_back = self.empty == WhenEmpty::FallBack;
        let found = match &self.zeros {
            Zeros::None => return Ok(None),
            Zeros::Memory(pool) => covers(pool.chain(), chain).and_then(|()| match self.empty {
                WhenEmpty::FallBack => pool.take(),
                WhenEmpty::Wait(patience) => pool.take_within(patience).map(Some),
            }),
            #[cfg(unix)]
            Zeros::File { file, generation } => take_from_file(file, *generation, chain, falls_back),
        };
        match found {
            Err(EncryptError::Refill { .. } | EncryptError::Primes { .. }) if falls_back => Ok(None),
            found => found,
        }
    }
}

#[cfg(unix)]
fn take_from_file(
    file: &Mutex<PoolFile>,
    generation: u64,
    chain: usize,
    falls_back: bool,
) -> Result<Option<ZeroEncryption>, EncryptError> {
    // Before the lock: in a child it may be held by a thread that is not there.
    if process_generation() != generation {
        return Err(EncryptError::Forked { operation: "take from a pool file" });
    }
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    covers(file.chain(), chain)?;
    match file.take()? {
        None if !falls_back => Err(EncryptError::Exhausted { waited: Duration::ZERO }),
        found => Ok(found),
    }
}

/// Whether the entries of a pool have enough primes.
fn covers(pool: usize, vector: usize) -> Result<(), EncryptError> {
    if vector <= pool { Ok(()) } else { Err(EncryptError::Primes { found: vector, needed: pool }) }
}

/// Names the largest value of a vector that does not fit.
fn name_largest(error: CkksError, values: &[Complex64], scale: f64) -> EncryptError {
    let CkksError::Overflow { log2_limit, .. } = error else { return error.into() };
    let largest = values.iter().enumerate().max_by(|(_, a), (_, b)| a.norm().total_cmp(&b.norm()));
    let index = largest.map_or(0, |(index, _)| index);
    EncryptError::Overflow { index, scale_bits: scale.log2(), log2_limit }
}

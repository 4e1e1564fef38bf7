//! Applications of encrypted vectors: the parts of their halves that all share.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use unspoken_ckks::CkksParameters;
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_ring::{Device, RingError};
use unspoken_rlwe::{EvaluationKeys, FORMAT_VERSION, KeyBundle, KeyStorage, MAX_BUNDLE_KEYS, RlweError};
use zeroize::Zeroizing;

use crate::client_half::{ApplicationDescription, KeyGenerator};
use crate::error::ProtocolError;
use crate::header::CkksHeader;
use crate::key_set::KeySetId;
use crate::keyring::Keyring;
use crate::server_half::{KeyLimits, KeyLoader};
use crate::share::SharingNoise;

/// The server's half of an application whose keys are listed in its header. Loading them is the same for all.
pub trait CkksServerHalf: Send + Sync + 'static {
    /// The header, which all applications of encrypted vectors share.
    fn header(&self) -> &CkksHeader;

    /// How the keys of clients are stored in memory: [`KeyStorage::Expanded`] at first.
    fn key_storage(&self) -> KeyStorage;

    /// The same half, which stores keys in this way.
    #[must_use]
    fn with_key_storage(self, storage: KeyStorage) -> Self
    where
        Self: Sized;
}

/// Refuses a device that has failed: its process must start again.
///
/// # Errors
/// The failure, if the processor does not compute in its place.
pub fn check_device(parameters: &CkksParameters) -> Result<(), ProtocolError> {
    let checked = parameters.ring().device().map_or(Ok(()), Device::check_ready);
    Ok(checked.map_err(|failure| RlweError::from(RingError::from(failure)))?)
}

impl<H: CkksServerHalf> KeyLoader for H {
    type Keys = EvaluationKeys;
    type KeyError = ProtocolError;

    fn key_set(&self) -> KeySetId {
        self.header().key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        let (parameters, plan) = (self.header().parameters(), self.header().key_plan());
        KeyLimits {
            format: FORMAT_VERSION.into(),
            // Of the longest plan: a bundle may have more keys than this application needs.
            front_bytes: KeyBundle::most_plan_bytes(MAX_BUNDLE_KEYS),
            max_bytes: KeyBundle::byte_len(parameters.rlwe(), plan),
            memory_bytes: plan.stored_bytes(parameters.ring(), self.key_storage()),
        }
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, ProtocolError> {
        let parameters = self.header().parameters();
        let mut plan = KeyBundle::read_plan(parameters.rlwe(), &mut &front[..])?;
        self.header().check_covered(&plan)?;
        // The bundle does not say which of its keys are used in their short form, but the application does.
        plan.extend(self.header().key_plan());
        Ok(plan.stored_bytes(parameters.ring(), self.key_storage()))
    }

    fn load_keys(&self, mut bundle: &mut dyn Read) -> Result<EvaluationKeys, ProtocolError> {
        let parameters = self.header().parameters();
        let keys = KeyBundle::read(parameters.rlwe(), self.key_storage(), &mut bundle)?;
        self.check_keys(&keys)?;
        keys.prepare(parameters.ring(), self.header().key_plan())?;
        Ok(keys)
    }

    fn check_keys(&self, keys: &EvaluationKeys) -> Result<(), ProtocolError> {
        Ok(keys.check("the application", self.header().key_plan())?)
    }
}

/// A description that begins with a CKKS header.
pub trait CkksDescription: ApplicationDescription {
    /// The header.
    fn header(&self) -> &CkksHeader;
}

/// The client's half of an application whose secret key is in a keyring.
pub trait CkksClientHalf {
    /// The secret key.
    fn keyring(&self) -> &Keyring;

    /// The secret key, and the keys to make.
    fn keyring_mut(&mut self) -> &mut Keyring;

    /// Keeps encryptions of zero ready from now on, so that a query needs only encoding and one addition per vector; a
    /// thread makes them. `needs.burst` counts queries here. Returns the plan: nothing is kept if queries are not
    /// vectors of slots, or if the memory is too small for one.
    ///
    /// # Errors
    /// If the operating system has no randomness or no thread.
    fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ProtocolError>;

    /// Noise that exceeds the error of this service's answers by `bits` bits, for numbers that leave their owner; see
    /// [`SharingNoise`] for its guarantee.
    ///
    /// # Errors
    /// If the service does not know a bound of the error, or an error of [`SharingNoise::new`].
    fn sharing_noise(&self, bits: u32) -> Result<SharingNoise, ProtocolError> {
        let error = self.keyring().header().error_bound().ok_or_else(|| {
            let needed = "a service that describes one; full compact queries have none";
            ProtocolError::mismatch("bound of the error", "none", needed)
        })?;
        SharingNoise::new(error, bits)
    }
}

impl<H: CkksClientHalf> KeyGenerator for H {
    type KeyError = ProtocolError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        self.keyring().secret_bytes()
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.keyring().bundle_contents()
    }

    fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.keyring().is_covered_by(contents)
    }

    fn set_shared_keys(&mut self, contents: &[u8], most_bytes: u64) -> bool {
        self.keyring_mut().set_shared_keys(contents, most_bytes)
    }

    fn key_bytes(&self) -> u64 {
        self.keyring().key_bytes()
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), ProtocolError> {
        self.keyring().write_keys(out, progress, cancel)
    }
}

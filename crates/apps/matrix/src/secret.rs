//! The client's secret: encrypts, makes keys, decrypts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::Array3;
use unspoken_ckks::{Ciphertext, Complex64, Encrypted, SeededCiphertext};
use unspoken_encrypt::{ClientKey, Encryptor, Needs};
use unspoken_encrypted_matrix::EncryptedMatrix;
use unspoken_protocol::{CHECKSUM_BYTES, ProtocolError, SharingNoise};
use unspoken_ring::{SecretRng, derive_bytes};
use unspoken_rlwe::{KeyBundle, KeyPlan, RlweError, SecretKey};
use zeroize::{Zeroize, Zeroizing};

use crate::error::MatrixError;
use crate::keys::Keys;
use crate::messages::{EncryptedInput, EncryptedInputs, EncryptedResult};
use crate::noise::add_noise;
use crate::preset::BuiltPreset;
use crate::secret_id::SecretId;
use crate::signature::{ENCRYPT, Signature, decode_groups};

const SECRET_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"uspm";
/// Version of the bytes of a secret. The first one had neither a version nor a checksum.
const VERSION: u16 = 2;
const FILE_BYTES: usize = MAGIC.len() + size_of::<u16>() + SECRET_BYTES + CHECKSUM_BYTES;
const DECRYPT: &str = "decrypt a result";
const KEY_LABEL: &str = "unspoken 2026 matrix secret key of one parameter set";
const CHECKSUM_LABEL: &str = "unspoken 2026 checksum of a matrix secret";
const ID_LABEL: &str = "unspoken 2026 public name of a matrix secret";

/// A secret from which the secret key of every parameter set is derived. Never printed; wiped when dropped.
pub struct Secret {
    /// Boxed, so that a move of the secret leaves no copy.
    bytes: Box<Zeroizing<[u8; SECRET_BYTES]>>,
    /// The keys used so far, by name of the parameter set.
    keys: Mutex<BTreeMap<String, Arc<Keyed>>>,
}

/// The secret key of one parameter set.
struct Keyed {
    secret: Arc<SecretKey>,
    encryptor: Encryptor,
}

/// Checksum of the bytes of a secret. Unlike a plain hash it leaves nothing of them on the stack.
fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    derive_bytes(CHECKSUM_LABEL, &[content], &mut checksum);
    checksum
}

impl Keyed {
    fn encrypt(&self, slots: &[Complex64], level: usize) -> Result<SeededCiphertext, MatrixError> {
        match self.encryptor.encrypt_at(slots, level, self.encryptor.parameters().scale())? {
            Encrypted::Seeded(vector) => Ok(vector),
            Encrypted::Full(_) => {
                Err(MatrixError::mismatch(ENCRYPT, "a vector without a seed", "one under the secret"))
            }
        }
    }
}

impl Secret {
    /// Makes a new secret with the operating system's generator.
    ///
    /// # Errors
    /// If the operating system has no randomness.
    pub fn generate() -> Result<Self, MatrixError> {
        let mut bytes = Box::new(Zeroizing::new([0; SECRET_BYTES]));
        SecretRng::from_os().map_err(RlweError::from)?.fill(bytes.as_mut_slice());
        Ok(Self::from_parts(bytes))
    }

    fn from_parts(bytes: Box<Zeroizing<[u8; SECRET_BYTES]>>) -> Self {
        Secret { bytes, keys: Mutex::default() }
    }

    /// The bytes of the secret, for storage by its owner: 'uspm', version (u16), 32 bytes, checksum. Treat them as
    /// secret.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // As long as the result, so that no part of it is moved and left behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES));
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.bytes.as_slice());
        let checksum = checksum(&bytes);
        bytes.extend(checksum);
        bytes
    }

    /// Reads the output of [`Secret::to_bytes`], also of the version without a checksum.
    ///
    /// # Errors
    /// [`MatrixError::Decode`] for anything else, or [`ProtocolError::Damaged`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MatrixError> {
        const WHAT: &str = "a matrix secret";
        let refuse = |found: String| MatrixError::Decode {
            what: WHAT,
            found,
            needed: "a file that begins with 'uspm', as save() wrote it".into(),
        };
        let secret = if bytes.len() == MAGIC.len() + SECRET_BYTES {
            bytes.strip_prefix(&MAGIC).ok_or_else(|| refuse("another kind of file".into()))?
        } else if bytes.len() == FILE_BYTES {
            let (content, found) = bytes.split_at(FILE_BYTES - CHECKSUM_BYTES);
            if checksum(content) != found {
                return Err(ProtocolError::Damaged { what: WHAT }.into());
            }
            let rest = content.strip_prefix(&MAGIC).ok_or_else(|| refuse("another kind of file".into()))?;
            let version = VERSION.to_le_bytes();
            rest.strip_prefix(&version).ok_or_else(|| refuse("another version; update this software".into()))?
        } else {
            return Err(refuse(format!("{} bytes", bytes.len())));
        };
        let mut copy = Box::new(Zeroizing::new([0; SECRET_BYTES]));
        copy.copy_from_slice(secret);
        Ok(Self::from_parts(copy))
    }

    fn secret_id(&self) -> SecretId {
        let mut secret_id = [0; 16];
        derive_bytes(ID_LABEL, &[self.bytes.as_slice()], &mut secret_id);
        SecretId(secret_id)
    }

    /// The secret key of one parameter set, derived when it is first needed.
    fn key(&self, preset: &BuiltPreset) -> Result<Arc<Keyed>, MatrixError> {
        // The map stays consistent even if a thread panicked.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = keys.get(preset.parameters().name()) {
            return Ok(Arc::clone(key));
        }
        let secret = Arc::new(self.derive(preset)?);
        let key = ClientKey::Secret(Arc::clone(&secret));
        let encryptor = Encryptor::new(preset.parameters(), key, Needs::default())?;
        let key = Arc::new(Keyed { secret, encryptor });
        keys.insert(preset.parameters().name().into(), Arc::clone(&key));
        Ok(key)
    }

    fn derive(&self, preset: &BuiltPreset) -> Result<SecretKey, MatrixError> {
        let parameters = preset.parameters().rlwe();
        let mut rng = SecretRng::derived(KEY_LABEL, &[&parameters.fingerprint().0, self.bytes.as_slice()]);
        Ok(SecretKey::generate(parameters, &mut rng)?)
    }

    /// Encrypts inputs of a program: by name, arrays of shape (batch, rows, columns), where the batch is 1 for inputs
    /// without that axis. Inputs that are left out may be encrypted by other calls.
    ///
    /// # Errors
    /// If a name is unknown, a shape differs, or an entry is larger than [`Signature::largest`].
    pub fn encrypt(
        &self,
        signature: &Signature,
        inputs: &[(String, Array3<f64>)],
    ) -> Result<EncryptedInputs, MatrixError> {
        let key = self.key(&signature.preset)?;
        let mut entries = Vec::with_capacity(inputs.len());
        for (number, (name, values)) in inputs.iter().enumerate() {
            if inputs[..number].iter().any(|(earlier, _)| earlier == name) {
                return Err(MatrixError::mismatch(ENCRYPT, format!("input '{name}' twice"), "each once"));
            }
            let input = signature.input(ENCRYPT, name)?;
            let shape = input.shape;
            let batch = if shape.axes.batch { signature.batch } else { 1 };
            let mut groups = Vec::new();
            for tiles in signature.encode(input, values)? {
                let tiles = tiles.iter().map(|slots| key.encrypt(slots, signature.level)).collect::<Result<_, _>>()?;
                let (layout, group) = (signature.layout, signature.group());
                groups.push(EncryptedMatrix::from_tiles(layout, shape.stored(layout), group, tiles)?);
            }
            entries.push(EncryptedInput { name: name.clone(), shape, batch, groups });
        }
        Ok(EncryptedInputs {
            preset: signature.preset.clone(),
            secret_id: self.secret_id(),
            layout: signature.layout,
            entries,
        })
    }

    /// Makes exactly the keys that the programs need; `progress` receives the number of keys made and in total.
    ///
    /// # Errors
    /// If the programs are of different presets, or the work was cancelled.
    pub fn keys(
        &self,
        programs: &[&Signature],
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<Keys, MatrixError> {
        const OPERATION: &str = "make keys";
        let Some((first, others)) = programs.split_first() else {
            return Err(MatrixError::mismatch(OPERATION, "no program", "at least one"));
        };
        let mut plan: KeyPlan = first.keys.clone();
        for other in others {
            first.preset.check_same(OPERATION, "a program", &other.preset)?;
            plan.extend(&other.keys);
        }
        let (key, mut rng) = (self.key(&first.preset)?, SecretRng::from_os().map_err(RlweError::from)?);
        let mut bundle = Vec::new();
        KeyBundle::write(&key.secret, &plan, &mut rng, &mut bundle, progress, cancel)?;
        Ok(Keys::new(first.preset.clone(), self.secret_id(), plan, bundle))
    }

    /// Decrypts a result: shape (batch, rows, columns). The numbers contain errors that depend on the secret, so only
    /// the owner of the secret may see them. For other people, use [`Secret::decrypt_to_share`].
    ///
    /// # Errors
    /// If the result was computed from inputs of another secret, the bound of the error is as large as the entries, or
    /// an entry is beyond its bound: then the ciphertexts were changed, or computed with keys of another secret.
    pub fn decrypt(&self, result: &EncryptedResult) -> Result<Array3<f64>, MatrixError> {
        if result.secret_id != self.secret_id() {
            let needed = "the secret that encrypted the inputs";
            return Err(MatrixError::mismatch(DECRYPT, "a result under another secret", needed));
        }
        result.precision.check(DECRYPT)?;
        let key = self.key(&result.preset)?;
        let encoder = result.preset.encoder();
        let open = |tile: &Ciphertext| Ok(encoder.decrypt(tile, &key.secret)?);
        let groups = result.groups.iter().map(|group| group.try_map(open));
        let groups = groups.collect::<Result<Vec<_>, MatrixError>>()?;
        let mut values = decode_groups(&groups, result.batch, result.shape);
        if values.iter().all(|value| value.abs() <= result.precision.limit()) {
            return Ok(values);
        }
        values.iter_mut().for_each(Zeroize::zeroize);
        let found = format!("an entry beyond the bound of the result, {:.1e}", result.precision.limit());
        let needed = "ciphertexts as they were computed, with keys and inputs of this secret: they were changed, or \
                      the server computed something else; run the program again";
        Err(MatrixError::mismatch(DECRYPT, found, needed))
    }

    /// Like [`Secret::decrypt`], for results that will be shown to others: with noise of standard deviation
    /// `2^bits * error_bound`, and rounded. See [`SharingNoise`] for its guarantee and limits. `error_bound` is
    /// [`Precision::error`](crate::Precision::error) of the program, or [`EncryptedResult::error`] of an honest server.
    /// Each call draws new noise: share a result once.
    ///
    /// # Errors
    /// The errors of [`Secret::decrypt`], or if the bound is not positive or `bits` is not from 1 to 45.
    pub fn decrypt_to_share(
        &self,
        result: &EncryptedResult,
        error_bound: f64,
        bits: u32,
    ) -> Result<Array3<f64>, MatrixError> {
        add_noise(&self.decrypt(result)?, &SharingNoise::new(error_bound, bits)?)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

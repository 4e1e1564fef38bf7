//! The client's secret: encrypts, makes keys, decrypts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::{Array3, Axis};
use unspoken_ckks::{Complex64, Encrypted, SeededCiphertext};
use unspoken_encrypt::{ClientKey, Encryptor, Needs};
use unspoken_matrix::encode_tiles;
use unspoken_ring::{SecretRng, derive_bytes};
use unspoken_rlwe::{KeyBundle, KeyPlan, RlweError, SecretKey};
use zeroize::Zeroizing;

use crate::bytes::Reader;
use crate::error::ArraysError;
use crate::keys::Keys;
use crate::preset::Context;
use crate::sealed::{Answer, Entry, Inputs};
use crate::terms::Terms;

const SECRET_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"uspm";
const KEY_LABEL: &str = "unspoken 2026 matrix secret key of one parameter set";
const ENCRYPT: &str = "encrypt inputs";
const OWNER_LABEL: &str = "unspoken 2026 public name of a matrix secret";

/// The public name of a secret: what is made under one secret does not fit another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) [u8; 16]);

impl Owner {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self, ArraysError> {
        let mut owner = [0; 16];
        owner.copy_from_slice(input.take(16)?);
        Ok(Owner(owner))
    }
}

/// A secret, of which the secret key of every parameter set follows. Never printed; wiped when dropped.
pub struct Secret {
    bytes: Zeroizing<[u8; SECRET_BYTES]>,
    /// By name of the parameter set, once it was used.
    keys: Mutex<BTreeMap<String, Arc<Keyed>>>,
}

/// The secret key of one parameter set.
struct Keyed {
    secret: Arc<SecretKey>,
    encryptor: Encryptor,
}

impl Keyed {
    fn encrypt(&self, slots: &[Complex64], level: usize) -> Result<SeededCiphertext, ArraysError> {
        match self.encryptor.encrypt_at(slots, level, self.encryptor.parameters().scale())? {
            Encrypted::Seeded(vector) => Ok(vector),
            Encrypted::Full(_) => {
                Err(ArraysError::mismatch(ENCRYPT, "a vector without a seed", "one under the secret"))
            }
        }
    }
}

impl Secret {
    /// A fresh one from the operating system's generator.
    ///
    /// # Errors
    /// If that has no randomness to give.
    pub fn generate() -> Result<Self, ArraysError> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        SecretRng::from_os().map_err(RlweError::from)?.fill(bytes.as_mut_slice());
        Ok(Self::from_parts(bytes))
    }

    fn from_parts(bytes: Zeroizing<[u8; SECRET_BYTES]>) -> Self {
        Secret { bytes, keys: Mutex::default() }
    }

    /// For storage by the owner. Handle as the secret it is.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&MAGIC, self.bytes.as_slice()].concat())
    }

    /// Reads what [`Secret::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`ArraysError::Decode`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ArraysError> {
        let refuse = |found: String| ArraysError::Decode {
            what: "a matrix secret",
            found,
            needed: format!("{SECRET_BYTES} bytes after 'uspm'"),
        };
        let rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| refuse("another kind of file".into()))?;
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        if rest.len() != SECRET_BYTES {
            return Err(refuse(format!("{} bytes", rest.len())));
        }
        secret.copy_from_slice(rest);
        Ok(Self::from_parts(secret))
    }

    fn owner(&self) -> Owner {
        let mut owner = [0; 16];
        derive_bytes(OWNER_LABEL, &[self.bytes.as_slice()], &mut owner);
        Owner(owner)
    }

    /// The secret key of one parameter set, derived when it is first needed.
    fn key(&self, context: &Context) -> Result<Arc<Keyed>, ArraysError> {
        // What is in the map is whole, whoever panicked.
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = keys.get(context.parameters().name()) {
            return Ok(Arc::clone(key));
        }
        let secret = Arc::new(self.derive(context)?);
        let key = ClientKey::Secret(Arc::clone(&secret));
        let encryptor = Encryptor::new(context.parameters(), key, Needs::default())?;
        let key = Arc::new(Keyed { secret, encryptor });
        keys.insert(context.parameters().name().into(), Arc::clone(&key));
        Ok(key)
    }

    fn derive(&self, context: &Context) -> Result<SecretKey, ArraysError> {
        let parameters = context.parameters().rlwe();
        let mut rng = SecretRng::derived(KEY_LABEL, &[&parameters.fingerprint().0, self.bytes.as_slice()]);
        Ok(SecretKey::generate(parameters, &mut rng)?)
    }

    /// Encrypts inputs of a program: by name, arrays of shape (batch, rows, columns), where the batch is 1 for inputs that
    /// have no such axis. Those left out may be encrypted later, or before.
    ///
    /// # Errors
    /// If a name or shape is another, or values do not fit.
    pub fn encrypt(&self, terms: &Terms, inputs: &[(String, Array3<f64>)]) -> Result<Inputs, ArraysError> {
        let key = self.key(&terms.context)?;
        let mut entries = Vec::with_capacity(inputs.len());
        for (number, (name, values)) in inputs.iter().enumerate() {
            if inputs[..number].iter().any(|(earlier, _)| earlier == name) {
                return Err(ArraysError::mismatch(ENCRYPT, format!("input '{name}' twice"), "each once"));
            }
            let form = terms.input(ENCRYPT, name)?.form;
            let batch = if form.batch { terms.batch } else { 1 };
            let needed = (batch, form.matrix.0, form.matrix.1);
            if values.dim() != needed {
                let found = format!("'{name}' of shape {:?}", values.dim());
                return Err(ArraysError::mismatch(ENCRYPT, found, format!("shape {needed:?}")));
            }
            let mut groups = Vec::new();
            for group in terms.grouped(values, form.batch) {
                let tiles = encode_tiles(terms.layout, &group)?;
                groups.push(tiles.try_map(|slots| key.encrypt(slots, terms.level))?);
            }
            entries.push(Entry { name: name.clone(), form, batch, groups });
        }
        Ok(Inputs { context: terms.context.clone(), owner: self.owner(), layout: terms.layout, entries })
    }

    /// Exactly the keys that programs need; `progress` is told how many of how many are made.
    ///
    /// # Errors
    /// If the programs are of different presets, or the work was stopped.
    pub fn keys(
        &self,
        programs: &[&Terms],
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<Keys, ArraysError> {
        const OPERATION: &str = "make keys";
        let Some((first, others)) = programs.split_first() else {
            return Err(ArraysError::mismatch(OPERATION, "no program", "at least one"));
        };
        let mut plan: KeyPlan = first.keys.clone();
        for other in others {
            first.context.check_same(OPERATION, "a program", &other.context)?;
            plan.extend(&other.keys);
        }
        let (key, mut rng) = (self.key(&first.context)?, SecretRng::from_os().map_err(RlweError::from)?);
        let mut bundle = Vec::new();
        KeyBundle::write(&key.secret, &plan, &mut rng, &mut bundle, progress, cancel)?;
        Ok(Keys::new(first.context.clone(), self.owner(), plan, bundle))
    }

    /// Decrypts: shape (batch, rows, columns). The numbers carry noise that depends on the secret: they are for its holder.
    ///
    /// # Errors
    /// If the result was computed from another secret's inputs.
    pub fn decrypt(&self, answer: &Answer) -> Result<Array3<f64>, ArraysError> {
        if answer.owner != self.owner() {
            let needed = "the secret that encrypted the inputs";
            return Err(ArraysError::mismatch("decrypt", "a result under another secret", needed));
        }
        let key = self.key(&answer.context)?;
        let (rows, columns) = answer.form.matrix;
        let mut values = Array3::zeros((answer.batch, rows, columns));
        let mut next = values.axis_iter_mut(Axis(0));
        for group in &answer.groups {
            for matrix in group.decrypt(answer.context.encoder(), &key.secret)? {
                // What pads the last group has no place.
                if let Some(mut place) = next.next() {
                    place.assign(&matrix);
                }
            }
        }
        Ok(values)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

//! A client's secret key, and the operations that need it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Complex64, Encoder, Slots};
use unspoken_encrypt::{ClientKey, Encryptor, Needs, Plan};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyBundle, RlweError, SecretKey};
use zeroize::Zeroizing;

use crate::error::ProtocolError;
use crate::header::CkksHeader;

use crate::transfer::read_output;

/// The secret key of one client for one service.
pub struct Keyring {
    header: CkksHeader,
    encryptor: Encryptor,
    secret: Arc<SecretKey>,
}

impl Keyring {
    /// A keyring with the stored secret key, whose switching keys the server may have already, or with a new one.
    /// Queries are encrypted when they are asked; see [`Keyring::prepare`].
    ///
    /// # Errors
    /// If the key does not match the header's preset, or the operating system has no randomness.
    pub fn new(header: CkksHeader, stored: Option<&[u8]>) -> Result<Self, ProtocolError> {
        let parameters = header.parameters();
        let secret = match stored {
            Some(bytes) => SecretKey::from_bytes(parameters.rlwe(), bytes)?,
            None => SecretKey::generate(parameters.rlwe(), &mut SecretRng::from_os().map_err(RlweError::from)?)?,
        };
        let secret = Arc::new(secret);
        let encryptor = Encryptor::new(parameters, ClientKey::Secret(Arc::clone(&secret)), Needs::default())?;
        Ok(Keyring { header, encryptor, secret })
    }

    /// Keeps encryptions of zero ready from now on for vectors of at most `level`, as far as `needs` allow. Each is
    /// used once; a thread makes them. Returns the plan.
    ///
    /// # Errors
    /// If the operating system has no randomness or no thread.
    pub fn prepare(&mut self, level: usize, needs: Needs) -> Result<Plan, ProtocolError> {
        let key = ClientKey::Secret(Arc::clone(&self.secret));
        self.encryptor = Encryptor::for_level(self.header.parameters(), key, level, needs)?;
        Ok(self.encryptor.plan())
    }

    /// The header.
    pub fn header(&self) -> &CkksHeader {
        &self.header
    }

    /// The encoder for the header's parameters.
    pub fn encoder(&self) -> &Encoder {
        self.encryptor.encoder()
    }

    /// The encryptor of queries under the secret key.
    pub fn encryptor(&self) -> &Encryptor {
        &self.encryptor
    }

    /// The secret key.
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// The secret key's bytes, to store: anyone who has them can decrypt every query.
    ///
    /// # Errors
    /// Only for invalid parameters of the key, which the check of the parameters rules out.
    pub fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        Ok(self.secret.to_bytes()?)
    }

    /// Bytes of the key bundle that [`Keyring::write_keys`] writes.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.header.parameters().rlwe(), self.header.key_plan())
    }

    /// Makes the switching keys and writes them as a bundle, one at a time. `progress` receives the number of keys done
    /// and in total. Every call makes new keys for the same secret.
    ///
    /// # Errors
    /// If writing fails, or when `cancel` is set.
    pub fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), ProtocolError> {
        let mut rng = SecretRng::from_os().map_err(RlweError::from)?;
        Ok(KeyBundle::write(&self.secret, self.header.key_plan(), &mut rng, out, progress, cancel)?)
    }

    /// Encrypts values under a seed of their own. Returns the bytes of a vector of a query.
    ///
    /// # Errors
    /// Those of [`Encryptor::encrypt_at`].
    pub fn encrypt(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Vec<u8>, ProtocolError> {
        Ok(self.encryptor.encrypt_at(values, level, scale)?.to_bytes(self.header.parameters()))
    }

    /// Decrypts one vector of an answer and returns its slots, times the header's unit.
    ///
    /// # Errors
    /// If its bytes are malformed or of other parameters.
    pub fn open(&self, vector: &[u8]) -> Result<Slots, ProtocolError> {
        let (ciphertext, scale) = read_output(self.header.parameters(), vector)?;
        Ok(self.encoder().decode(&self.secret.decrypt(&ciphertext)?, scale / self.header.unit())?)
    }

    /// Refuses numbers beyond the header's bound, which mean that the answer was computed with keys of another secret.
    ///
    /// # Errors
    /// If a number exceeds the bound.
    pub fn check_bound(&self, mut numbers: impl Iterator<Item = f64>) -> Result<(), ProtocolError> {
        let bound = self.header.bound() * (1.0 + 1e-6) + 1e-6 * self.header.unit();
        if numbers.all(|number| number.abs() <= bound) {
            return Ok(());
        }
        let needed = format!("numbers up to {bound:.3e}; make new keys");
        Err(ProtocolError::mismatch("answer", "one that this secret key does not open", needed))
    }
}

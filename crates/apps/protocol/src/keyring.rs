//! A client's secret key, and the operations that need it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Complex64, Encoder, PeriodicPacking, Slots};
use unspoken_encrypt::{ClientKey, EncryptionPlan, Encryptor, Needs};
use unspoken_ring::{SecretRng, declassify};
use unspoken_rlwe::{KeyBundle, KeyPlan, MAX_BUNDLE_KEYS, RlweError, SecretKey};
use zeroize::Zeroizing;

use crate::error::ProtocolError;
use crate::header::CkksHeader;
use crate::limits;
use crate::transfer::{OpenedOutput, open_rounded_output, read_output};

/// What an error calls an answer that decrypts to impossible numbers.
const OTHER_KEYS: &str = "one that this secret key does not open";

/// The secret key of one client for one key set of a service, and the keys to make with it.
pub struct Keyring {
    header: CkksHeader,
    /// The keys of the header, and the keys of other applications that share the bundle.
    bundle_plan: KeyPlan,
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
        let bundle_plan = header.key_plan().clone();
        Ok(Keyring { header, bundle_plan, encryptor, secret })
    }

    /// Keeps encryptions of zero ready from now on for vectors of at most `level`, as far as `needs` allow. Each is
    /// used once; a thread makes them. Returns the plan.
    ///
    /// # Errors
    /// If the operating system has no randomness or no thread.
    pub fn prepare(&mut self, level: usize, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
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

    /// Describes which keys the bundle has that [`Keyring::write_keys`] writes: the beginning of the bundle.
    pub fn bundle_contents(&self) -> Vec<u8> {
        let mut contents = Vec::new();
        // Fails only for more keys than a plan may have, which reading the header and `set_shared_keys` rule out; no
        // bundle has empty contents.
        match KeyBundle::write_plan(self.header.parameters().rlwe(), &self.bundle_plan, &mut contents) {
            Ok(()) => contents,
            Err(_) => Vec::new(),
        }
    }

    /// Whether a bundle with these contents has all keys of the header.
    pub fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.read_contents(contents).is_some_and(|plan| plan.covers(self.header.key_plan()))
    }

    /// Adds the keys of a bundle with these contents to the keys of the header, for the next bundle. The bundle has the
    /// header's keys alone if `contents` cannot be read, if it has a kind of key for which the header's kind of queries
    /// has no use, or if the bundle would have more than `most_bytes` bytes or too many keys. Returns whether the
    /// bundle will have all keys of `contents`.
    pub fn set_shared_keys(&mut self, contents: &[u8], most_bytes: u64) -> bool {
        self.bundle_plan = self.header.key_plan().clone();
        let Some(held) = self.read_contents(contents) else { return false };
        let mut plan = self.bundle_plan.clone();
        plan.extend(&held);
        let parameters = self.header.parameters().rlwe();
        let fits = plan.len() <= MAX_BUNDLE_KEYS
            && KeyBundle::byte_len(parameters, &plan) <= most_bytes
            && limits::check_key_bytes(parameters, &plan).is_ok()
            && limits::check_key_kinds(&plan, self.header.bootstraps()).is_ok();
        if fits {
            self.bundle_plan = plan;
        }
        self.bundle_plan.covers(&held)
    }

    fn read_contents(&self, contents: &[u8]) -> Option<KeyPlan> {
        KeyBundle::read_plan(self.header.parameters().rlwe(), &mut &contents[..]).ok()
    }

    /// Bytes of the key bundle that [`Keyring::write_keys`] writes.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.header.parameters().rlwe(), &self.bundle_plan)
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
        Ok(KeyBundle::write(&self.secret, &self.bundle_plan, &mut rng, out, progress, cancel)?)
    }

    /// Encrypts values under a seed of their own. Returns the bytes of a vector of a query.
    ///
    /// # Errors
    /// The errors of [`Encryptor::encrypt_at`].
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

    /// Decrypts vectors that were joined in one vector of an answer and rounded: one period of each, times the header's
    /// unit.
    ///
    /// # Errors
    /// If its bytes are malformed, of other parameters, or computed with keys of another secret.
    pub fn open_rounded(&self, vector: &[u8], packing: &PeriodicPacking) -> Result<Vec<Slots>, ProtocolError> {
        let Some(OpenedOutput { coefficients, scale }) = open_rounded_output(&self.secret, packing, vector)? else {
            return Err(unreadable("one for this secret key".into()));
        };
        Ok(packing.decode(self.encoder(), &coefficients, scale / self.header.unit())?)
    }

    /// Refuses numbers beyond the header's bound, which mean that the answer was computed with keys of another secret.
    /// The time depends on how many numbers there are, not on which of them exceed the bound.
    ///
    /// # Errors
    /// [`ProtocolError::Unreadable`], if a number exceeds the bound or is not a number.
    pub fn check_bound(&self, numbers: impl Iterator<Item = f64>) -> Result<(), ProtocolError> {
        let bound = self.header.bound() * (1.0 + 1e-6) + 1e-6 * self.header.unit();
        if declassify(numbers.fold(true, |fits, number| fits & (number.abs() <= bound))) {
            return Ok(());
        }
        Err(unreadable(format!("numbers up to {bound:.3e}")))
    }
}

/// The error of an answer that decrypts to what no sound answer has.
fn unreadable(needed: String) -> ProtocolError {
    let remedy = "if you trust the service to compute honestly, make new keys";
    ProtocolError::Unreadable { found: OTHER_KEYS, needed: format!("{needed}; {remedy}") }
}

#[cfg(test)]
mod tests {
    use unspoken_ckks::Preset;
    use unspoken_rlwe::KeyKind;

    use super::*;
    use crate::kind::Protocol;

    const PRESET: &str = "insecure_n11_boot_depth10_scale50";

    fn plan(elements: &[u64], chain: usize) -> KeyPlan {
        let mut plan = KeyPlan::new();
        elements.iter().for_each(|&element| plan.require(KeyKind::Galois { element }, chain));
        plan
    }

    fn keyring(key_plan: KeyPlan) -> Keyring {
        let parameters = Preset::find(PRESET).unwrap().build().unwrap();
        let protocol = Protocol { kind: "test", version: 1 };
        Keyring::new(CkksHeader::new(protocol, &parameters, &[9; 16], key_plan, "plan".into(), 2.0), None).unwrap()
    }

    #[test]
    fn a_bundle_serves_every_application_whose_keys_it_has() {
        let (mut one, two) = (keyring(plan(&[5, 25], 3)), keyring(plan(&[25, 125], 2)));
        let held = two.bundle_contents();
        assert!(two.is_covered_by(&held) && !one.is_covered_by(&held) && !one.is_covered_by(b"nonsense"));
        one.set_shared_keys(&held, u64::MAX);
        let (both, bytes) = (one.bundle_contents(), one.key_bytes());
        assert!(one.is_covered_by(&both) && two.is_covered_by(&both));
        let mut bundle = Vec::new();
        one.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
        assert!(bundle.starts_with(&both) && bundle.len() as u64 == bytes);
        // Every bundle has new randomness: the seed follows the contents.
        let mut again = Vec::new();
        one.write_keys(&mut again, |_, _| {}, &AtomicBool::new(false)).unwrap();
        assert_ne!(bundle[both.len()..][..32], again[both.len()..][..32]);
        // A key for fewer primes does not do.
        assert!(!keyring(plan(&[25], 4)).is_covered_by(&both));
        // Too many bytes, or contents that cannot be read: its own keys alone.
        let alone = keyring(plan(&[5, 25], 3)).bundle_contents();
        for (contents, most) in [(held.as_slice(), bytes - 1), (b"nonsense", u64::MAX), (&[], 0)] {
            one.set_shared_keys(&held, u64::MAX);
            one.set_shared_keys(contents, most);
            assert_eq!(one.bundle_contents(), alone);
        }
    }

    #[test]
    fn keys_of_bootstraps_stay_apart() {
        let (mut plain, parameters) = (keyring(plan(&[5], 3)), Preset::find(PRESET).unwrap().build().unwrap());
        let mut bootstraps = plan(&[5], 3);
        bootstraps.require(KeyKind::Decapsulation { element: 1 }, parameters.ring().chain().len());
        let bootstraps = keyring(bootstraps);
        assert_ne!(plain.header().key_set(), bootstraps.header().key_set());
        assert_eq!(plain.header().key_set(), keyring(plan(&[125], 2)).header().key_set());
        let alone = plain.bundle_contents();
        plain.set_shared_keys(&bootstraps.bundle_contents(), u64::MAX);
        assert_eq!(plain.bundle_contents(), alone);
    }
}

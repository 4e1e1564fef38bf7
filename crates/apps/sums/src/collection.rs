//! Making a collection, and its private half.

use std::fmt;

use unspoken_exact::{ExactParameters, PRESETS, Preset, Scheme};
use unspoken_protocol::{append_checksum, checked};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::columns::{self, Column};
use crate::description::{self, Description, Fields, Fingerprint, check_counts, check_room, token_hash};
use crate::error::SumsError;
use crate::format::KEY_MAGIC;

/// What a collection collects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionOptions {
    /// The columns, in the order of a contribution's values.
    pub columns: Vec<Column>,
    /// Most contributions that are added: 2 to 2^22.
    pub most_contributions: u32,
    /// Contributions below which the service does not release the sum: 2 to the most contributions.
    pub least_contributions: u32,
}

/// Makes a collection: its public half for the service and the contributors, and its private half for the collector.
/// The parameters are secure. Among the parameters for which no sum can wrap around and the noise of a sum fits, they
/// have the smallest contributions.
///
/// # Errors
/// If an option is out of range, no parameters hold the sums, or the system has no randomness.
pub fn create(options: &CollectionOptions) -> Result<(Description, CollectorKey), SumsError> {
    generate(&choose(options)?, options)
}

/// Like [`create`], with a named parameter set, which may be an insecure one: for tests.
///
/// # Errors
/// As for [`create`], or if there is no such parameter set.
pub fn create_with_preset(preset: &str, options: &CollectionOptions) -> Result<(Description, CollectorKey), SumsError> {
    generate(&Preset::find(preset)?.build(Scheme::Bgv)?, options)
}

/// The secure parameters with the smallest contributions that hold the sums.
fn choose(options: &CollectionOptions) -> Result<ExactParameters, SumsError> {
    let CollectionOptions { columns, most_contributions: most, least_contributions: least } = options;
    check_counts(*most, *least)?;
    columns::check(columns)?;
    let mut refused: Option<(u32, SumsError)> = None;
    // The lengths of ciphertexts grow in the order of the list.
    for preset in PRESETS.iter().filter(|preset| !preset.is_insecure()) {
        let parameters = preset.build(Scheme::Bgv)?;
        let modulus = parameters.plain_modulus();
        match check_room(&parameters, columns, *most) {
            Ok(()) => return Ok(parameters),
            // The error of the parameters with the most room says what would fit.
            Err(error) if refused.as_ref().is_none_or(|(known, _)| *known <= modulus) => {
                refused = Some((modulus, error))
            }
            Err(_) => {}
        }
    }
    Err(refused.map_or_else(no_presets, |(_, error)| error))
}

fn no_presets() -> SumsError {
    SumsError::Collection { what: "presets", found: "none".into(), needed: "a secure one; update this program".into() }
}

fn generate(
    parameters: &ExactParameters,
    options: &CollectionOptions,
) -> Result<(Description, CollectorKey), SumsError> {
    let CollectionOptions { columns, most_contributions: most, least_contributions: least } = options;
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let (mut id, mut token) = ([0; 16], Zeroizing::new([0; 32]));
    rng.fill(&mut id);
    rng.fill(token.as_mut_slice());
    let fields = Fields {
        id,
        public_key: PublicKey::generate(&secret, &mut rng)?,
        token_hash: token_hash(&token),
        most: *most,
        least: *least,
        columns: columns.clone(),
    };
    let description = Description::new(parameters, fields)?;
    let key =
        CollectorKey { fingerprint: description.fingerprint(), token: *token, secret: secret.to_bytes()?.to_vec() };
    Ok((description, key))
}

/// Bytes of a private file before the secret: format, fingerprint, token.
const FRONT_BYTES: usize = KEY_MAGIC.len() + 32 + 32;

/// The private half of a collection, which belongs to the collector alone: it decrypts, and it shows that a request to
/// close the collection is the collector's. Never printed; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct CollectorKey {
    #[zeroize(skip)]
    fingerprint: Fingerprint,
    token: [u8; 32],
    /// The bytes of the secret key, which are read when the parameters are known.
    secret: Vec<u8>,
}

impl CollectorKey {
    /// Identifies the collection.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The bytes of the private file: 8 of the format, the fingerprint (32), the token (32), the secret key, and a
    /// checksum (32).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(FRONT_BYTES + self.secret.len() + 32));
        bytes.extend(KEY_MAGIC);
        bytes.extend(self.fingerprint.0);
        bytes.extend(self.token);
        bytes.extend(&self.secret);
        append_checksum(&mut bytes);
        bytes
    }

    /// Reads the output of [`CollectorKey::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are damaged or of another format. The secret key is checked when it is used.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SumsError> {
        const WHAT: &str = "private file of a collection";
        if description::is_public_file(bytes) {
            return Err(SumsError::mismatch(WHAT, "a public file", "the private one of the collection: NAME.private"));
        }
        let refuse = || SumsError::mismatch(WHAT, "other bytes", "the file that was made with the collection");
        let bytes = checked(WHAT, bytes)?;
        let rest = bytes.strip_prefix(&KEY_MAGIC).ok_or_else(refuse)?;
        let (fingerprint, rest) = rest.split_first_chunk::<32>().ok_or_else(refuse)?;
        let (token, secret) = rest.split_first_chunk::<32>().ok_or_else(refuse)?;
        Ok(CollectorKey { fingerprint: Fingerprint(*fingerprint), token: *token, secret: secret.to_vec() })
    }

    /// Checks that this is the private half of a collection.
    ///
    /// # Errors
    /// If the key belongs to another collection, or its secret key is malformed.
    pub fn check(&self, description: &Description) -> Result<(), SumsError> {
        self.secret(description).map(drop)
    }

    pub(crate) fn token(&self) -> &[u8; 32] {
        &self.token
    }

    /// The secret key, if this is the private half of the collection.
    pub(crate) fn secret(&self, description: &Description) -> Result<SecretKey, SumsError> {
        if self.fingerprint == description.fingerprint() {
            return Ok(SecretKey::from_bytes(description.parameters().rlwe(), &self.secret)?);
        }
        let (found, needed) = (description.fingerprint(), self.fingerprint);
        let needed =
            format!("{needed}, to which this private file belongs; name its collection, or do not trust this service");
        Err(SumsError::mismatch("fingerprint of a collection", found, needed))
    }
}

impl fmt::Debug for CollectorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorKey").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

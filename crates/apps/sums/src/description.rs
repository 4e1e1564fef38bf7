//! The public half of a collection, which is also the description of the application.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use prost::Message;
use unspoken_encrypt::ClientKey;
use unspoken_exact::{Encoder, EncryptionKey, ExactParameters, MIN_BUDGET_BITS, Preset, Scheme};
use unspoken_protocol::{
    ApplicationDescription, CHECKSUM_BYTES, Handshake, KeySetId, ParameterFamily, Protocol, Registration,
    append_description_checksum, checked_description,
};
use unspoken_rlwe::{self as rlwe, PublicKey};

use crate::columns::{self, Column};
use crate::error::SumsError;
use crate::format::{ID_BYTES, KEY_MAGIC};
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// Kind and version of the application.
const PROTOCOL: Protocol = Protocol { kind: "sums", version: PROTOCOL_VERSION };

/// Most contributions of a collection: their ids are in the memory of the service.
pub(crate) const MAX_CONTRIBUTIONS: u32 = 1 << 22;

/// Fewest contributions of a released sum: a sum of one is a value.
pub(crate) const FEWEST_RELEASED: u32 = 2;

/// Bytes of contributions that are sent together, at most, unless one alone is larger.
const REQUEST_BYTES: usize = 2 << 20;

/// Contributions that are sent together, at most.
const MAX_TOGETHER: usize = 16;

/// Identifies a collection with all its fields: parameters, public key, columns and limits. A contributor that knows
/// it from the collector sends to no other collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// 64 hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = SumsError;

    fn from_str(text: &str) -> Result<Self, SumsError> {
        let refuse =
            || SumsError::mismatch("fingerprint of a collection", format!("{text:?}"), "64 hexadecimal digits");
        // The decoder also takes 64 digits after `0x`.
        let digits = Some(text).filter(|text| text.len() == 64).ok_or_else(refuse)?;
        hex::decode_to_array(digits).map(Fingerprint).map_err(|_| refuse())
    }
}

/// The presets of the exact schemes, with BGV: its ciphertexts have no rounding that depends on messages, so a sum of
/// ciphertexts depends on the contributions only by their sum.
struct BgvPresets;

impl ParameterFamily for BgvPresets {
    type Parameters = ExactParameters;
    type Error = SumsError;

    fn build(name: &str) -> Result<ExactParameters, SumsError> {
        Ok(Preset::find(name)?.build(Scheme::Bgv)?)
    }

    fn fingerprint(parameters: &ExactParameters) -> [u8; 16] {
        parameters.rlwe().fingerprint().0
    }

    fn is_insecure(parameters: &ExactParameters) -> bool {
        parameters.rlwe().is_insecure()
    }
}

/// The public half of a collection: what contributors need to encrypt, and the service to add. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Description(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    encoder: Encoder,
    id: [u8; 16],
    public_key: Arc<PublicKey>,
    token_hash: [u8; 32],
    most: u32,
    least: u32,
    columns: Vec<Column>,
    fingerprint: Fingerprint,
}

/// The fields of a description.
pub(crate) struct Fields {
    pub(crate) id: [u8; 16],
    pub(crate) public_key: PublicKey,
    pub(crate) token_hash: [u8; 32],
    pub(crate) most: u32,
    pub(crate) least: u32,
    pub(crate) columns: Vec<Column>,
}

impl Description {
    /// A description with checked fields.
    pub(crate) fn new(parameters: &ExactParameters, fields: Fields) -> Result<Self, SumsError> {
        let Fields { id, public_key, token_hash, most, least, columns } = fields;
        check_counts(most, least)?;
        columns::check(&columns)?;
        check_room(parameters, &columns, most)?;
        let unnamed = Inner {
            encoder: Encoder::new(parameters),
            id,
            public_key: Arc::new(public_key),
            token_hash,
            most,
            least,
            columns,
            fingerprint: Fingerprint([0; 32]),
        };
        let hash = blake3::derive_key("unspoken 2026 fingerprint of a collection", &unnamed.to_bytes());
        Ok(Description(Arc::new(Inner { fingerprint: Fingerprint(hash), ..unnamed })))
    }

    /// Serialises the description, with a checksum as its last field: the public file of a collection.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    /// Identifies the collection with all its fields.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// The columns, in the order of a contribution's values.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    /// Checks the values of one contribution.
    ///
    /// # Errors
    /// If there is not one for each column, or one is out of the range of its column. The error does not contain it.
    pub fn check(&self, values: &[i64]) -> Result<(), SumsError> {
        columns::check_values(self.columns(), values)
    }

    /// Most contributions that are added.
    pub fn most_contributions(&self) -> u32 {
        self.0.most
    }

    /// Contributions below which the sum is not released.
    pub fn least_contributions(&self) -> u32 {
        self.0.least
    }

    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.parameters().name()
    }

    /// The collector's public key, and all primes of a contribution: for a pool of encryptions of zero.
    pub fn client_key(&self) -> (ClientKey, unspoken_ring::Basis) {
        (ClientKey::Public(Arc::clone(&self.0.public_key)), self.parameters().basis())
    }

    /// Bytes of a contribution.
    pub fn contribution_bytes(&self) -> usize {
        ID_BYTES + rlwe::Ciphertext::byte_len(self.parameters().rlwe(), self.parameters().basis())
    }

    /// Contributions in one request, at most.
    pub(crate) fn batch(&self) -> usize {
        (REQUEST_BYTES / self.contribution_bytes()).clamp(1, MAX_TOGETHER)
    }

    /// Bytes of a request with `contributions` contributions.
    pub(crate) fn query_bytes(&self, contributions: usize) -> usize {
        1 + contributions * self.contribution_bytes() + CHECKSUM_BYTES
    }

    pub(crate) fn parameters(&self) -> &ExactParameters {
        self.encoder().parameters()
    }

    pub(crate) fn encoder(&self) -> &Encoder {
        &self.0.encoder
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.0.public_key
    }

    /// Whether a token is the collector's. The comparison takes the same time for every token.
    pub(crate) fn is_token(&self, token: &[u8; 32]) -> bool {
        blake3::Hash::from_bytes(token_hash(token)) == blake3::Hash::from_bytes(self.0.token_hash)
    }
}

impl Inner {
    fn to_bytes(&self) -> Vec<u8> {
        let parameters = self.encoder.parameters();
        let columns = self.columns.iter().map(|column| proto::Column {
            name: column.name().into(),
            smallest: column.smallest(),
            largest: column.largest(),
        });
        let message = proto::Description {
            version: PROTOCOL_VERSION,
            preset: parameters.name().into(),
            parameters: BgvPresets::fingerprint(parameters).to_vec(),
            collection_id: self.id.to_vec(),
            public_key: self.public_key.to_bytes(),
            token_hash: self.token_hash.to_vec(),
            most_contributions: self.most,
            least_contributions: self.least,
            columns: columns.collect(),
            checksum: Vec::new(),
        };
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        bytes
    }
}

impl ApplicationDescription for Description {
    type Error = SumsError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, SumsError> {
        if bytes.starts_with(&KEY_MAGIC) {
            let needed = "the public one: NAME.public; the private one belongs to the collector alone";
            return Err(SumsError::mismatch("public file of a collection", "a private file", needed));
        }
        PROTOCOL.check_kind(bytes)?;
        let version_of = |bytes: &[u8]| Some(proto::Description::decode(bytes).ok()?.version);
        let bytes = checked_description(bytes, PROTOCOL_VERSION, version_of)?;
        let message = proto::Description::decode(bytes)
            .map_err(|error| SumsError::mismatch("description", error, "a protobuf message"))?;
        let handshake =
            Handshake { version: message.version, preset: &message.preset, fingerprint: &message.parameters };
        let parameters = handshake.accept::<BgvPresets>(PROTOCOL_VERSION, accept_insecure)?;
        let columns = message.columns.into_iter();
        let columns = columns.map(|column| Column::new(column.name, column.smallest, column.largest));
        let fields = Fields {
            id: exactly("id of a collection", &message.collection_id)?,
            public_key: PublicKey::from_bytes(parameters.rlwe(), &message.public_key)?,
            token_hash: exactly("hash of a collector's token", &message.token_hash)?,
            most: message.most_contributions,
            least: message.least_contributions,
            columns: columns.collect::<Result<_, _>>()?,
        };
        Description::new(&parameters, fields)
    }

    fn key_set(&self) -> KeySetId {
        Registration::key_set()
    }
}

/// Whether bytes begin as the public file of a collection.
pub(crate) fn is_public_file(bytes: &[u8]) -> bool {
    PROTOCOL.check_kind(bytes).is_ok()
}

/// Hash of a collector's token, which is public.
pub(crate) fn token_hash(token: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("unspoken 2026 token of a collector", token)
}

/// Refuses numbers of contributions that a collection cannot have.
pub(crate) fn check_counts(most: u32, least: u32) -> Result<(), SumsError> {
    if !(FEWEST_RELEASED..=MAX_CONTRIBUTIONS).contains(&most) {
        let needed = format!("{FEWEST_RELEASED} to {MAX_CONTRIBUTIONS}; make several collections for more");
        return Err(SumsError::Collection { what: "most contributions", found: most.to_string(), needed });
    }
    if !(FEWEST_RELEASED..=most).contains(&least) {
        let needed = format!("{FEWEST_RELEASED} to {most}, the most contributions");
        return Err(SumsError::Collection { what: "least contributions", found: least.to_string(), needed });
    }
    Ok(())
}

/// Refuses columns that do not fit the parameters: too many, sums that could wrap around, or too much noise.
pub(crate) fn check_room(parameters: &ExactParameters, columns: &[Column], most: u32) -> Result<(), SumsError> {
    // One coefficient counts the contributions.
    let room = parameters.slots() - 1;
    if columns.len() > room {
        let needed = format!("at most {room} for preset {}; make several collections", parameters.name());
        return Err(SumsError::Collection { what: "columns", found: columns.len().to_string(), needed });
    }
    let limit = u64::from(parameters.plain_modulus() / 2);
    let (sum, name) = largest_sum(columns, most);
    if sum > u128::from(limit) {
        let found = format!("a sum of '{name}' up to {sum} for {most} contributions");
        let needed = format!(
            "at most {limit} for preset {}; lower its largest value or the most contributions, or count in larger \
             units",
            parameters.name()
        );
        return Err(SumsError::Collection { what: "columns", found, needed });
    }
    let left = parameters.fresh_budget_bits(EncryptionKey::Public) - f64::from(most).log2();
    if left < MIN_BUDGET_BITS + ROUNDING_BITS {
        let found = format!("{left:.1} bits of noise budget after {most} sums with preset {}", parameters.name());
        let needed = format!("{:.1}; use fewer contributions", MIN_BUDGET_BITS + ROUNDING_BITS);
        return Err(SumsError::Collection { what: "most contributions", found, needed });
    }
    Ok(())
}

/// Room for the rounding of the noise bound over all sums, in bits: each changes it by less than 2^-45.
const ROUNDING_BITS: f64 = 0.1;

/// The largest magnitude of a sum, and its column.
fn largest_sum(columns: &[Column], most: u32) -> (u128, &str) {
    let sums = columns.iter().map(|column| (u128::from(column.magnitude()) * u128::from(most), column.name()));
    sums.chain([(u128::from(most), "the number of contributions")]).max_by_key(|(sum, _)| *sum).unwrap_or((0, ""))
}

/// The bytes of a field with a fixed length.
fn exactly<const N: usize>(what: &'static str, bytes: &[u8]) -> Result<[u8; N], SumsError> {
    bytes.try_into().map_err(|_| SumsError::mismatch(what, format!("{} bytes", bytes.len()), format!("{N} bytes")))
}

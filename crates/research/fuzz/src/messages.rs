//! Parts shared by the messages of all applications, and their repairs.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use prost::{DecodeError, Message};
use unspoken_ckks::{PRESETS, Preset};
use unspoken_protocol::{ApplicationDescription, CkksHeader, Keyring, Protocol, append_description_checksum};
use unspoken_query::{QueryForm, ShortCompact};
use unspoken_rlwe::{KeyKind, Parameters};

use crate::repair;

/// A key that a description requires.
#[derive(Clone, PartialEq, Message)]
pub struct KeyRequirement {
    #[prost(uint64, tag = "1")]
    pub galois_element: u64,
    #[prost(uint32, tag = "2")]
    pub chain: u32,
}

/// A query or an answer; both have the same fields.
#[derive(Clone, PartialEq, Message)]
struct Vectors {
    #[prost(bytes = "vec", tag = "1")]
    model_id: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    vectors: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "3")]
    checksum: Vec<u8>,
}

impl Vectors {
    /// Encodes the message with its correct checksum.
    fn encoded(mut self) -> Vec<u8> {
        self.checksum = Vec::new();
        self.checksum = blake3::hash(&self.encode_to_vec()).as_bytes().to_vec();
        self.encode_to_vec()
    }
}

/// The fields of a description that all applications of CKKS share.
#[derive(Clone, PartialEq, Message)]
pub struct HeaderFields {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    #[prost(string, tag = "2")]
    pub preset: String,
    #[prost(bytes = "vec", tag = "3")]
    pub fingerprint: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub model_id: Vec<u8>,
    #[prost(message, repeated, tag = "10")]
    pub keys: Vec<KeyRequirement>,
    #[prost(string, tag = "11")]
    pub plan: String,
    #[prost(double, tag = "12")]
    pub bound: f64,
    #[prost(double, tag = "14")]
    pub error: f64,
}

/// Fields of a message. Fields of other parts of the message are skipped.
pub trait Fields: Sized + Clone + PartialEq {
    fn read(data: &[u8]) -> Result<Self, DecodeError>;
    fn written(&self) -> Vec<u8>;
}

impl<M: Message + Default + Clone + PartialEq> Fields for M {
    fn read(data: &[u8]) -> Result<Self, DecodeError> {
        M::decode(data)
    }

    fn written(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// Two parts of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Fields, B: Fields> Fields for Both<A, B> {
    fn read(data: &[u8]) -> Result<Self, DecodeError> {
        Ok(Both(A::read(data)?, B::read(data)?))
    }

    fn written(&self) -> Vec<u8> {
        [self.0.written(), self.1.written()].concat()
    }
}

/// A description: the shared fields, and the fields of an application's own message.
#[derive(Clone, Debug, PartialEq)]
pub struct Described<M> {
    pub header: HeaderFields,
    pub own: M,
}

impl<M: Fields> Described<M> {
    pub fn decode(data: &[u8]) -> Result<Self, DecodeError> {
        Ok(Described { header: HeaderFields::read(data)?, own: M::read(data)? })
    }

    /// The description of a server.
    pub fn sound(bytes: &[u8]) -> Self {
        Self::decode(bytes).expect("a description")
    }

    /// Encodes the description with the kind and a correct checksum.
    pub fn encode(&self, protocol: Protocol) -> Vec<u8> {
        finished(protocol, [self.header.written(), self.own.written()].concat())
    }

    /// Repairs the version, the preset and the bounds: of the error, and by `possible` of the outputs.
    pub fn repair_header(&mut self, protocol: Protocol, possible: impl FnOnce(f64) -> bool) {
        self.header.version = protocol.version;
        repair_preset(&mut self.header.preset, &mut self.header.fingerprint);
        repair_bound(&mut self.header.error, |error| error >= BELIEVED_ERROR);
        repair_bound(&mut self.header.bound, possible);
    }

    /// The same with another preset, and an error that clients believe for it.
    pub fn with_preset(&self, (name, fingerprint): &(&str, Vec<u8>)) -> Self {
        let (preset, fingerprint) = ((*name).to_owned(), fingerprint.clone());
        let header = HeaderFields { preset, fingerprint, error: BELIEVED_ERROR, ..self.header.clone() };
        Described { header, own: self.own.clone() }
    }

    /// The same with every small preset.
    pub fn with_presets(&self) -> impl Iterator<Item = Self> {
        FINGERPRINTS.iter().map(|preset| self.with_preset(preset))
    }

    /// The same with each form of query that is not direct; `set` changes the fields of the application.
    pub fn with_forms(&self, set: impl Fn(&mut M, &Formed)) -> impl Iterator<Item = Self> {
        formed().into_iter().map(move |formed| {
            let mut message = self.with_preset(formed.preset);
            message.header.keys.clone_from(&formed.keys);
            set(&mut message.own, &formed);
            message
        })
    }
}

/// The fields of a description that classifiers and layers share.
#[derive(Clone, PartialEq, Message)]
pub struct ScoreFields {
    #[prost(uint32, tag = "5")]
    pub subtables: u32,
    #[prost(uint32, tag = "6")]
    pub columns: u32,
    #[prost(uint32, tag = "7")]
    pub classes: u32,
    #[prost(uint32, tag = "8")]
    pub max_tokens: u32,
    #[prost(uint32, tag = "9")]
    pub query_level: u32,
    #[prost(string, tag = "13")]
    pub query_form: String,
    #[prost(uint32, tag = "19")]
    pub short_period: u32,
}

impl ScoreFields {
    /// Sets the form of the queries, for tables of eight columns.
    pub fn set_form(&mut self, formed: &Formed) {
        self.columns = formed.columns(8);
        self.query_form = formed.form.to_string();
        self.short_period = formed.short_period;
    }
}

/// The description in untrusted bytes, if its preset is a small one and the decoder accepts it. It encodes to the same
/// message `M`.
pub fn read_description<M, D>(data: &[u8], to_bytes: fn(&D) -> Vec<u8>) -> Option<D>
where
    M: Fields,
    D: ApplicationDescription,
{
    let Ok(message) = Described::<M>::decode(data) else {
        assert!(D::read(data, true).is_err(), "no protobuf message was accepted");
        return None;
    };
    if !message.header.preset.starts_with(SMALL_PRESETS) {
        return None;
    }
    let description = D::read(data, true).ok()?;
    assert!(Described::decode(&to_bytes(&description)).is_ok_and(|again| again == message), "another message");
    Some(description)
}

/// A description that begins with the kind and ends with a correct checksum.
pub fn description(protocol: Protocol, message: &impl Message) -> Vec<u8> {
    finished(protocol, message.encode_to_vec())
}

/// A description from the fields after its kind, with a correct checksum.
fn finished(protocol: Protocol, fields: Vec<u8>) -> Vec<u8> {
    let mut bytes = [protocol.first_field(), fields].concat();
    append_description_checksum(&mut bytes);
    bytes
}

/// Repairs a query: seeded ciphertexts with usable scales, for the model with this header.
pub fn repair_query(data: &mut Vec<u8>, header: &CkksHeader) {
    repair_vectors(data, header, |vectors| repair_ciphertexts(vectors, header, repair::seeded_ciphertext));
}

/// Repairs an answer: ciphertexts with usable scales, from the model with this header.
pub fn repair_answer(data: &mut Vec<u8>, header: &CkksHeader) {
    repair_vectors(data, header, |vectors| repair_ciphertexts(vectors, header, repair::ciphertext));
}

/// Repairs a message for the model with this header, and its vectors with `repair`.
pub fn repair_vectors(data: &mut Vec<u8>, header: &CkksHeader, repair: impl FnOnce(&mut [Vec<u8>])) {
    let Ok(mut message) = Vectors::decode(data.as_slice()) else { return };
    message.model_id = header.model_id().to_vec();
    repair(&mut message.vectors);
    *data = message.encoded();
}

/// Repairs ciphertexts, each after its scale.
pub fn repair_ciphertexts(vectors: &mut [Vec<u8>], header: &CkksHeader, ciphertext: fn(&Parameters, &mut Vec<u8>)) {
    let parameters = header.parameters();
    for vector in vectors {
        repair::scaled(vector, parameters.scale(), |rest| ciphertext(parameters.rlwe(), rest));
    }
}

/// Repairs a preset: replaces it by a small one, with the fingerprint of its parameters if the preset exists.
fn repair_preset(preset: &mut String, fingerprint: &mut Vec<u8>) {
    if !preset.starts_with(SMALL_PRESETS) {
        *preset = PRESET.into();
    }
    if let Some((_, sound)) = FINGERPRINTS.iter().find(|(name, _)| name == preset) {
        fingerprint.clone_from(sound);
    }
}

/// Replaces an impossible bound by a finite, possible one.
pub fn repair_bound(bound: &mut f64, possible: impl FnOnce(f64) -> bool) {
    if !(bound.is_finite() && possible(*bound)) {
        *bound = 1.0;
    }
}

/// A bound of the error that clients believe for every small preset: smaller ones are refused for some.
pub const BELIEVED_ERROR: f64 = 1e-5;

/// The preset of descriptions. Fixtures in smaller rings derive their parameters from it.
pub const PRESET: &str = "insecure_n11_depth9_scale50";

/// Prefix of the small presets; larger ones are valid too, but take a second to build.
pub const SMALL_PRESETS: &str = "insecure_n11_";

/// Most keys that are generated, for speed.
const MAX_KEYS_MADE: usize = 2;

/// The small presets that support switching keys, which every description requires, and the fingerprints of their
/// parameters.
pub static FINGERPRINTS: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| {
    let small = PRESETS.iter().filter(|preset| preset.name.starts_with(SMALL_PRESETS));
    let built = small.map(|preset| (preset.name, preset.build().expect("builds")));
    let with_keys = built.filter(|(_, parameters)| !parameters.ring().special().is_empty());
    with_keys.map(|(name, parameters)| (name, parameters.rlwe().fingerprint().0.to_vec())).collect()
});

/// Number of slots of each small preset.
static SLOTS: LazyLock<Vec<(&str, u32)>> = LazyLock::new(|| {
    let small = PRESETS.iter().filter(|preset| preset.name.starts_with(SMALL_PRESETS));
    small.map(|preset| (preset.name, preset.build().expect("builds").slots() as u32)).collect()
});

/// Number of slots of a small preset; of the usual one for others.
pub fn slots(name: &str) -> u32 {
    let found = |name: &str| SLOTS.iter().find(|(known, _)| *known == name).map(|(_, slots)| *slots);
    found(name).or(found(PRESET)).unwrap_or(1)
}

/// Largest query that is generated, for speed and memory.
pub const MAX_QUERY_BYTES_MADE: usize = 4 << 20;

/// Generates the keys that a description requires, if they are few, and checks the announced number of bytes.
pub fn make_keys(keyring: &Keyring) {
    let mut bundle = Vec::new();
    let few = keyring.header().key_plan().len() <= MAX_KEYS_MADE;
    if few && keyring.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).is_ok() {
        assert_eq!(bundle.len() as u64, keyring.key_bytes());
    }
}

/// A preset that supports bootstrapping.
const BOOT_PRESET: &str = "insecure_n11_boot_depth10_scale50";

/// Fields of a description for a query form other than direct.
pub struct Formed {
    pub form: QueryForm,
    pub preset: &'static (&'static str, Vec<u8>),
    pub keys: Vec<KeyRequirement>,
    pub short_period: u32,
}

impl Formed {
    /// Number of columns in the description, for a table with this many columns.
    pub fn columns(&self, columns: usize) -> u32 {
        self.form.padded_columns(columns) as u32
    }
}

/// Full and short compact queries, whose bootstraps need keys that are not Galois keys, and one-hot queries, which need
/// no keys.
pub fn formed() -> [Formed; 3] {
    let parameters = Preset::find(BOOT_PRESET).and_then(Preset::build).expect("builds");
    let primes = parameters.rlwe().encapsulation().expect("made for bootstrapping").primes;
    let key = |kind: KeyKind, chain: usize| KeyRequirement { galois_element: kind.code(), chain: chain as u32 };
    let all = parameters.ring().chain().len();
    let preset = FINGERPRINTS.iter().find(|(name, _)| *name == BOOT_PRESET).expect("a small preset");
    let keys = vec![key(KeyKind::QueryEncapsulation, primes), key(KeyKind::Decapsulation { element: 1 }, all)];
    let most = ShortCompact::most_period(&parameters, 2).expect("made for bootstrapping");
    let short = vec![key(KeyKind::SubringQuery, all), key(KeyKind::HalfRing, 1)];
    [
        Formed { form: QueryForm::Compact, preset, keys, short_period: 0 },
        Formed { form: QueryForm::Compact, preset, keys: short, short_period: most as u32 },
        Formed { form: QueryForm::OneHot, preset, keys: Vec::new(), short_period: 0 },
    ]
}

/// Replaces the name of a query form by an existing one.
pub fn repair_form(name: &mut String) {
    if name.parse::<QueryForm>().is_err() {
        *name = QueryForm::Direct.to_string();
    }
}

//! Parts shared by the messages of all applications, and their repairs.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_ckks::{PRESETS, Preset};
use unspoken_protocol::{ApplicationDescription, CkksHeader, Keyring, Protocol, append_description_checksum};
use unspoken_query::{QueryForm, ShortCompact};
use unspoken_rlwe::{KeyKind, Parameters};

use crate::fixtures::PRESET;
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

/// The description in untrusted bytes, if its preset is a small one and the decoder accepts it. It encodes to the same
/// message `M`.
pub fn read_description<M: Message + Default + PartialEq, D: ApplicationDescription>(
    data: &[u8],
    preset: fn(&M) -> &str,
    to_bytes: fn(&D) -> Vec<u8>,
) -> Option<D> {
    let Ok(message) = M::decode(data) else {
        assert!(D::read(data, true).is_err(), "no protobuf message was accepted");
        return None;
    };
    if !preset(&message).starts_with(SMALL_PRESETS) {
        return None;
    }
    let description = D::read(data, true).ok()?;
    assert!(M::decode(to_bytes(&description).as_slice()).is_ok_and(|again| again == message), "another message");
    Some(description)
}

/// A description that begins with the kind and ends with a correct checksum.
pub fn description(protocol: Protocol, message: &impl Message) -> Vec<u8> {
    let mut bytes = [protocol.first_field(), message.encode_to_vec()].concat();
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

/// Repairs ciphertexts behind their scales.
pub fn repair_ciphertexts(vectors: &mut [Vec<u8>], header: &CkksHeader, ciphertext: fn(&Parameters, &mut Vec<u8>)) {
    let parameters = header.parameters();
    for vector in vectors {
        repair::scaled(vector, parameters.scale(), |rest| ciphertext(parameters.rlwe(), rest));
    }
}

/// Repairs a preset: replaces it by a small one, with the fingerprint of its parameters if the preset exists.
pub fn repair_preset(preset: &mut String, fingerprint: &mut Vec<u8>) {
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

/// Prefix of the small presets; larger ones are valid too, but take a second to build.
pub const SMALL_PRESETS: &str = "insecure_n11_";

/// Most keys that are generated, for speed.
const MOST_KEYS_MADE: usize = 2;

/// The small presets that support switching keys, which every description requires, and the fingerprints of their
/// parameters.
pub static FINGERPRINTS: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| {
    let small = PRESETS.iter().filter(|preset| preset.name.starts_with(SMALL_PRESETS));
    let built = small.map(|preset| (preset.name, preset.build().expect("builds")));
    let with_keys = built.filter(|(_, parameters)| !parameters.ring().special().is_empty());
    with_keys.map(|(name, parameters)| (name, parameters.rlwe().fingerprint().0.to_vec())).collect()
});

/// Largest query that is generated, for speed and memory.
pub const MOST_QUERY_BYTES_MADE: usize = 4 << 20;

/// Generates the keys that a description requires, if they are few, and checks the announced number of bytes.
pub fn make_keys(keyring: &Keyring) {
    let mut bundle = Vec::new();
    let few = keyring.header().key_plan().len() <= MOST_KEYS_MADE;
    if few && keyring.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).is_ok() {
        assert_eq!(bundle.len() as u64, keyring.key_bytes());
    }
}

/// A preset that supports bootstrapping.
const BOOT_PRESET: &str = "insecure_n11_boot_depth9_scale50";

/// Fields of a description for a query form other than direct.
pub struct Formed {
    pub form: QueryForm,
    pub preset: &'static (&'static str, Vec<u8>),
    pub keys: Vec<KeyRequirement>,
    pub small_period: u32,
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
    let keys = vec![key(KeyKind::QueryEncapsulation, primes), key(KeyKind::Decapsulation, all)];
    let most = ShortCompact::most_period(&parameters, 2).expect("made for bootstrapping");
    let short = vec![key(KeyKind::SubringQuery, all), key(KeyKind::HalfRing, 1)];
    [
        Formed { form: QueryForm::Compact, preset, keys, small_period: 0 },
        Formed { form: QueryForm::Compact, preset, keys: short, small_period: most as u32 },
        Formed { form: QueryForm::OneHot, preset, keys: Vec::new(), small_period: 0 },
    ]
}

/// Replaces the name of a query form by an existing one.
pub fn repair_form(name: &mut String) {
    if name.parse::<QueryForm>().is_err() {
        *name = QueryForm::Direct.to_string();
    }
}

//! The header of every description of a CKKS application: parameters, model, and keys.

use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{DecodeError, Message};
use unspoken_ckks::{CkksParameters, NoiseModel};
use unspoken_rlwe::{KeyKind, KeyPlan, MAX_BUNDLE_KEYS};

use crate::checksum::{append_checksum_field, append_description_checksum, checked_description, checked_fields};
use crate::error::ProtocolError;
use crate::handshake::{CkksPresets, Handshake};
use crate::key_set::KeySetId;
use crate::kind::Protocol;
use crate::limits::{self, Bootstraps, LimitExceeded};
use crate::transfer::{largest_output_scale, sent_output_bytes};
use crate::v1;

/// Longest name of a model or a plan, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// A description whose bound of the error is smaller than the [`error_floor`] by more than this factor is refused.
const MAX_UNDERSTATEMENT: f64 = 1024.0;
/// Units from 2 to the power of minus this to 2 to the power of this are accepted.
const MAX_UNIT_EXPONENT: i32 = 300;
/// Number of the field of a message's vectors.
const VECTORS_TAG: u32 = 2;
/// Number of the last field of a query or an answer, its checksum.
const VECTORS_CHECKSUM_TAG: u32 = 3;

/// The part of a description that all CKKS applications share: version of the protocol, preset, model, keys, bound of
/// the answers.
#[derive(Clone, Debug)]
pub struct CkksHeader {
    protocol: Protocol,
    parameters: CkksParameters,
    key_plan: KeyPlan,
    message: v1::CkksHeader,
    /// No bound of the error below this is believed.
    least_error: f64,
}

impl CkksHeader {
    /// A server's header: kind and version of the application, and the model's identity. `bound` bounds the
    /// absolute value of every number in an answer; `plan` is a name for human readers. The numbers have the unit 1.
    pub fn new(
        protocol: Protocol,
        parameters: &CkksParameters,
        model_id: &[u8],
        key_plan: KeyPlan,
        plan: String,
        bound: f64,
    ) -> Self {
        let requirement =
            |(kind, chain): (KeyKind, usize)| v1::KeyRequirement { galois_element: kind.code(), chain: chain as u32 };
        let message = v1::CkksHeader {
            version: protocol.version,
            preset: parameters.name().into(),
            fingerprint: parameters.rlwe().fingerprint().0.to_vec(),
            model_id: model_id.to_vec(),
            keys: key_plan.iter().map(requirement).collect(),
            plan,
            bound,
            error: 0.0,
            checksum: Vec::new(),
            unit: 0.0,
            answer_bytes: 0,
        };
        CkksHeader { protocol, parameters: parameters.clone(), key_plan, message, least_error: error_floor(parameters) }
    }

    /// The same header with a bound of the error of the answer's numbers, from
    /// [`simulated_error_bound`](crate::simulated_error_bound); without one if `error` is not finite.
    pub fn with_error_bound(mut self, error: f64) -> Self {
        self.message.error = if error.is_finite() { error } else { 0.0 };
        self
    }

    /// The same header for answers in this unit, a power of two: clients multiply decrypted numbers by it. The bounds
    /// of the numbers and of their errors already bound these products, so they stay as they are.
    pub fn with_unit(mut self, unit: f64) -> Self {
        self.message.unit = unit;
        self.least_error = error_floor(&self.parameters) * unit;
        self
    }

    /// The same header with the expected length of an answer: `vectors` vectors, which
    /// [`write_output`](crate::write_output) writes from outputs of this level and scale.
    pub fn with_answer(mut self, vectors: usize, level: usize, scale: f64) -> Self {
        let vector = sent_output_bytes(&self.parameters, level, scale);
        self.message.answer_bytes = self.packed_bytes(vectors, vectors.saturating_mul(vector)) as u64;
        self
    }

    /// Reads a description from untrusted bytes: the header, and the message with the application's own fields. Builds
    /// the header's parameters.
    ///
    /// # Errors
    /// The errors of [`Protocol::check_kind`] and [`Handshake::accept`], or if the bytes are damaged or malformed,
    /// request keys that do not exist or are too many, or claim errors that are much smaller than the errors of a fresh
    /// encryption.
    pub fn read<M: Message + Default>(
        bytes: &[u8],
        protocol: Protocol,
        accept_insecure: bool,
    ) -> Result<(Self, M), ProtocolError> {
        protocol.check_kind(bytes)?;
        let bytes = checked_description(bytes, protocol.version, |bytes| {
            decode("description", bytes).ok().map(|message: v1::CkksHeader| message.version)
        })?;
        let message: v1::CkksHeader = decode("description", bytes)?;
        let handshake =
            Handshake { version: message.version, preset: &message.preset, fingerprint: &message.fingerprint };
        let parameters = handshake.accept::<CkksPresets>(protocol.version, accept_insecure)?;
        let bounded = [message.bound, message.error].iter().all(|bound| bound.is_finite() && *bound >= 0.0);
        if !bounded || message.model_id.len().max(message.plan.len()) > MAX_NAME_BYTES {
            let needed = format!("finite bounds, and names of at most {MAX_NAME_BYTES} bytes");
            return Err(ProtocolError::mismatch("description", format!("bound {}", message.bound), needed));
        }
        check_unit(unit_of(&message))?;
        let least_error = error_floor(&parameters) * unit_of(&message);
        if message.error > 0.0 && message.error < least_error / MAX_UNDERSTATEMENT {
            let found = format!("bound {:e} of the error", message.error);
            let needed = format!("about {least_error:.1e} or more for this preset; do not trust this service");
            return Err(ProtocolError::mismatch("description", found, needed));
        }
        let key_plan = requested_keys(&parameters, &message.keys)?;
        Ok((CkksHeader { protocol, parameters, key_plan, message, least_error }, decode("description", bytes)?))
    }

    /// Serialises the kind of the application, the header, the fields of the application's own message, and a checksum.
    pub fn to_bytes(&self, own: &impl Message) -> Vec<u8> {
        self.to_bytes_with(&own.encode_to_vec())
    }

    /// As [`CkksHeader::to_bytes`], with the encoded fields of the application's own message.
    pub fn to_bytes_with(&self, own: &[u8]) -> Vec<u8> {
        let mut bytes = self.protocol.first_field();
        bytes.extend(self.message.encode_to_vec());
        bytes.extend(own);
        append_description_checksum(&mut bytes);
        bytes
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// Identifies the keys: the numbers of the parameters, and whether there are keys of bootstraps. Keys of bootstraps
    /// stay apart from other keys, so that a client makes bootstrapping keys only for applications that need them.
    pub fn key_set(&self) -> KeySetId {
        let kind = match self.bootstraps() {
            Bootstraps::Nothing => "switching keys",
            Bootstraps::ShortQueries => "switching keys, bootstraps of short queries",
            Bootstraps::Queries => "switching keys, bootstraps",
            Bootstraps::Ciphertexts => "switching keys, bootstraps of ciphertexts",
            Bootstraps::QueriesAndCiphertexts => "switching keys, bootstraps of queries and ciphertexts",
        };
        KeySetId::new(kind, &self.parameters.rlwe().fingerprint().0)
    }

    /// What the server bootstraps.
    pub(crate) fn bootstraps(&self) -> Bootstraps {
        Bootstraps::of(&self.key_plan)
    }

    /// Refuses a bundle of these keys if one that the server needs is missing.
    pub(crate) fn check_covered(&self, plan: &KeyPlan) -> Result<(), ProtocolError> {
        if plan.covers(&self.key_plan) {
            return Ok(());
        }
        let missing = self.key_plan.iter().filter(|&(kind, chain)| !plan.covers_key(kind, chain)).count();
        let found = format!("a bundle of {} keys, without {missing} that the application needs", plan.len());
        let needed = format!("all {} of its description; read it again and upload new keys", self.key_plan.len());
        Err(ProtocolError::mismatch("key bundle", found, needed))
    }

    /// The keys that the server needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.key_plan
    }

    /// The model's identity.
    pub fn model_id(&self) -> &[u8] {
        &self.message.model_id
    }

    /// Name of the plan.
    pub fn plan(&self) -> &str {
        &self.message.plan
    }

    /// The factor between decrypted numbers and the numbers of an answer, a power of two. A server scales a model so
    /// that its numbers use the range of the parameters, and describes the unit.
    pub fn unit(&self) -> f64 {
        unit_of(&self.message)
    }

    /// Bound of the absolute value of every number in an answer.
    pub fn bound(&self) -> f64 {
        self.message.bound
    }

    /// Expected length of an answer in bytes, at most `most`, which is also the result if the service does not say it.
    /// For people only: the service may send another length.
    pub fn expected_answer_bytes(&self, most: usize) -> usize {
        usize::try_from(self.message.answer_bytes).ok().filter(|bytes| (1..=most).contains(bytes)).unwrap_or(most)
    }

    /// Bound of the error of an answer's numbers, if the service knows one. It is never below
    /// [`least_error`](Self::least_error), whatever the service describes.
    pub fn error_bound(&self) -> Option<f64> {
        (self.message.error > 0.0).then_some(self.message.error.max(self.least_error))
    }

    /// The smallest error of an answer's numbers that a client assumes. The client computes it from the parameters: the
    /// noise of a fresh encryption at the default scale, plus the rounding of an answer at the largest scale of an
    /// answer, as root mean squares of slots:
    /// `encryption / scale + rounding / largest_output_scale` with the terms of [`NoiseModel`], times the unit. After
    /// [`CkksHeader::keep_error_bound`] it is the bound of an earlier description, if that is larger.
    pub fn least_error(&self) -> f64 {
        self.least_error
    }

    /// Keeps this header's bound of the error from falling below the bound of an `earlier` description of the same
    /// service: answers to the earlier description may still be shared.
    pub fn keep_error_bound(&mut self, earlier: &CkksHeader) {
        self.least_error = self.least_error.max(earlier.least_error).max(earlier.message.error);
    }

    /// Refuses keys of bootstraps that the application does not make: with such keys a service could do more than its
    /// application needs.
    ///
    /// # Errors
    /// If the application has no use for a key.
    pub fn check_use(&self, bootstraps: Bootstraps) -> Result<(), ProtocolError> {
        limits::check_no_short_answers(&self.key_plan)?;
        Ok(limits::check_key_kinds(&self.key_plan, bootstraps)?)
    }

    /// As [`CkksHeader::check_use`], for an application that sends small answers: they need the key to the ring of half
    /// the degree.
    ///
    /// # Errors
    /// If the application has no use for a key.
    pub fn check_use_with_short_answers(&self, bootstraps: Bootstraps) -> Result<(), ProtocolError> {
        Ok(limits::check_key_kinds(&self.key_plan, bootstraps)?)
    }

    /// Refuses queries that would cost a client more memory and time than any application needs.
    ///
    /// # Errors
    /// If a query of `bytes` bytes exceeds the limit.
    pub fn check_query_bytes(bytes: usize) -> Result<(), ProtocolError> {
        Ok(limits::check_query_bytes(bytes as u64)?)
    }

    /// Refuses a service whose answers may be larger than any application needs.
    ///
    /// # Errors
    /// If an answer of `bytes` bytes exceeds the limit.
    pub fn check_answer_bytes(bytes: usize) -> Result<(), ProtocolError> {
        Ok(limits::check_answer_bytes(bytes as u64)?)
    }

    /// Serialises a query or an answer of these vectors.
    pub fn pack(&self, vectors: Vec<Vec<u8>>) -> Vec<u8> {
        let model_id = self.message.model_id.clone();
        let mut bytes = v1::Vectors { model_id, vectors, checksum: Vec::new() }.encode_to_vec();
        append_checksum_field(&mut bytes, VECTORS_CHECKSUM_TAG);
        bytes
    }

    /// Maximum length of the result of [`CkksHeader::pack`] for `vectors` vectors of `bytes` bytes in total.
    pub fn packed_bytes(&self, vectors: usize, bytes: usize) -> usize {
        // Each field: a tag and a length of at most ten bytes together.
        bytes.saturating_add(vectors.saturating_mul(10)).saturating_add(self.message.model_id.len() + 64)
    }

    /// The vectors of a `what` ("query" or "answer") of at most `most` untrusted bytes, at most `vectors`. They are
    /// counted before memory is allocated for them.
    ///
    /// # Errors
    /// If it is longer, has more vectors, is malformed, damaged, or of another model.
    pub fn unpack(
        &self,
        what: &'static str,
        bytes: &[u8],
        most: usize,
        vectors: usize,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        if bytes.len() > most {
            let found = format!("{} bytes", bytes.len());
            return Err(ProtocolError::mismatch(what, found, format!("at most {most} bytes")));
        }
        let bytes = checked_fields(what, bytes, VECTORS_CHECKSUM_TAG)?;
        let count = count_fields(bytes, VECTORS_TAG).map_err(|error| malformed(what, error))?;
        if count > vectors {
            return Err(ProtocolError::mismatch(what, format!("{count} vectors"), format!("at most {vectors}")));
        }
        let message: v1::Vectors = decode(what, bytes)?;
        if message.model_id != self.message.model_id {
            let needed = "this model's; read the description again";
            return Err(ProtocolError::mismatch(what, "one of another model", needed));
        }
        Ok(message.vectors)
    }
}

fn unit_of(message: &v1::CkksHeader) -> f64 {
    if message.unit == 0.0 { 1.0 } else { message.unit }
}

/// A unit is a power of two, so that multiplying by it is exact.
fn check_unit(unit: f64) -> Result<(), ProtocolError> {
    let largest = f64::from(MAX_UNIT_EXPONENT).exp2();
    // A power of two has no bits in its mantissa.
    if (1.0 / largest..=largest).contains(&unit) && unit.to_bits() << 12 == 0 {
        return Ok(());
    }
    let needed = format!("a power of two from 2^-{MAX_UNIT_EXPONENT} to 2^{MAX_UNIT_EXPONENT}");
    Err(ProtocolError::mismatch("unit of the answers", unit, needed))
}

/// See [`CkksHeader::least_error`]. The unit is 1.
fn error_floor(parameters: &CkksParameters) -> f64 {
    let noise = NoiseModel::new(parameters);
    noise.encryption() / parameters.scale() + noise.rounding(2) / largest_output_scale(parameters)
}

/// Decodes one protobuf message.
fn decode<M: Message + Default>(what: &'static str, bytes: &[u8]) -> Result<M, ProtocolError> {
    M::decode(bytes).map_err(|error| malformed(what, error))
}

fn malformed(what: &'static str, error: DecodeError) -> ProtocolError {
    ProtocolError::mismatch(what, error, "a protobuf message")
}

/// Number of fields with this tag in a protobuf message: an empty one has two bytes there, and many times that in
/// memory.
fn count_fields(mut bytes: &[u8], tag: u32) -> Result<usize, DecodeError> {
    let mut count = 0;
    while !bytes.is_empty() {
        let (found, wire_type) = decode_key(&mut bytes)?;
        skip_field(wire_type, found, &mut bytes, DecodeContext::default())?;
        count += usize::from(found == tag);
    }
    Ok(count)
}

/// The keys that a service requests.
fn requested_keys(parameters: &CkksParameters, keys: &[v1::KeyRequirement]) -> Result<KeyPlan, ProtocolError> {
    if keys.len() > MAX_BUNDLE_KEYS {
        let (found, needed) = (format!("{} keys", keys.len()), format!("at most {MAX_BUNDLE_KEYS}"));
        return Err(LimitExceeded::new("key plan", found, needed).into());
    }
    let all = parameters.ring().chain().len();
    let mut plan = KeyPlan::new();
    for key in keys {
        let (code, chain) = (key.galois_element, key.chain as usize);
        let kind = KeyKind::from_code(parameters.ring(), code).filter(|_| (1..=all).contains(&chain));
        let unknown =
            || ProtocolError::mismatch("key plan", format!("kind {code} for {chain} primes"), "a key of this preset");
        let kind = kind.ok_or_else(unknown)?;
        parameters.rlwe().check_kind(kind, chain)?;
        plan.require(kind, chain);
    }
    limits::check_key_bytes(parameters.rlwe(), &plan)?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::ParameterFamily;
    use crate::share::SharingNoise;

    const PROTOCOL: Protocol = Protocol { kind: "test", version: 7 };

    fn header(preset: &str, key_plan: KeyPlan) -> CkksHeader {
        let parameters = CkksPresets::build(preset).unwrap();
        CkksHeader::new(PROTOCOL, &parameters, &[9; 16], key_plan, "plan".into(), 2.0)
    }

    fn opened(message: &v1::CkksHeader) -> Result<CkksHeader, ProtocolError> {
        let mut bytes = [PROTOCOL.first_field(), message.encode_to_vec()].concat();
        append_description_checksum(&mut bytes);
        CkksHeader::read::<Own>(&bytes, PROTOCOL, true).map(|(header, _)| header)
    }

    #[test]
    fn a_service_gets_no_keys_beyond_its_need() {
        let sound = header("insecure_n11_boot_depth10_scale50", KeyPlan::new());
        let primes = sound.parameters().rlwe().encapsulation().unwrap().primes as u32;
        use Bootstraps::{Ciphertexts, Nothing, Queries, QueriesAndCiphertexts, ShortQueries};
        let back = KeyKind::Decapsulation { element: 1 }.code();
        let ask = |bootstraps: Bootstraps, keys: &[(u64, u32)]| {
            let keys =
                keys.iter().map(|&(galois_element, chain)| v1::KeyRequirement { galois_element, chain }).collect();
            let header = opened(&v1::CkksHeader { keys, ..sound.message.clone() })?;
            header.check_use(bootstraps)?;
            Ok::<_, ProtocolError>(header.key_plan().len())
        };
        assert_eq!(ask(Nothing, &[(0, 5), (5, 3)]).unwrap(), 2);
        assert_eq!(ask(ShortQueries, &[(10, 40)]).unwrap(), 1);
        assert_eq!(ask(Queries, &[(4, primes), (back, 40)]).unwrap(), 2);
        assert_eq!(ask(Ciphertexts, &[(2, primes), (back, 40)]).unwrap(), 2);
        assert_eq!(ask(QueriesAndCiphertexts, &[(2, primes), (4, primes), (back, 40)]).unwrap(), 3);
        for (bootstraps, key) in [
            (Nothing, (4, primes)),     // of a bootstrap
            (Nothing, (back, 40)),      // of a bootstrap
            (Queries, (2, primes)),     // of other ciphertexts
            (Queries, (4, primes + 1)), // over more primes than are safe
            (Queries, (4, 1)),
            (Ciphertexts, (4, primes)), // of compact queries
            (Ciphertexts, (2, primes + 1)),
            (Nothing, (1, 5)),  // the identity
            (Nothing, (8, 1)),  // of small answers
            (Nothing, (10, 5)), // of short queries
            (Queries, (10, 5)),
            (Nothing, (12, 5)),             // nothing
            (Queries, (6, 40)),             // without an element
            (Queries, (6 | 2 << 8, 40)),    // an even element
            (Queries, (6 | 4097 << 8, 40)), // beyond the order
            (Nothing, (5, 0)),
            (Nothing, (5, 1000)),
        ] {
            assert!(ask(bootstraps, &[key]).is_err(), "{bootstraps:?} {key:?}");
        }
        assert!(ask(Nothing, &vec![(5, 3); MAX_BUNDLE_KEYS + 1]).is_err());
        let error = CkksHeader::check_query_bytes(usize::MAX).unwrap_err().to_string();
        assert!(error.ends_with("do not trust this service"), "{error}");
    }

    #[test]
    fn a_header_and_an_applications_fields_lie_in_the_same_bytes() {
        let header = header("insecure_n11_depth9_scale50", KeyPlan::new());
        // Each message ignores the tags of the other.
        let bytes = header.to_bytes(&Own { width: 77 });
        let (read, own) = CkksHeader::read::<Own>(&bytes, PROTOCOL, true).unwrap();
        assert_eq!((read.message, own.width), (header.message.clone(), 77));
        for (message, part) in [
            (v1::CkksHeader { version: PROTOCOL.version + 1, ..header.message.clone() }, "update the older side"),
            (v1::CkksHeader { preset: "n1".into(), ..header.message.clone() }, "n1"),
            (v1::CkksHeader { fingerprint: vec![0; 16], ..header.message.clone() }, "same release"),
            (v1::CkksHeader { bound: f64::NAN, ..header.message.clone() }, "finite"),
            (v1::CkksHeader { error: f64::INFINITY, ..header.message.clone() }, "finite"),
            (v1::CkksHeader { model_id: vec![0; 300], ..header.message.clone() }, "256 bytes"),
        ] {
            let error = opened(&message).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = CkksHeader::read::<Own>(&bytes, PROTOCOL, false).unwrap_err().to_string();
        assert!(error.contains("a secure one"), "{error}");
    }

    #[test]
    fn a_client_believes_no_error_below_its_floor() {
        let mut header = header("insecure_n11_depth9_scale50", KeyPlan::new());
        let floor = header.least_error();
        // 3.19 sqrt(2^11) / 2^50, or sqrt(2) times that for real slots, and little more.
        assert!((1.28e-13..2e-13).contains(&floor), "{floor:e}");
        let claim = |error| opened(&v1::CkksHeader { error, ..header.message.clone() });
        let error = claim(1e-300).unwrap_err().to_string();
        assert!(error.contains("1e-300") && error.contains("do not trust this service"), "{error}");
        assert_eq!(claim(floor / 1000.0).unwrap().error_bound(), Some(floor));
        assert_eq!(claim(0.01).unwrap().error_bound(), Some(0.01));
        assert_eq!(claim(0.0).unwrap().error_bound(), None);
        // A service that describes another bound later cannot lower it, not even by a description without one.
        let (mut unknown, mut later) = (claim(0.0).unwrap(), claim(1e-6).unwrap());
        unknown.keep_error_bound(&claim(0.01).unwrap());
        later.keep_error_bound(&unknown);
        assert_eq!((unknown.error_bound(), later.error_bound()), (None, Some(0.01)));
        // A header that was not read from bytes has the same floor.
        header = header.with_error_bound(1e-300);
        let noise = SharingNoise::new(header.error_bound().unwrap(), 30).unwrap();
        assert_eq!(noise.deviation(), floor * 2f64.powi(30));
    }

    #[test]
    fn bounds_are_those_of_the_numbers_in_their_unit() {
        let plain = header("insecure_n11_depth9_scale50", KeyPlan::new());
        let floor = plain.least_error();
        assert_eq!((plain.unit(), plain.message.unit), (1.0, 0.0));
        for exponent in [-300, -40, 0, 30, 300] {
            let unit = f64::from(exponent).exp2();
            let small = plain.clone().with_unit(unit).with_error_bound(1e-3 * unit);
            let read = opened(&small.message).unwrap();
            assert_eq!((read.unit(), read.least_error()), (unit, floor * unit));
            assert_eq!((read.bound(), read.error_bound()), (2.0, Some(1e-3 * unit)));
            // The floor of the error has the same unit, so that noise hides as much of the error.
            let claim = v1::CkksHeader { error: floor / 2000.0 * unit, ..small.message.clone() };
            assert!(opened(&claim).unwrap_err().to_string().contains("do not trust this service"));
        }
        for unit in [-1.0, 3.0, f64::NAN, f64::INFINITY, 5e-324, 301f64.exp2()] {
            let error = opened(&v1::CkksHeader { unit, ..plain.message.clone() }).unwrap_err().to_string();
            assert!(error.starts_with("unit of the answers: found"), "{error}");
        }
    }

    #[derive(Clone, PartialEq, Message)]
    struct Own {
        #[prost(uint32, tag = "5")]
        width: u32,
    }

    #[test]
    fn vectors_are_unpacked_only_whole_and_of_this_model() {
        let ours = header("insecure_n11_depth9_scale50", KeyPlan::new());
        let theirs =
            CkksHeader { message: v1::CkksHeader { model_id: vec![8; 16], ..ours.message.clone() }, ..ours.clone() };
        let vectors = vec![vec![1, 2, 3], vec![], vec![4]];
        let packed = ours.pack(vectors.clone());
        assert!(packed.len() <= ours.packed_bytes(3, 4));
        assert_eq!(ours.unpack("query", &packed, packed.len(), 3).unwrap(), vectors);
        assert!(ours.unpack("query", &packed, packed.len() - 1, 3).is_err());
        assert!(theirs.unpack("query", &packed, 1000, 3).unwrap_err().to_string().contains("another model"));
        for bit in 0..8 * packed.len() {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = ours.unpack("query", &damaged, 1000, 3).unwrap_err();
            assert!(matches!(error, ProtocolError::Damaged { what: "query" }), "{bit}: {error}");
        }
        let error = ours.unpack("answer", &packed, 1000, 2).unwrap_err().to_string();
        assert_eq!(error, "answer: found 3 vectors, needed at most 2");
        // Refused before it is decoded.
        let mut empty = [VECTORS_TAG as u8 * 8 + 2, 0].repeat(1 << 20);
        append_checksum_field(&mut empty, VECTORS_CHECKSUM_TAG);
        let error = ours.unpack("answer", &empty, empty.len(), 2).unwrap_err().to_string();
        assert!(error.contains("1048576 vectors"), "{error}");
    }
}

//! The agreement between client and server: which parameters, which model, which keys.

use prost::Message;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_rlwe::{KeyKind, KeyPlan, MAX_BUNDLE_KEYS};

use crate::demands::{self, Excess};
use crate::error::ProtocolError;
use crate::v1;

/// Longest name of a model or a plan.
const MAX_NAME_BYTES: usize = 256;

/// What a client must know to ask, whatever the application: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Terms {
    parameters: CkksParameters,
    key_plan: KeyPlan,
    message: v1::Terms,
}

impl Terms {
    /// A server's terms: the version of the application's protocol, and the model's identity. No number of an answer
    /// exceeds `bound`; `plan` is a name for people.
    pub fn new(
        version: u32,
        parameters: &CkksParameters,
        model_id: &[u8],
        key_plan: KeyPlan,
        plan: String,
        bound: f64,
    ) -> Self {
        let requirement =
            |(kind, chain): (KeyKind, usize)| v1::KeyRequirement { galois_element: kind.code(), chain: chain as u32 };
        let message = v1::Terms {
            version,
            preset: parameters.name().into(),
            fingerprint: parameters.rlwe().fingerprint().0.to_vec(),
            model_id: model_id.to_vec(),
            keys: key_plan.iter().map(requirement).collect(),
            plan,
            bound,
        };
        Terms { parameters: parameters.clone(), key_plan, message }
    }

    /// Reads terms from untrusted bytes, skipping fields that are not of them, and builds their parameters.
    ///
    /// # Errors
    /// If they are malformed or of another version, name an unknown preset, an insecure one without `accept_insecure`, or
    /// one whose numbers differ in this build, or ask for keys that do not exist or are too many.
    pub fn open(bytes: &[u8], version: u32, accept_insecure: bool) -> Result<Self, ProtocolError> {
        let message: v1::Terms = decode("description", bytes)?;
        if message.version != version {
            let needed = format!("version {version}; update the older side");
            return Err(ProtocolError::mismatch("protocol", format!("version {}", message.version), needed));
        }
        let parameters = Preset::find(&message.preset)?.build()?;
        if parameters.rlwe().is_insecure() && !accept_insecure {
            return Err(ProtocolError::mismatch("preset", &message.preset, "a secure one"));
        }
        if message.fingerprint != parameters.rlwe().fingerprint().0 {
            let (found, needed) = ("other numbers under the same name", "the same release on both sides");
            return Err(ProtocolError::mismatch("preset", found, needed));
        }
        let bounded = message.bound.is_finite() && message.bound >= 0.0;
        if !bounded || message.model_id.len().max(message.plan.len()) > MAX_NAME_BYTES {
            let needed = format!("a finite bound, and names of at most {MAX_NAME_BYTES} bytes");
            return Err(ProtocolError::mismatch("description", format!("bound {}", message.bound), needed));
        }
        let key_plan = requested_keys(&parameters, &message.keys)?;
        Ok(Terms { parameters, key_plan, message })
    }

    /// As bytes for the wire, followed by the fields of the application's own message.
    pub fn to_bytes(&self, own: &impl Message) -> Vec<u8> {
        let mut bytes = self.message.encode_to_vec();
        bytes.extend(own.encode_to_vec());
        bytes
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// Names the numbers of the parameters.
    pub fn fingerprint(&self) -> [u8; 16] {
        self.parameters.rlwe().fingerprint().0
    }

    /// The keys the server needs.
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

    /// No number of an answer is larger.
    pub fn bound(&self) -> f64 {
        self.message.bound
    }

    /// Refuses the keys of a bootstrap unless queries are bootstrapped: with them a service could do more than its
    /// application needs.
    ///
    /// # Errors
    /// If a key has no use.
    pub fn check_use(&self, bootstraps: bool) -> Result<(), ProtocolError> {
        Ok(demands::check_key_kinds(&self.key_plan, bootstraps)?)
    }

    /// Refuses queries that would take a client more memory and time than anybody has use for.
    ///
    /// # Errors
    /// If a query of that many bytes is.
    pub fn check_query_bytes(bytes: usize) -> Result<(), ProtocolError> {
        Ok(demands::check_query_bytes(bytes as u64)?)
    }

    /// A query or an answer of these vectors, as bytes.
    pub fn pack(&self, vectors: Vec<Vec<u8>>) -> Vec<u8> {
        let model_id = self.message.model_id.clone();
        let checksum = checksum(&model_id, &vectors);
        v1::Vectors { model_id, vectors, checksum }.encode_to_vec()
    }

    /// Most bytes [`Terms::pack`] makes of so many vectors of so many bytes in all.
    pub fn packed_bytes(&self, vectors: usize, bytes: usize) -> usize {
        // Each field: a tag and a length of at most ten bytes together.
        bytes + 10 * vectors + self.message.model_id.len() + 64
    }

    /// The vectors of a `what` ("query" or "answer") of at most `most` untrusted bytes.
    ///
    /// # Errors
    /// If it is longer, malformed, damaged, or of another model.
    pub fn unpack(&self, what: &'static str, bytes: &[u8], most: usize) -> Result<Vec<Vec<u8>>, ProtocolError> {
        if bytes.len() > most {
            let found = format!("{} bytes", bytes.len());
            return Err(ProtocolError::mismatch(what, found, format!("at most {most} bytes")));
        }
        let message: v1::Vectors = decode(what, bytes)?;
        if checksum(&message.model_id, &message.vectors) != message.checksum {
            return Err(ProtocolError::mismatch(what, "a wrong checksum", "undamaged bytes; send it again"));
        }
        if message.model_id != self.message.model_id {
            let needed = "this model's; read the description again";
            return Err(ProtocolError::mismatch(what, "one of another model", needed));
        }
        Ok(message.vectors)
    }
}

/// Decodes one protobuf message.
fn decode<M: Message + Default>(what: &'static str, bytes: &[u8]) -> Result<M, ProtocolError> {
    M::decode(bytes).map_err(|error| ProtocolError::mismatch(what, error, "a protobuf message"))
}

/// BLAKE3 of the model's id and of the vectors, one after the other.
fn checksum(model_id: &[u8], vectors: &[Vec<u8>]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(model_id);
    vectors.iter().for_each(|vector| {
        hasher.update(vector);
    });
    hasher.finalize().as_bytes().to_vec()
}

/// The keys a service asks for.
fn requested_keys(parameters: &CkksParameters, keys: &[v1::KeyRequirement]) -> Result<KeyPlan, ProtocolError> {
    if keys.len() > MAX_BUNDLE_KEYS {
        let (found, needed) = (format!("{} keys", keys.len()), format!("at most {MAX_BUNDLE_KEYS}"));
        return Err(Excess::new("key plan", found, needed).into());
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
    demands::check_key_bytes(parameters.rlwe(), &plan)?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: u32 = 7;

    fn terms(preset: &str, key_plan: KeyPlan) -> Terms {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        Terms::new(VERSION, &parameters, &[9; 16], key_plan, "plan".into(), 2.0)
    }

    fn opened(message: &v1::Terms) -> Result<Terms, ProtocolError> {
        Terms::open(&message.encode_to_vec(), VERSION, true)
    }

    #[test]
    fn a_service_gets_no_keys_beyond_its_need() {
        let sound = terms("insecure_n11_boot_depth8_scale50", KeyPlan::new());
        let primes = sound.parameters().rlwe().encapsulation().unwrap().primes as u32;
        let ask = |bootstraps, keys: &[(u64, u32)]| {
            let keys =
                keys.iter().map(|&(galois_element, chain)| v1::KeyRequirement { galois_element, chain }).collect();
            let terms = opened(&v1::Terms { keys, ..sound.message.clone() })?;
            terms.check_use(bootstraps)?;
            Ok::<_, ProtocolError>(terms.key_plan().len())
        };
        assert_eq!(ask(false, &[(0, 5), (5, 3)]).unwrap(), 2);
        assert_eq!(ask(true, &[(4, primes), (6, 40)]).unwrap(), 2);
        for (bootstraps, key) in [
            (false, (4, primes)),    // of a bootstrap
            (false, (6, 40)),        // of a bootstrap
            (true, (2, primes)),     // of other ciphertexts
            (true, (4, primes + 1)), // over more primes than are safe
            (true, (4, 1)),
            (false, (1, 5)), // the identity
            (false, (8, 5)), // nothing
            (false, (5, 0)),
            (false, (5, 1000)),
        ] {
            assert!(ask(bootstraps, &[key]).is_err(), "{bootstraps} {key:?}");
        }
        assert!(ask(false, &vec![(5, 3); MAX_BUNDLE_KEYS + 1]).is_err());
        let error = Terms::check_query_bytes(usize::MAX).unwrap_err().to_string();
        assert!(error.ends_with("do not trust this service"), "{error}");
    }

    #[test]
    fn terms_and_an_applications_fields_lie_in_the_same_bytes() {
        let terms = terms("insecure_n11_depth9_scale50", KeyPlan::new());
        // The tags of one message mean nothing to the other.
        let bytes = terms.to_bytes(&Own { width: 77 });
        assert_eq!(Terms::open(&bytes, VERSION, true).unwrap().message, terms.message);
        assert_eq!(Own::decode(bytes.as_slice()).unwrap().width, 77);
        for (message, part) in [
            (v1::Terms { version: VERSION + 1, ..terms.message.clone() }, "update the older side"),
            (v1::Terms { preset: "n1".into(), ..terms.message.clone() }, "n1"),
            (v1::Terms { fingerprint: vec![0; 16], ..terms.message.clone() }, "same release"),
            (v1::Terms { bound: f64::NAN, ..terms.message.clone() }, "finite"),
            (v1::Terms { model_id: vec![0; 300], ..terms.message.clone() }, "256 bytes"),
        ] {
            let error = opened(&message).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = Terms::open(&bytes, VERSION, false).unwrap_err().to_string();
        assert!(error.contains("a secure one"), "{error}");
    }

    #[derive(Clone, PartialEq, Message)]
    struct Own {
        #[prost(uint32, tag = "5")]
        width: u32,
    }

    #[test]
    fn vectors_are_unpacked_only_whole_and_of_this_model() {
        let ours = terms("insecure_n11_depth9_scale50", KeyPlan::new());
        let theirs = Terms { message: v1::Terms { model_id: vec![8; 16], ..ours.message.clone() }, ..ours.clone() };
        let vectors = vec![vec![1, 2, 3], vec![], vec![4]];
        let packed = ours.pack(vectors.clone());
        assert!(packed.len() <= ours.packed_bytes(3, 4));
        assert_eq!(ours.unpack("query", &packed, packed.len()).unwrap(), vectors);
        assert!(ours.unpack("query", &packed, packed.len() - 1).is_err());
        assert!(theirs.unpack("query", &packed, 1000).unwrap_err().to_string().contains("another model"));
        for position in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[position] ^= 0x11;
            assert!(ours.unpack("query", &damaged, 1000).is_err(), "{position}");
        }
    }
}

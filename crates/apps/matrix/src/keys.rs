//! Serialised evaluation keys.

use std::sync::OnceLock;

use unspoken_rlwe::{EvaluationKeys, KeyBundle, KeyPlan, KeyStorage};

use crate::bytes::{Object, Reader, Writer};
use crate::error::MatrixError;
use crate::preset::BuiltPreset;
use crate::secret_id::SecretId;

/// The evaluation keys of one client, as serialised, and expanded once they are used or were read. They are public:
/// nothing can be decrypted with them.
pub struct Keys {
    pub(crate) preset: BuiltPreset,
    pub(crate) secret_id: SecretId,
    plan: KeyPlan,
    bundle: Vec<u8>,
    expanded: OnceLock<EvaluationKeys>,
}

impl Keys {
    pub(crate) fn new(preset: BuiltPreset, secret_id: SecretId, plan: KeyPlan, bundle: Vec<u8>) -> Self {
        Keys { preset, secret_id, plan, bundle, expanded: OnceLock::new() }
    }

    /// Name of the parameter set.
    pub fn preset(&self) -> &str {
        self.preset.parameters().name()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.plan.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.plan.is_empty()
    }

    /// Length of the serialised keys in bytes.
    pub fn bytes(&self) -> usize {
        self.bundle.len()
    }

    pub(crate) fn expanded(&self) -> Result<&EvaluationKeys, MatrixError> {
        if let Some(keys) = self.expanded.get() {
            return Ok(keys);
        }
        let keys = KeyBundle::read(self.preset.parameters().rlwe(), KeyStorage::Expanded, &mut self.bundle.as_slice())?;
        Ok(self.expanded.get_or_init(|| keys))
    }

    /// Serialises the keys: the identifier of their secret, then a bundle of seeded keys.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(Object::Keys, &self.preset);
        out.rest(&self.secret_id.0);
        out.rest(&self.bundle);
        out.finish()
    }

    /// Reads the output of [`Keys::to_bytes`] and expands the keys; insecure presets only if `accept_insecure`.
    ///
    /// # Errors
    /// [`MatrixError::Decode`], or an error of the bundle, for anything else.
    pub fn from_bytes(bytes: &[u8], accept_insecure: bool) -> Result<Self, MatrixError> {
        let (mut input, preset) = Reader::new(Object::Keys, bytes, accept_insecure)?;
        let secret_id = SecretId::read(&mut input)?;
        let bundle = input.rest();
        let plan = KeyBundle::read_plan(preset.parameters().rlwe(), &mut &*bundle)?;
        let needed = KeyBundle::byte_len(preset.parameters().rlwe(), &plan);
        if bundle.len() as u64 != needed {
            return Err(MatrixError::Decode {
                what: "evaluation keys",
                found: format!("{} bytes of keys", bundle.len()),
                needed: format!("{needed} bytes for the {} keys announced", plan.len()),
            });
        }
        let keys = Keys::new(preset, secret_id, plan, bundle.to_vec());
        keys.expanded()?;
        Ok(keys)
    }
}

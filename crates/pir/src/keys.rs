//! Evaluation keys, by the kind of queries they serve.

use std::fmt;
use std::sync::Arc;

use unspoken_gsw::{
    CircuitBootstrapKey, ConversionKey, LweSwitchKey, SeededBlindRotationKey, SeededConversionKey, SeededLweSwitchKey,
};
use unspoken_ring::{DigitKey, Seed};

use crate::error::PirError;
use crate::parameters::PirParameters;

/// How an index is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// 36 bytes, and the largest keys (Pirouette).
    Compact,
    /// 4 bytes for each bit of the index (Pirouette^H).
    Bits,
    /// Some 13 KB, and keys of a few MB (in the manner of Respire).
    Packed,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Compact => "compact",
            Mode::Bits => "bits",
            Mode::Packed => "packed",
        })
    }
}

/// Keys as they are stored and sent.
#[derive(Debug)]
pub struct SeededKeys {
    pub(crate) parameters: PirParameters,
    pub(crate) conversion: SeededConversionKey,
    /// For bits.
    pub(crate) rotation: Option<SeededBlindRotationKey>,
    /// For compact queries.
    pub(crate) compact: Option<SeededLweSwitchKey>,
    /// From the computation's ring to that of responses, by piece of its secret.
    pub(crate) response: Vec<DigitKey>,
}

impl SeededKeys {
    /// Bytes of all seeds and bodies, packed.
    pub fn bytes(&self) -> usize {
        let (ring, small) = (self.parameters.ring(), self.parameters.response());
        let rotation = self.rotation.as_ref().map_or(0, |key| key.bytes(ring));
        let compact = self.compact.as_ref().map_or(0, SeededLweSwitchKey::bytes);
        let row = small.residue_bytes(self.parameters.response_basis()) + size_of::<Seed>();
        let response: usize = self.response.iter().map(|key| key.components() * key.gadget().levels() * row).sum();
        self.conversion.bytes() + rotation + compact + response
    }

    /// Ready for use. On all threads.
    ///
    /// # Errors
    /// If they belong to other parameters.
    pub fn expand(self) -> Result<PreparedKeys, PirError> {
        let ring = self.parameters.ring();
        let conversion = Arc::new(self.conversion.expand()?);
        let bootstrap = match &self.rotation {
            Some(rotation) => Some(CircuitBootstrapKey::new(rotation.expand(ring)?, Arc::clone(&conversion))),
            None => None,
        };
        let compact = self.compact.as_ref().map(SeededLweSwitchKey::expand);
        Ok(PreparedKeys { parameters: self.parameters, conversion, bootstrap, compact, response: self.response })
    }
}

/// Keys ready for use.
#[derive(Debug)]
pub struct PreparedKeys {
    pub(crate) parameters: PirParameters,
    pub(crate) conversion: Arc<ConversionKey>,
    pub(crate) bootstrap: Option<CircuitBootstrapKey>,
    pub(crate) compact: Option<LweSwitchKey>,
    pub(crate) response: Vec<DigitKey>,
}

impl PreparedKeys {
    /// The kind of queries they serve.
    pub fn mode(&self) -> Mode {
        match (&self.compact, &self.bootstrap) {
            (Some(_), _) => Mode::Compact,
            (None, Some(_)) => Mode::Bits,
            (None, None) => Mode::Packed,
        }
    }
}

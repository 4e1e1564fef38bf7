//! Named parameter sets.

use std::sync::OnceLock;

use unspoken_gsw::{BinaryRingLiteral, BootstrapLiteral, GadgetLiteral, LweLiteral};
use unspoken_ring::modular::primes_descending;

use crate::error::SchemeError;
use crate::parameters::{PirLiteral, PirParameters, ResponseLiteral};

/// A named parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Ring of degree 2^11 and 52 bits; records in pieces of 256 bytes; 128 bits of security.
    N11,
    /// The same with an LWE secret of 64 words, for tests: keys are ten times smaller and bootstraps ten times faster.
    InsecureN11,
}

impl Preset {
    /// All parameter sets.
    pub const ALL: [Preset; 2] = [Preset::N11, Preset::InsecureN11];

    /// The parameter set with a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, SchemeError> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| SchemeError::format("parameter set", name, format!("'{}'", Preset::N11.name())))
    }

    /// Name of the parameter set.
    pub fn name(self) -> &'static str {
        match self {
            Preset::N11 => "n11_pir256",
            Preset::InsecureN11 => "insecure_n11_pir256",
        }
    }

    /// Builds the parameters on first use. Later calls return the same object, so that everything made with it is
    /// compatible.
    ///
    /// # Errors
    /// If a check fails. Tests ensure that none does.
    pub fn build(self) -> Result<PirParameters, SchemeError> {
        static BUILT: [OnceLock<PirParameters>; 2] = [const { OnceLock::new() }; 2];
        let built = &BUILT[usize::from(self == Preset::InsecureN11)];
        if let Some(parameters) = built.get() {
            return Ok(parameters.clone());
        }
        let parameters = self.parameters()?;
        Ok(built.get_or_init(|| parameters).clone())
    }

    fn parameters(self) -> Result<PirParameters, SchemeError> {
        PirParameters::new(self.literal())
    }

    /// The numbers of the parameter set.
    pub fn literal(self) -> PirLiteral {
        let (name, degree) = (self.name(), 2048);
        let small = self == Preset::InsecureN11;
        PirLiteral {
            bootstrap: BootstrapLiteral {
                ring: BinaryRingLiteral {
                    name,
                    degree,
                    primes: primes_descending(1 << 25, 1 << 26, 2 * degree as u32).take(2).collect(),
                },
                lwe: LweLiteral { dimension: if small { 64 } else { 768 }, error_terms: 15 },
                rotation: GadgetLiteral { log2_base: 9, levels: 5 },
                trace: GadgetLiteral { log2_base: 3, levels: 16 },
                output: GadgetLiteral { log2_base: 4, levels: 7 },
            },
            compact: LweLiteral { dimension: degree, error_terms: 1 },
            compact_switch: GadgetLiteral { log2_base: 1, levels: 14 },
            response: ResponseLiteral {
                degree: 512,
                prime: 16_760_833,
                gadget: GadgetLiteral { log2_base: 1, levels: 24 },
                body_bits: 7,
            },
            selection: GadgetLiteral { log2_base: 9, levels: 2 },
            plaintext_bits: 4,
            row_bits: 6,
            bit_body_bits: 5,
        }
    }
}

//! Evaluation keys, by the kind of queries they serve.

use std::io::{Read, Write};
use std::sync::Arc;

use unspoken_gsw::{
    BlindRotationKey, CircuitBootstrapKey, ConversionKey, GswError, LweSwitchKey, SeededBlindRotationKey,
    SeededConversionKey, SeededLweSwitchKey, SeededRows,
};
use unspoken_ring::{DigitKey, Seed};

use crate::error::SchemeError;
use crate::mode::Mode;
use crate::parameters::PirParameters;

/// Version of the key format.
pub const KEY_FORMAT: u32 = 1;

/// First bytes of a stream of keys.
const MAGIC: [u8; 8] = *b"UNSPKPIR";

/// Evaluation keys as they are stored and sent: seeds instead of random parts.
#[derive(Debug)]
pub struct SeededKeys {
    pub(crate) parameters: PirParameters,
    pub(crate) mode: Mode,
    /// Seed of the masks of session queries.
    pub(crate) session: Seed,
    pub(crate) conversion: SeededConversionKey,
    /// Key for bootstrapping bits.
    pub(crate) rotation: Option<SeededBlindRotationKey>,
    /// Key for compact and session queries.
    pub(crate) compact: Option<SeededLweSwitchKey>,
    /// Keys of the switch from the computation's ring to the ring of responses, one for each part of the secret.
    pub(crate) response: Vec<SeededRows>,
}

impl SeededKeys {
    /// Bytes of the keys for a mode.
    pub fn byte_len(parameters: &PirParameters, mode: Mode) -> u64 {
        let (bootstrap, literal) = (parameters.bootstrap(), parameters.literal());
        let (bits, compact) = mode.keys();
        let rotation =
            SeededBlindRotationKey::byte_len(bootstrap.ring(), bootstrap.rotation(), bootstrap.lwe().dimension);
        let switch = SeededLweSwitchKey::byte_len(literal.compact.dimension, literal.compact_switch);
        let response = SeededRows::byte_len(parameters.response(), parameters.response_gadget().levels());
        let optional = |is: bool, bytes: u64| if is { bytes } else { 0 };
        KeyHeader::BYTES as u64
            + SeededConversionKey::byte_len(bootstrap)
            + optional(bits, rotation)
            + optional(compact, switch)
            + response * parameters.pieces() as u64
    }

    /// Writes the keys: a header, then the keys one after the other.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, out: &mut impl Write) -> Result<(), SchemeError> {
        let front = KeyHeader { mode: self.mode, session: self.session };
        out.write_all(&front.to_bytes(&self.parameters)).map_err(GswError::from)?;
        self.conversion.write(out)?;
        if let Some(rotation) = &self.rotation {
            rotation.write(self.parameters.ring(), out)?;
        }
        if let Some(compact) = &self.compact {
            compact.write(out)?;
        }
        Ok(self.response.iter().try_for_each(|rows| rows.write(self.parameters.response(), out))?)
    }

    /// Expands the seeds and prepares the keys for computation. Uses all threads.
    ///
    /// # Errors
    /// If the keys are for other parameters.
    pub fn expand(&self) -> Result<PreparedKeys, SchemeError> {
        let (ring, small) = (self.parameters.ring(), self.parameters.response());
        let conversion = Arc::new(self.conversion.expand()?);
        let bootstrap = match &self.rotation {
            Some(rotation) => Some(CircuitBootstrapKey::new(rotation.expand(ring)?, Arc::clone(&conversion))),
            None => None,
        };
        let compact = self.compact.as_ref().map(SeededLweSwitchKey::expand);
        let response = self.response.iter().map(|rows| rows.expand(small)).collect::<Result<_, _>>()?;
        let (parameters, mode) = (self.parameters.clone(), self.mode);
        Ok(PreparedKeys { parameters, mode, session: self.session, conversion, bootstrap, compact, response })
    }
}

/// Header of a stream of keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyHeader {
    mode: Mode,
    session: Seed,
}

impl KeyHeader {
    /// Bytes of the header: magic number, format version, fingerprint of the parameters, mode, seed of session queries.
    pub const BYTES: usize = 8 + 4 + 16 + 4 + 32;

    fn to_bytes(self, parameters: &PirParameters) -> Vec<u8> {
        let mode = [self.mode.code(), 0, 0, 0];
        [&MAGIC[..], &KEY_FORMAT.to_le_bytes(), &parameters.fingerprint(), &mode, &self.session.0].concat()
    }

    /// Reads the header from untrusted bytes.
    ///
    /// # Errors
    /// If there are too few bytes, the magic number is wrong, or the version, parameters or mode are other ones.
    pub fn read(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, SchemeError> {
        const WHAT: &str = "keys";
        let short = || SchemeError::format(WHAT, format!("{} bytes", bytes.len()), "at least 64 bytes");
        let (magic, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (version, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (fingerprint, rest) = rest.split_first_chunk::<16>().ok_or_else(short)?;
        let (mode, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let session = Seed(*rest.first_chunk().ok_or_else(short)?);
        if *magic != MAGIC {
            return Err(SchemeError::format(WHAT, "other bytes", "keys of private retrieval"));
        }
        let version = u32::from_le_bytes(*version);
        if version != KEY_FORMAT {
            let (found, needed) = (format!("format {version}"), format!("format {KEY_FORMAT}; update the older side"));
            return Err(SchemeError::format(WHAT, found, needed));
        }
        if *fingerprint != parameters.fingerprint() {
            return Err(SchemeError::OtherParameters { needed: parameters.name() });
        }
        let unknown = || SchemeError::format(WHAT, format!("kind {mode:?}"), "keys of a kind that this release knows");
        let found = Mode::ALL.into_iter().find(|known| [known.code(), 0, 0, 0] == *mode).ok_or_else(unknown)?;
        Ok(KeyHeader { mode: found, session })
    }

    /// The kind of queries.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// Evaluation keys, expanded for computation.
#[derive(Debug)]
pub struct PreparedKeys {
    pub(crate) parameters: PirParameters,
    pub(crate) mode: Mode,
    pub(crate) session: Seed,
    pub(crate) conversion: Arc<ConversionKey>,
    pub(crate) bootstrap: Option<CircuitBootstrapKey>,
    pub(crate) compact: Option<LweSwitchKey>,
    pub(crate) response: Vec<DigitKey>,
}

impl PreparedKeys {
    /// Reads keys written by [`SeededKeys::write`] from an untrusted source and expands them while reading.
    ///
    /// # Errors
    /// As for [`KeyHeader::read`], or if reading fails or a residue is not below its prime.
    pub fn read(parameters: &PirParameters, input: &mut impl Read) -> Result<Self, SchemeError> {
        let mut front = [0; KeyHeader::BYTES];
        input.read_exact(&mut front).map_err(GswError::from)?;
        let KeyHeader { mode, session } = KeyHeader::read(parameters, &front)?;
        let (bits, compact) = mode.keys();
        let (literal, set) = (parameters.literal(), parameters.bootstrap());
        let conversion = Arc::new(ConversionKey::read(set, input)?);
        let bootstrap = match bits {
            true => {
                let rotation = BlindRotationKey::read(set.ring(), set.rotation(), set.lwe().dimension, input)?;
                Some(CircuitBootstrapKey::new(rotation, Arc::clone(&conversion)))
            }
            false => None,
        };
        let compact = match compact {
            true => Some(LweSwitchKey::read((literal.compact.dimension, set.lwe()), literal.compact_switch, input)?),
            false => None,
        };
        let row = |_| {
            SeededRows::read(parameters.response(), parameters.response_gadget(), 1, input)?
                .expand(parameters.response())
        };
        let response = (0..parameters.pieces()).map(row).collect::<Result<_, _>>()?;
        let parameters = parameters.clone();
        Ok(PreparedKeys { parameters, mode, session, conversion, bootstrap, compact, response })
    }

    /// Bytes of memory that expanded keys for a mode need.
    pub fn memory_bytes(parameters: &PirParameters, mode: Mode) -> u64 {
        let (bits, compact) = mode.keys();
        let (set, literal) = (parameters.bootstrap(), parameters.literal());
        let lwe = set.lwe().dimension;
        // Every row of a key is a pair of polynomials.
        let pair = 2 * parameters.ring().poly_bytes(parameters.ring().basis());
        let rows = (parameters.ring().degree().trailing_zeros() as usize + 1) * set.trace().levels()
            + if bits { 2 * lwe * set.rotation().levels() } else { 0 };
        let switch =
            if compact { literal.compact.dimension * literal.compact_switch.levels * (lwe + 1) * 4 } else { 0 };
        let small = 2 * parameters.response().poly_bytes(parameters.response_basis());
        let response = parameters.pieces() * parameters.response_gadget().levels() * small;
        (rows * pair + switch + response) as u64
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// Seed of the masks of session queries; the same for all keys of a secret.
    pub fn session_seed(&self) -> &Seed {
        &self.session
    }

    /// Mode of queries that the keys are for.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

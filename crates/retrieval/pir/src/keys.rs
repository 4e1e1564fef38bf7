//! Evaluation keys, by the kind of queries they serve.

use std::io::{Read, Write};
use std::sync::Arc;

use unspoken_gsw::{
    BlindRotationKey, CircuitBootstrapKey, ConversionKey, GswError, LweSwitchKey, SeededBlindRotationKey,
    SeededConversionKey, SeededLweSwitchKey, SeededRows,
};
use unspoken_ring::{DigitKey, Seed};

use crate::error::PirError;
use crate::mode::Mode;
use crate::parameters::PirParameters;

/// Version of the key format.
pub const KEY_FORMAT: u32 = 1;

/// What a stream of keys begins with.
const MAGIC: [u8; 8] = *b"UNSPKPIR";

/// Keys as they are stored and sent.
#[derive(Debug)]
pub struct SeededKeys {
    pub(crate) parameters: PirParameters,
    pub(crate) mode: Mode,
    /// Of the masks of session queries.
    pub(crate) session: Seed,
    pub(crate) conversion: SeededConversionKey,
    /// For bits.
    pub(crate) rotation: Option<SeededBlindRotationKey>,
    /// For compact queries.
    pub(crate) compact: Option<SeededLweSwitchKey>,
    /// From the computation's ring to that of responses, by piece of its secret.
    pub(crate) response: Vec<SeededRows>,
}

impl SeededKeys {
    /// Bytes of keys for a kind of queries.
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

    /// Writes the keys: a front that says what they are for, then one after the other.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, out: &mut impl Write) -> Result<(), PirError> {
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

    /// Ready for use. On all threads.
    ///
    /// # Errors
    /// If they belong to other parameters.
    pub fn expand(&self) -> Result<PreparedKeys, PirError> {
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

/// The front of a stream of keys: what they are for.
#[derive(Clone, Copy, Debug)]
pub struct KeyHeader {
    mode: Mode,
    session: Seed,
}

impl KeyHeader {
    /// Its bytes: what the stream is, its version, the parameters, the kind of queries, the seed of session queries.
    pub const BYTES: usize = 8 + 4 + 16 + 4 + 32;

    fn to_bytes(self, parameters: &PirParameters) -> Vec<u8> {
        let mode = [self.mode.code(), 0, 0, 0];
        [&MAGIC[..], &KEY_FORMAT.to_le_bytes(), &parameters.fingerprint(), &mode, &self.session.0].concat()
    }

    /// Reads the front from untrusted bytes.
    ///
    /// # Errors
    /// If there are fewer bytes, or they are no keys, of another version, other parameters or another kind.
    pub fn read(parameters: &PirParameters, bytes: &[u8]) -> Result<Self, PirError> {
        const WHAT: &str = "keys";
        let short = || PirError::format(WHAT, format!("{} bytes", bytes.len()), "at least 64 bytes");
        let (magic, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (version, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (fingerprint, rest) = rest.split_first_chunk::<16>().ok_or_else(short)?;
        let (mode, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let session = Seed(*rest.first_chunk().ok_or_else(short)?);
        if *magic != MAGIC {
            return Err(PirError::format(WHAT, "other bytes", "keys of private retrieval"));
        }
        let version = u32::from_le_bytes(*version);
        if version != KEY_FORMAT {
            let (found, needed) = (format!("format {version}"), format!("format {KEY_FORMAT}; update the older side"));
            return Err(PirError::format(WHAT, found, needed));
        }
        if *fingerprint != parameters.fingerprint() {
            return Err(PirError::OtherParameters { needed: parameters.name() });
        }
        let unknown = || PirError::format(WHAT, format!("kind {mode:?}"), "keys of a kind that this release knows");
        let found = Mode::ALL.into_iter().find(|known| [known.code(), 0, 0, 0] == *mode).ok_or_else(unknown)?;
        Ok(KeyHeader { mode: found, session })
    }

    /// The kind of queries.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// Keys ready for use.
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
    /// Reads what [`SeededKeys::write`] wrote, from untrusted bytes, and expands it as it comes.
    ///
    /// # Errors
    /// As for [`KeyHeader::read`], or if reading fails or a residue is not below its prime.
    pub fn read(parameters: &PirParameters, input: &mut impl Read) -> Result<Self, PirError> {
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

    /// Bytes of memory keys for a kind of queries take.
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

    /// What the masks of session queries come from; the same for all keys of a secret.
    pub fn session_seed(&self) -> &Seed {
        &self.session
    }

    /// The kind of queries they serve.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

//! Serialisation of ciphertexts and keys: versioned, bounded, and checked as untrusted input.
//!
//! Every object begins with a header of 24 bytes: the magic `uspk`, the format version (u16), the kind of object (u8),
//! a zero byte, and the fingerprint of its parameters (16 bytes). Numbers are little-endian. Polynomials follow as
//! packed residues in the evaluation domain (Montgomery form, bit-reversed order), each residue with the bits of its
//! prime. Polynomials of sparse ciphertexts are in the coefficient domain (plain residues, in the order of their
//! places). All lengths follow from the header, so untrusted data cannot cause large allocations.

use unspoken_ring::{Basis, Domain, Poly, Seed};

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::error::RlweError;
use crate::parameters::Parameters;
use crate::rounded::RoundedCiphertext;

/// Version of all formats in this module.
pub const FORMAT_VERSION: u16 = 1;

/// Bytes of the header at the beginning of every object.
pub const HEADER_BYTES: usize = 24;

const MAGIC: [u8; 4] = *b"uspk";
/// Bits of the number of chain primes in the field of a basis.
const CHAIN_BITS: u32 = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    Ciphertext = 1,
    SeededCiphertext = 2,
    KeyBundle = 3,
    PublicKey = 4,
    SmallRingKeys = 5,
    SparseCiphertext = 6,
    RoundedCiphertext = 7,
}

impl Object {
    fn name(self) -> &'static str {
        match self {
            Object::Ciphertext => "a ciphertext",
            Object::SeededCiphertext => "a seeded ciphertext",
            Object::KeyBundle => "a key bundle",
            Object::PublicKey => "a public key",
            Object::SmallRingKeys => "keys of a small ring",
            Object::SparseCiphertext => "a sparse ciphertext",
            Object::RoundedCiphertext => "a rounded ciphertext",
        }
    }
}

pub(crate) fn refuse(object: Object, found: impl ToString, needed: impl ToString) -> RlweError {
    RlweError::Decode { what: object.name(), found: found.to_string(), needed: needed.to_string() }
}

pub(crate) fn write_header(parameters: &Parameters, object: Object, bytes: &mut Vec<u8>) {
    bytes.extend(MAGIC);
    bytes.extend(FORMAT_VERSION.to_le_bytes());
    bytes.extend([object as u8, 0]);
    bytes.extend(parameters.fingerprint().0);
}

fn write_seeded_header(parameters: &Parameters, basis: Basis, bytes: &mut Vec<u8>) {
    write_header(parameters, Object::SeededCiphertext, bytes);
    bytes.extend(basis_field(basis).to_le_bytes());
}

fn write_full_header(parameters: &Parameters, basis: Basis, components: usize, bytes: &mut Vec<u8>) {
    write_header(parameters, Object::Ciphertext, bytes);
    bytes.extend(basis_field(basis).to_le_bytes());
    bytes.push(components as u8);
}

/// A basis in 16 bits: twelve for the number of chain primes, the upper four for the number of terminal primes.
fn basis_field(basis: Basis) -> u16 {
    (basis.chain | basis.terminal << CHAIN_BITS) as u16
}

/// The bytes that begin every serialised fresh encryption over a basis, seeded or full: all that is public in one.
pub(crate) fn fresh_header(parameters: &Parameters, basis: Basis, seeded: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    match seeded {
        true => write_seeded_header(parameters, basis, &mut bytes),
        false => write_full_header(parameters, basis, 2, &mut bytes),
    }
    bytes
}

/// Checks the header of `bytes` and returns the rest.
pub(crate) fn read_header<'a>(parameters: &Parameters, object: Object, bytes: &'a [u8]) -> Result<&'a [u8], RlweError> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(refuse(object, format!("{} bytes", bytes.len()), format!("at least {HEADER_BYTES} bytes")));
    };
    if header[..4] != MAGIC {
        return Err(refuse(object, "another kind of file", "one that begins with 'uspk'"));
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != FORMAT_VERSION {
        let needed = format!("version {FORMAT_VERSION}; update the older side");
        return Err(refuse(object, format!("format version {version}"), needed));
    }
    if header[6] != object as u8 || header[7] != 0 {
        return Err(refuse(object, format!("object kind {}", header[6]), format!("kind {}", object as u8)));
    }
    if header[8..] != parameters.fingerprint().0 {
        let needed = format!("those of preset '{}'", parameters.name());
        return Err(refuse(object, "data made with other parameters", needed));
    }
    Ok(rest)
}

pub(crate) fn take<'a>(object: Object, bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], RlweError> {
    let Some((head, tail)) = bytes.split_at_checked(len) else {
        return Err(refuse(object, format!("{} bytes left", bytes.len()), format!("{len} more bytes")));
    };
    *bytes = tail;
    Ok(head)
}

pub(crate) fn finish(object: Object, rest: &[u8]) -> Result<(), RlweError> {
    if rest.is_empty() { Ok(()) } else { Err(refuse(object, format!("{} surplus bytes", rest.len()), "the end")) }
}

pub(crate) fn read_basis(parameters: &Parameters, object: Object, bytes: &mut &[u8]) -> Result<Basis, RlweError> {
    let field = take(object, bytes, 2)?;
    let field = usize::from(u16::from_le_bytes([field[0], field[1]]));
    let chain = check_chain(parameters, object, field % (1 << CHAIN_BITS))?;
    let (terminal, all) = (field >> CHAIN_BITS, parameters.ring().terminal().len());
    if terminal > all {
        return Err(refuse(object, format!("{terminal} terminal primes"), format!("0 to {all}")));
    }
    Ok(Basis::chain(chain).with_terminal(terminal))
}

pub(crate) fn check_chain(parameters: &Parameters, object: Object, chain: usize) -> Result<usize, RlweError> {
    let all = parameters.ring().chain().len();
    if (1..=all).contains(&chain) {
        Ok(chain)
    } else {
        Err(refuse(object, format!("{chain} chain primes"), format!("1 to {all}")))
    }
}

pub(crate) fn read_poly(
    parameters: &Parameters,
    object: Object,
    bytes: &mut &[u8],
    basis: Basis,
) -> Result<Poly, RlweError> {
    let packed = take(object, bytes, parameters.ring().residue_bytes(basis))?;
    Ok(parameters.ring().read_residues(packed, basis, Domain::Evaluation)?)
}

impl Ciphertext {
    /// Bytes of a ciphertext of two components.
    pub fn byte_len(parameters: &Parameters, basis: Basis) -> usize {
        HEADER_BYTES + 3 + 2 * parameters.ring().residue_bytes(basis)
    }

    /// Serialises: header, numbers of chain primes (12 bits) and terminal primes (4 bits), components (u8), residues.
    pub fn to_bytes(&self, parameters: &Parameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(parameters, self.basis()));
        write_full_header(parameters, self.basis(), self.components.len(), &mut bytes);
        for component in &self.components {
            parameters.ring().write_residues(component, &mut bytes);
        }
        bytes
    }

    /// Reads the output of [`Ciphertext::to_bytes`].
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes are not exactly one such object with these parameters.
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, RlweError> {
        let object = Object::Ciphertext;
        let mut rest = read_header(parameters, object, bytes)?;
        let basis = read_basis(parameters, object, &mut rest)?;
        let count = take(object, &mut rest, 1)?[0];
        if !(2..=3).contains(&count) {
            return Err(refuse(object, format!("{count} components"), "2 or 3"));
        }
        let read = |_| read_poly(parameters, object, &mut rest, basis);
        let components = (0..count).map(read).collect::<Result<_, _>>()?;
        finish(object, rest)?;
        Ok(Ciphertext { components })
    }
}

impl SeededCiphertext {
    /// Bytes of a seeded ciphertext.
    pub fn byte_len(parameters: &Parameters, basis: Basis) -> usize {
        HEADER_BYTES + 2 + 32 + parameters.ring().residue_bytes(basis)
    }

    /// Whether bytes begin like a seeded ciphertext; [`SeededCiphertext::from_bytes`] checks the rest.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC) && bytes.get(6) == Some(&(Object::SeededCiphertext as u8))
    }

    /// Serialises: header, numbers of chain primes (12 bits) and terminal primes (4 bits), seed (32 bytes), residues of
    /// the first component.
    pub fn to_bytes(&self, parameters: &Parameters) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(parameters, &mut bytes);
        bytes
    }

    /// As [`SeededCiphertext::to_bytes`], appended to `bytes`.
    pub fn append_to(&self, parameters: &Parameters, bytes: &mut Vec<u8>) {
        bytes.reserve(Self::byte_len(parameters, self.basis()));
        write_seeded_header(parameters, self.basis(), bytes);
        bytes.extend(self.seed.0);
        parameters.ring().write_residues(&self.body, bytes);
    }

    /// Reads the output of [`SeededCiphertext::to_bytes`].
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes are not exactly one such object with these parameters.
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, RlweError> {
        let object = Object::SeededCiphertext;
        let mut rest = read_header(parameters, object, bytes)?;
        let basis = read_basis(parameters, object, &mut rest)?;
        let seed = read_seed(take(object, &mut rest, 32)?);
        let body = read_poly(parameters, object, &mut rest, basis)?;
        finish(object, rest)?;
        Ok(SeededCiphertext { seed, body })
    }
}

/// The sparse form: for messages whose coefficients are zero but at known places. Only the coefficients of the body at
/// these places are sent. The receiver sets the other coefficients to zero, so nobody chose the message at the other
/// places. Use this form only where those places are removed, by a trace for instance.
impl SeededCiphertext {
    /// Bytes of the sparse form with `count` coefficients.
    pub fn sparse_byte_len(parameters: &Parameters, basis: Basis, count: usize) -> usize {
        HEADER_BYTES + 2 + 32 + parameters.ring().some_residue_bytes(basis, count)
    }

    /// Whether bytes begin like the sparse form; [`SeededCiphertext::sparse_from_bytes`] checks the rest.
    pub fn begins_sparse(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC) && bytes.get(6) == Some(&(Object::SparseCiphertext as u8))
    }

    /// Serialises: header, basis (as in [`SeededCiphertext::to_bytes`]), seed (32 bytes), residues of the coefficients
    /// of the first component at `places`.
    ///
    /// # Errors
    /// If a place is not below the degree, or the ciphertext belongs to other parameters.
    pub fn sparse_to_bytes(&self, parameters: &Parameters, places: &[usize]) -> Result<Vec<u8>, RlweError> {
        let mut bytes = Vec::with_capacity(Self::sparse_byte_len(parameters, self.basis(), places.len()));
        write_header(parameters, Object::SparseCiphertext, &mut bytes);
        bytes.extend(basis_field(self.basis()).to_le_bytes());
        bytes.extend(self.seed.0);
        let mut body = self.body.clone();
        parameters.ring().to_coefficients(&mut body)?;
        parameters.ring().write_some_residues(&body, places, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the output of [`SeededCiphertext::sparse_to_bytes`] for the same places.
    ///
    /// # Errors
    /// If a place is not below the degree; [`RlweError::Decode`] if the bytes are not exactly one such object with
    /// these parameters, or a residue is not below its prime.
    pub fn sparse_from_bytes(parameters: &Parameters, places: &[usize], bytes: &[u8]) -> Result<Self, RlweError> {
        let (object, ring) = (Object::SparseCiphertext, parameters.ring());
        let mut rest = read_header(parameters, object, bytes)?;
        let basis = read_basis(parameters, object, &mut rest)?;
        let seed = read_seed(take(object, &mut rest, 32)?);
        let packed = take(object, &mut rest, ring.some_residue_bytes(basis, places.len()))?;
        finish(object, rest)?;
        let mut body = ring.read_some_residues(packed, places, basis)?;
        ring.to_evaluation(&mut body)?;
        Ok(SeededCiphertext { seed, body })
    }
}

impl RoundedCiphertext {
    /// Bytes with `bits` bits for a coefficient, and `places` coefficients of the body.
    pub fn byte_len(parameters: &Parameters, bits: u32, places: usize) -> usize {
        HEADER_BYTES + 1 + (places + Self::mask_len(parameters.ring())) * bits as usize / 8
    }

    /// Serialises: header, number of bits (u8), the coefficients of the body, then the coefficients of the mask, each
    /// as bytes, the least significant first.
    pub fn to_bytes(&self, parameters: &Parameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(parameters, self.bits, self.len()));
        write_header(parameters, Object::RoundedCiphertext, &mut bytes);
        bytes.push(self.bits as u8);
        for coefficient in self.body.iter().chain(&self.mask) {
            bytes.extend_from_slice(&coefficient.to_le_bytes()[..self.bits as usize / 8]);
        }
        bytes
    }

    /// Reads the output of [`RoundedCiphertext::to_bytes`] with `places` coefficients of the body.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes are not exactly one such object with these parameters.
    pub fn from_bytes(parameters: &Parameters, places: usize, bytes: &[u8]) -> Result<Self, RlweError> {
        let object = Object::RoundedCiphertext;
        let mut rest = read_header(parameters, object, bytes)?;
        let bits = u32::from(take(object, &mut rest, 1)?[0]);
        let most = Self::mask_len(parameters.ring());
        if !Self::possible(bits) || places > most {
            let found = format!("{bits} bits and {places} coefficients");
            let needed = format!("8, 16 or more bits up to {}, at most {most} coefficients", Self::MAX_BITS);
            return Err(refuse(object, found, needed));
        }
        let mut read = |count: usize| {
            let packed = take(object, &mut rest, count * bits as usize / 8)?;
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            Ok::<Vec<u64>, RlweError>(packed.chunks_exact(bits as usize / 8).map(word).collect())
        };
        let (body, mask) = (read(places)?, read(most)?);
        finish(object, rest)?;
        Ok(RoundedCiphertext { bits, body, mask })
    }
}

pub(crate) fn read_seed(bytes: &[u8]) -> Seed {
    let mut seed = [0; 32];
    seed.copy_from_slice(bytes);
    Seed(seed)
}

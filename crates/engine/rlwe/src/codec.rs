//! Serialisation of ciphertexts and keys: versioned, bounded, and checked as untrusted input.
//!
//! Every object begins with a header of 24 bytes: the magic `uspk`, the format version (u16), the kind of object (u8),
//! a zero byte, and the fingerprint of its parameters (16 bytes). Numbers are little-endian. Polynomials follow as
//! packed residues in the evaluation domain (Montgomery form, bit-reversed order), each residue with the bits of its
//! prime. Polynomials of sparse ciphertexts are in the coefficient domain (plain residues, in the order of their
//! places). All lengths follow from the header, so untrusted data cannot cause large allocations.

use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;

use unspoken_ring::{Basis, Domain, Poly, Ring, SecretRng, Seed};

use crate::ciphertext::{Ciphertext, SeededCiphertext};
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_plan::{KeyPlan, KeyStorage, generate_keys};
use crate::keys::{KeyKind, SecretKey, SeededSwitchingKey};
use crate::parameters::Parameters;
use crate::public::PublicKey;
use crate::rounded::RoundedCiphertext;
use crate::small_ring::SmallRing;
use crate::small_ring_keys::SeededSmallRingKeys;

/// Version of all formats in this module.
pub const FORMAT_VERSION: u16 = 1;

/// Bytes of the header at the beginning of every object.
pub const HEADER_BYTES: usize = 24;

/// Largest number of keys in one bundle.
pub const MAX_BUNDLE_KEYS: usize = 4096;

const MAGIC: [u8; 4] = *b"uspk";
const DESCRIPTOR_BYTES: usize = 12;

/// Bits of the number of chain primes in the field of a basis.
const CHAIN_BITS: u32 = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Object {
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

fn refuse(object: Object, found: impl ToString, needed: impl ToString) -> RlweError {
    RlweError::Decode { what: object.name(), found: found.to_string(), needed: needed.to_string() }
}

fn write_header(parameters: &Parameters, object: Object, bytes: &mut Vec<u8>) {
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
fn read_header<'a>(parameters: &Parameters, object: Object, bytes: &'a [u8]) -> Result<&'a [u8], RlweError> {
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

fn take<'a>(object: Object, bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], RlweError> {
    let Some((head, tail)) = bytes.split_at_checked(len) else {
        return Err(refuse(object, format!("{} bytes left", bytes.len()), format!("{len} more bytes")));
    };
    *bytes = tail;
    Ok(head)
}

fn finish(object: Object, rest: &[u8]) -> Result<(), RlweError> {
    if rest.is_empty() { Ok(()) } else { Err(refuse(object, format!("{} surplus bytes", rest.len()), "the end")) }
}

fn read_basis(parameters: &Parameters, object: Object, bytes: &mut &[u8]) -> Result<Basis, RlweError> {
    let field = take(object, bytes, 2)?;
    let field = usize::from(u16::from_le_bytes([field[0], field[1]]));
    let chain = check_chain(parameters, object, field % (1 << CHAIN_BITS))?;
    let (terminal, all) = (field >> CHAIN_BITS, parameters.ring().terminal().len());
    if terminal > all {
        return Err(refuse(object, format!("{terminal} terminal primes"), format!("0 to {all}")));
    }
    Ok(Basis::chain(chain).with_terminal(terminal))
}

fn check_chain(parameters: &Parameters, object: Object, chain: usize) -> Result<usize, RlweError> {
    let all = parameters.ring().chain().len();
    if (1..=all).contains(&chain) {
        Ok(chain)
    } else {
        Err(refuse(object, format!("{chain} chain primes"), format!("1 to {all}")))
    }
}

fn read_poly(parameters: &Parameters, object: Object, bytes: &mut &[u8], basis: Basis) -> Result<Poly, RlweError> {
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

impl PublicKey {
    /// Bytes of a public key.
    pub fn byte_len(parameters: &Parameters) -> usize {
        HEADER_BYTES + 32 + parameters.ring().residue_bytes(Self::basis(parameters))
    }

    /// Serialises: header, seed (32 bytes), residues of the first component.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(self.parameters()));
        write_header(self.parameters(), Object::PublicKey, &mut bytes);
        bytes.extend(self.seed.0);
        self.parameters().ring().write_residues(&self.body, &mut bytes);
        bytes
    }

    /// Reads the output of [`PublicKey::to_bytes`] and expands the key. The bytes do not authenticate the owner of the
    /// key: the caller must get them from a trusted source.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes are not exactly one such object with these parameters.
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, RlweError> {
        let object = Object::PublicKey;
        let mut rest = read_header(parameters, object, bytes)?;
        let seed = read_seed(take(object, &mut rest, 32)?);
        let body = read_poly(parameters, object, &mut rest, Self::basis(parameters))?;
        finish(object, rest)?;
        Ok(PublicKey::from_parts(parameters, seed, body))
    }
}

impl SeededSmallRingKeys {
    /// Bytes of the keys of a small ring.
    pub fn byte_len(ring: &SmallRing) -> usize {
        let [wide, small] =
            [&ring.wide, ring.small.ring()].map(|ring| ring.digit_count(chain_of(ring)) * row_len(ring));
        let up = ring.main.ring().residue_bytes(ring.up_basis());
        HEADER_BYTES + 8 + 32 + wide + ring.rank() * small + up
    }

    /// Serialises: header with the parameters of the large ring, degree of the small ring (u32), length of rows (u32),
    /// seed (32 bytes), residues of the keys from the main secret, from the parts of the secret, to the sparse secret.
    pub fn to_bytes(&self, ring: &SmallRing) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(ring));
        write_header(&ring.main, Object::SmallRingKeys, &mut bytes);
        bytes.extend(small_ring_shape(ring));
        bytes.extend(self.seed.0);
        self.down.iter().for_each(|body| ring.wide.write_residues(body, &mut bytes));
        self.parts.iter().flatten().for_each(|body| ring.small.ring().write_residues(body, &mut bytes));
        ring.main.ring().write_residues(&self.up, &mut bytes);
        bytes
    }

    /// Reads the output of [`SeededSmallRingKeys::to_bytes`].
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bytes are not exactly one such object for this ring, [`RlweError::Ring`] if a
    /// residue is not below its prime.
    pub fn from_bytes(ring: &SmallRing, bytes: &[u8]) -> Result<Self, RlweError> {
        let object = Object::SmallRingKeys;
        let mut rest = read_header(&ring.main, object, bytes)?;
        if take(object, &mut rest, 8)? != small_ring_shape(ring).as_slice() {
            let needed = format!("degree {} with rows of {}", ring.small.ring().degree(), ring.row_len());
            return Err(refuse(object, "another degree or another length of rows", needed));
        }
        let seed = read_seed(take(object, &mut rest, 32)?);
        let down = read_rows(object, &ring.wide, &mut rest)?;
        let parts = (0..ring.rank()).map(|_| read_rows(object, ring.small.ring(), &mut rest));
        let parts = parts.collect::<Result<_, _>>()?;
        let up = read_poly(&ring.main, object, &mut rest, ring.up_basis())?;
        finish(object, rest)?;
        Ok(SeededSmallRingKeys { seed, down, parts, up })
    }
}

/// Degree of the small ring and length of its rows.
fn small_ring_shape(ring: &SmallRing) -> [u8; 8] {
    let [degree, row_len] = [ring.small.ring().degree(), ring.row_len()].map(|number| (number as u32).to_le_bytes());
    let mut shape = [0; 8];
    shape[..4].copy_from_slice(&degree);
    shape[4..].copy_from_slice(&row_len);
    shape
}

fn chain_of(ring: &Ring) -> usize {
    ring.chain().len()
}

/// Bytes of a row of a gadget key over all primes of a ring.
fn row_len(ring: &Ring) -> usize {
    ring.residue_bytes(ring.gadget_key_basis(chain_of(ring)))
}

/// The rows of a gadget key over all primes of a ring.
fn read_rows(object: Object, ring: &Ring, bytes: &mut &[u8]) -> Result<Vec<Poly>, RlweError> {
    let basis = ring.gadget_key_basis(chain_of(ring));
    let row = |_| Ok(ring.read_residues(take(object, bytes, row_len(ring))?, basis, Domain::Evaluation)?);
    (0..ring.digit_count(chain_of(ring))).map(row).collect()
}

fn read_seed(bytes: &[u8]) -> Seed {
    let mut seed = [0; 32];
    seed.copy_from_slice(bytes);
    Seed(seed)
}

/// A file of seeded switching keys.
///
/// After the header: the number of keys (u32), a descriptor of 12 bytes per key (the Galois element, or 0 for
/// relinearisation, 2 and 4 for encapsulation of ciphertexts and of queries, 6 for decapsulation, 8 for the ring of
/// half the degree, 10 for subring queries, u64; chain length, u32), then each key in that order: its seed (32 bytes)
/// and its rows. The descriptors come first so that a server knows the sizes of the keys before it reads them.
pub struct KeyBundle;

impl KeyBundle {
    /// Bytes of a bundle with the keys of `plan`.
    pub fn byte_len(parameters: &Parameters, plan: &KeyPlan) -> u64 {
        let head = Self::plan_bytes(plan) + plan.len() * 32;
        head as u64 + plan.wire_bytes(parameters.ring())
    }

    /// Bytes of the plan at the beginning of a bundle, which [`KeyBundle::read_plan`] reads.
    pub fn plan_bytes(plan: &KeyPlan) -> usize {
        Self::most_plan_bytes(plan.len())
    }

    /// Maximum bytes of the plan of a bundle of at most `keys` keys.
    pub const fn most_plan_bytes(keys: usize) -> usize {
        HEADER_BYTES + 4 + keys * DESCRIPTOR_BYTES
    }

    /// Writes the plan: the part before the keys.
    ///
    /// # Errors
    /// If writing fails or the plan has more than [`MAX_BUNDLE_KEYS`] keys.
    pub fn write_plan(parameters: &Parameters, plan: &KeyPlan, out: &mut impl Write) -> Result<(), RlweError> {
        if plan.len() > MAX_BUNDLE_KEYS {
            return Err(refuse(
                Object::KeyBundle,
                format!("{} keys", plan.len()),
                format!("at most {MAX_BUNDLE_KEYS}"),
            ));
        }
        let mut bytes = Vec::new();
        write_header(parameters, Object::KeyBundle, &mut bytes);
        bytes.extend((plan.len() as u32).to_le_bytes());
        for (kind, chain) in plan.iter() {
            bytes.extend(kind.code().to_le_bytes());
            bytes.extend((chain as u32).to_le_bytes());
        }
        Ok(out.write_all(&bytes)?)
    }

    /// Generates every key of a plan and writes the bundle, with one key at a time in memory. Calls `progress` with the
    /// number of finished keys and the number of all keys. Stops early if `cancel` is set.
    ///
    /// # Errors
    /// If writing fails, [`RlweError::Interrupted`] if cancelled, or as for [`SeededSwitchingKey::generate`].
    pub fn write(
        secret: &SecretKey,
        plan: &KeyPlan,
        rng: &mut SecretRng,
        out: &mut impl Write,
        mut progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), RlweError> {
        Self::write_plan(secret.parameters(), plan, out)?;
        let mut done = 0;
        progress(done, plan.len());
        generate_keys(secret, plan, rng, cancel, |key| {
            Self::write_key(secret.parameters(), &key, out)?;
            done += 1;
            progress(done, plan.len());
            Ok(())
        })
    }

    /// Writes one key. Keys must be written in the order of the plan.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_key(parameters: &Parameters, key: &SeededSwitchingKey, out: &mut impl Write) -> Result<(), RlweError> {
        out.write_all(&key.seed.0)?;
        let mut bytes = Vec::new();
        for body in &key.bodies {
            bytes.clear();
            parameters.ring().write_residues(body, &mut bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Reads the plan: the part before the keys, and no bytes after it.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the bundle is malformed or has other parameters, or if reading fails.
    pub fn read_plan(parameters: &Parameters, input: &mut impl Read) -> Result<KeyPlan, RlweError> {
        let object = Object::KeyBundle;
        let mut head = [0; HEADER_BYTES + 4];
        read_exact(object, input, &mut head)?;
        let mut rest = read_header(parameters, object, &head)?;
        let count = take(object, &mut rest, 4)?;
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
        if count > MAX_BUNDLE_KEYS {
            return Err(refuse(object, format!("{count} keys"), format!("at most {MAX_BUNDLE_KEYS}")));
        }
        let mut plan = KeyPlan::new();
        let mut last = None;
        for _ in 0..count {
            let mut descriptor = [0; DESCRIPTOR_BYTES];
            read_exact(object, input, &mut descriptor)?;
            let [e0, e1, e2, e3, e4, e5, e6, e7, c0, c1, c2, c3] = descriptor;
            let element = u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7]);
            let chain = check_chain(parameters, object, u32::from_le_bytes([c0, c1, c2, c3]) as usize)?;
            let unknown =
                || refuse(object, format!("key kind {element}"), "an odd number below the order, 0, 2, 4, 6, 8 or 10");
            let kind = KeyKind::from_code(parameters.ring(), element).ok_or_else(unknown)?;
            parameters.check_kind(kind, chain)?;
            if last.is_some_and(|last| kind <= last) {
                return Err(refuse(object, format!("{kind} out of order"), "each key once, in ascending order"));
            }
            last = Some(kind);
            plan.require(kind, chain);
        }
        Ok(plan)
    }

    /// Reads a whole bundle. Each key is stored as `storage` says after it is read.
    ///
    /// # Errors
    /// [`RlweError::Decode`] if the data are not exactly one bundle, or if reading fails.
    pub fn read(
        parameters: &Parameters,
        storage: KeyStorage,
        input: &mut impl Read,
    ) -> Result<EvaluationKeys, RlweError> {
        let object = Object::KeyBundle;
        let plan = Self::read_plan(parameters, input)?;
        let mut keys = EvaluationKeys::with_storage(storage);
        for (kind, chain) in plan.iter() {
            keys.insert(parameters.ring(), &read_key(parameters, kind, chain, input)?)?;
        }
        match input.read(&mut [0])? {
            0 => Ok(keys),
            _ => Err(refuse(object, "surplus bytes", "the end")),
        }
    }
}

fn read_key(
    parameters: &Parameters,
    kind: KeyKind,
    chain: usize,
    input: &mut impl Read,
) -> Result<SeededSwitchingKey, RlweError> {
    let ring = parameters.ring();
    let (rows, basis) = kind.rows(ring, chain);
    let mut seed = [0; 32];
    read_exact(Object::KeyBundle, input, &mut seed)?;
    let mut packed = vec![0; ring.residue_bytes(basis)];
    let read_row = |_| -> Result<Poly, RlweError> {
        read_exact(Object::KeyBundle, input, &mut packed)?;
        Ok(ring.read_residues(&packed, basis, Domain::Evaluation)?)
    };
    let bodies = (0..rows).map(read_row).collect::<Result<_, _>>()?;
    Ok(SeededSwitchingKey { kind, chain, seed: Seed(seed), bodies })
}

fn read_exact(object: Object, input: &mut impl Read, bytes: &mut [u8]) -> Result<(), RlweError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            refuse(object, "the end of the data", format!("{} more bytes", bytes.len()))
        }
        _ => RlweError::Io(error),
    })
}

//! Databases whose records are encrypted too (Pirouette, Remark 1): an owner stores records at a server, and the server
//! learns neither the records nor which record is read.
//!
//! An entry holds [`PirParameters::pieces`] consecutive pieces. An entry is stored as it is sent: for each plane a seed
//! and a polynomial. The server expands the seeds when it reads the entries for an answer. A piece ends with a tag, by
//! which the owner detects content that it did not store at this place ([`crate::PirSecret::extract_encrypted`]).
//!
//! `encrypted` is for records that the server must not read. An entry is an RLWE ciphertext of consecutive pieces,
//! stored as a seed and a body, and every bit of the index selects between two halves of the entries. Pads are not
//! needed, because entries look random. Each piece ends with a tag of 16 bytes, a keyed hash of the parameters, the
//! layout, the plane, the index and the content: a ciphertext can be changed by anyone, since a public message can be
//! added to its body. An old entry of the same place has a valid tag.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use unspoken_gsw::{Choice, Rgsw, RlweCiphertext};
use unspoken_ring::{Domain, Poly, SecretRng, Seed};
use zeroize::Zeroizing;

use crate::client::PirSecret;
use crate::device::is_on_device;
use crate::entry::encode_secret;
use crate::error::{SchemeError, range};
use crate::expansion;
use crate::keys::PreparedKeys;
use crate::parameters::PirParameters;
use crate::query::Query;
use crate::response::Response;
use crate::server::{chosen, rotated_to_front, selected};
use crate::shape::DatabaseShape;
use crate::table_kind::{PlaneShape, TAG_BYTES};
use crate::tables::Tables;

/// Version of the mapping from records to encrypted entries.
pub const ENCRYPTED_FORMAT: u32 = 1;

/// The encryptions of an entry, one for each plane.
#[derive(Clone, Debug)]
pub struct EncryptedEntry {
    planes: Vec<(Seed, Poly)>,
}

impl EncryptedEntry {
    /// Number of entries of a database.
    pub fn count(tables: &Tables) -> u64 {
        tables.layout().cells().div_ceil(tables.parameters().pieces() as u64)
    }

    /// Bytes of an entry.
    pub fn byte_len(tables: &Tables) -> usize {
        tables.planes() * plane_bytes(tables.parameters())
    }

    /// Serialises the entry: for each plane the seed and the packed residues.
    pub fn to_bytes(&self, tables: &Tables) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(tables));
        for (seed, body) in &self.planes {
            bytes.extend_from_slice(&seed.0);
            tables.parameters().ring().write_residues(body, &mut bytes);
        }
        bytes
    }

    /// Reads an entry from untrusted bytes.
    ///
    /// # Errors
    /// If the length is wrong, or a residue is not below its prime.
    pub fn from_bytes(tables: &Tables, bytes: &[u8]) -> Result<Self, SchemeError> {
        let needed = Self::byte_len(tables);
        if bytes.len() != needed {
            return Err(SchemeError::format(
                "encrypted entry",
                format!("{} bytes", bytes.len()),
                format!("{needed} bytes"),
            ));
        }
        let parameters = tables.parameters();
        let planes = bytes.chunks(plane_bytes(parameters)).map(|plane| read_plane(parameters, plane));
        Ok(EncryptedEntry { planes: planes.collect::<Result<_, _>>()? })
    }
}

/// Bytes of one plane of an entry.
fn plane_bytes(parameters: &PirParameters) -> usize {
    size_of::<Seed>() + parameters.ring().residue_bytes(parameters.ring().basis())
}

/// The seed and the polynomial of one plane of an entry, from bytes of the right length.
fn read_plane(parameters: &PirParameters, bytes: &[u8]) -> Result<(Seed, Poly), SchemeError> {
    let ring = parameters.ring();
    let cut_off = || SchemeError::format("encrypted entry", format!("{} bytes", bytes.len()), "a seed and residues");
    let (seed, residues) = bytes.split_first_chunk().ok_or_else(cut_off)?;
    Ok((Seed(*seed), ring.read_residues(residues, ring.basis(), Domain::Evaluation)?))
}

impl PirSecret {
    /// Encrypts an entry with fresh randomness; to change one of its cells, encrypt it again. `cell` returns the bytes
    /// of a cell, which may be shorter than the layout says: missing bytes count as zeros.
    ///
    /// # Errors
    /// If the tables have no such entry.
    pub fn encrypt_entry<'c>(
        &self,
        tables: &Tables,
        number: u64,
        cell: impl Fn(u64) -> &'c [u8],
        rng: &mut SecretRng,
    ) -> Result<EncryptedEntry, SchemeError> {
        let (parameters, count) = (self.parameters(), EncryptedEntry::count(tables));
        if number >= count {
            return Err(range("encrypt an entry", number, format!("a number below {count}")));
        }
        let first = number * parameters.pieces() as u64;
        let cells = first..(first + parameters.pieces() as u64).min(tables.layout().cells());
        let key = self.authentication().of_tables(tables);
        let mut planes = Vec::with_capacity(tables.planes());
        for plane in 0..tables.planes() {
            let mut pieces = Zeroizing::new(Vec::with_capacity(parameters.pieces() * parameters.piece_bytes()));
            for index in cells.clone() {
                let start = pieces.len();
                pieces.extend_from_slice(cell(index).chunks(tables.piece_bytes()).nth(plane).unwrap_or_default());
                pieces.resize(start + tables.piece_bytes(), 0);
                let tag = key.tag(plane, index, pieces.get(start..).unwrap_or_default());
                pieces.extend_from_slice(tag.as_slice());
            }
            let mut message = encode_secret(parameters, &pieces)?;
            parameters.ring().scale_assign(&mut message, parameters.delta())?;
            let seed = rng.seed();
            planes.push((seed, self.ring().encrypt_seeded(&message, (&seed, 0), rng)?));
        }
        Ok(EncryptedEntry { planes })
    }

    /// Decrypts a piece of a database of encrypted entries. The response was computed from plane `plane` and a query
    /// for `index`. No branch and no address depends on the index or the piece, except that a piece that is not the
    /// owner's is an error.
    ///
    /// # Errors
    /// As for [`PirSecret::extract`]; [`SchemeError::Forged`] if this secret has not encrypted the piece for this place
    /// of these tables.
    pub fn extract_encrypted(
        &self,
        response: &Response,
        tables: &Tables,
        plane: usize,
        index: u64,
    ) -> Result<Zeroizing<Vec<u8>>, SchemeError> {
        let mut piece = self.extract_masked(response)?;
        let key = self.authentication().of_tables(tables);
        let sound =
            piece.split_last_chunk::<TAG_BYTES>().is_some_and(|(content, tag)| key.verify(plane, index, content, tag));
        piece.truncate(tables.piece_bytes());
        if sound { Ok(piece) } else { Err(SchemeError::Forged) }
    }
}

/// The encrypted entries of a version of a database.
#[derive(Clone, Copy, Debug)]
pub struct EncryptedView<'a> {
    /// All entries, by number, as [`EncryptedEntry::to_bytes`] writes them.
    pub entries: &'a [u8],
    /// Entries that differ from `entries`, by number.
    pub changes: &'a BTreeMap<u64, Arc<[u8]>>,
}

impl EncryptedView<'_> {
    /// One plane of an entry, expanded; `None` after the last entry.
    fn expanded(&self, tables: &Tables, number: u64, plane: usize) -> Result<Option<RlweCiphertext>, SchemeError> {
        if number >= EncryptedEntry::count(tables) {
            return Ok(None);
        }
        let (parameters, length) = (tables.parameters(), plane_bytes(tables.parameters()));
        let entry = match self.changes.get(&number) {
            Some(changed) => changed,
            None => self.entries.chunks(EncryptedEntry::byte_len(tables)).nth(number as usize).unwrap_or_default(),
        };
        let (seed, body) = read_plane(parameters, entry.chunks(length).nth(plane).unwrap_or_default())?;
        Ok(Some(RlweCiphertext::expand(parameters.ring(), &body, &seed)?))
    }

    /// The selected entry among the `2^bits.len()` entries from `first`; `None` if there are none.
    fn select_from(
        &self,
        tables: &Tables,
        plane: usize,
        first: u64,
        bits: &[Rgsw],
    ) -> Result<Option<RlweCiphertext>, SchemeError> {
        let ring = tables.parameters().ring();
        let Some((highest, rest)) = bits.split_last() else { return self.expanded(tables, first, plane) };
        if first >= EncryptedEntry::count(tables) {
            return Ok(None);
        }
        let half = 1u64 << rest.len();
        let entry = |number: u64| or_zero(tables, self.expanded(tables, number, plane)?);
        let pair = |number: u64| Ok::<_, SchemeError>([entry(number)?, entry(number + half)?]);
        let numbers = (first..first + half).into_par_iter();
        // The processor expands entries in any case, and chooses while they are in the cache.
        let halves = if is_on_device(ring) {
            let pairs = numbers.map(pair).collect::<Result<Vec<_>, _>>()?;
            let choices = pairs.iter().map(|[zero, one]| Choice { bit: highest, zero: Some(zero), one: Some(one) });
            chosen(ring, &choices.collect::<Vec<_>>())?
        } else {
            let select = |number: u64| {
                let [zero, one] = pair(number)?;
                Ok::<_, SchemeError>(highest.select(ring, &zero, &one)?)
            };
            numbers.map(select).collect::<Result<_, _>>()?
        };
        Ok(Some(selected(ring, halves, rest)?))
    }
}

/// The ciphertext, or an encryption of zero in its place.
fn or_zero(tables: &Tables, ciphertext: Option<RlweCiphertext>) -> Result<RlweCiphertext, SchemeError> {
    let ring = tables.parameters().ring();
    match ciphertext {
        Some(ciphertext) => Ok(ciphertext),
        None => Ok(RlweCiphertext::trivial(ring, &ring.zero(ring.basis(), Domain::Evaluation))?),
    }
}

/// Bits of the number of entries in a range. Ranges are selected from one after the other.
const RANGE_BITS: usize = 9;

/// Computes the responses to a query, one for each plane: every bit of the index selects one half of the remaining
/// entries (Pirouette, Remark 1). The keys and the query must be of the secret that encrypted the entries. Neither time
/// nor memory depend on the index.
///
/// # Errors
/// If the tables are of another kind, the view has another length, the keys do not fit the query's mode, anything has
/// other parameters, or when `cancel` is set.
pub fn answer(
    keys: &PreparedKeys,
    tables: &Tables,
    view: EncryptedView<'_>,
    query: &Query,
    cancel: &AtomicBool,
) -> Result<Vec<Response>, SchemeError> {
    let (ring, shape) = (tables.parameters().ring(), checked_shape(tables, view)?);
    let bits = expansion::expand(keys, shape, query, cancel)?;
    expansion::check(cancel)?;
    let (places, numbers) = bits.split_at(shape.piece_bits as usize);
    let (inner, outer) = numbers.split_at(numbers.len().min(RANGE_BITS));
    let mut responses = Vec::with_capacity(tables.planes());
    for plane in 0..tables.planes() {
        let mut chosen = Vec::with_capacity(1 << outer.len());
        for range in 0..1u64 << outer.len() {
            let of_range = view.select_from(tables, plane, range << inner.len(), inner)?;
            chosen.push(or_zero(tables, of_range)?);
            expansion::check(cancel)?;
        }
        let chosen = rotated_to_front(ring, vec![selected(ring, chosen, outer)?], &[places])?;
        expansion::check(cancel)?;
        for ciphertext in &chosen {
            responses.push(Response::compress(keys, ciphertext)?);
        }
        expansion::check(cancel)?;
    }
    Ok(responses)
}

/// Checks the kind of the tables and the length of a view. A wrong one is an error of the database, not of the client.
fn checked_shape(tables: &Tables, view: EncryptedView<'_>) -> Result<DatabaseShape, SchemeError> {
    let wrong = |what, found, needed| Err(SchemeError::Table { what, found, needed });
    let PlaneShape::Encrypted(shape) = tables.shape() else { return wrong("tables with encrypted entries", 0, 1) };
    let (found, needed) =
        (view.entries.len() as u64, EncryptedEntry::count(tables) * EncryptedEntry::byte_len(tables) as u64);
    match found == needed {
        true => Ok(shape),
        false => wrong("bytes of encrypted entries", found, needed),
    }
}

/// Bytes of memory that computing an answer needs.
pub fn answer_memory_bytes(parameters: &PirParameters, shape: DatabaseShape) -> u64 {
    let ring = parameters.ring();
    let pair = 2 * ring.poly_bytes(ring.basis());
    let number_bits = (shape.index_bits() - shape.piece_bits) as usize;
    let outer = 1usize << number_bits.saturating_sub(RANGE_BITS);
    let rows_of_bits: usize = parameters.gadgets(shape).iter().map(|gadget| 2 * gadget.levels()).sum();
    ((2 * (1 << RANGE_BITS) + 2 * outer + rows_of_bits) * pair) as u64
}

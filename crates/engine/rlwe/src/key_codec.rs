//! Serialisation of public keys and of the keys of small rings.

use unspoken_ring::{Domain, Poly, Ring};

use crate::codec::{HEADER_BYTES, Object, finish, read_header, read_poly, read_seed, refuse, take, write_header};
use crate::error::RlweError;
use crate::parameters::Parameters;
use crate::public::PublicKey;
use crate::small_ring::SmallRing;
use crate::small_ring_keys::SeededSmallRingKeys;

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

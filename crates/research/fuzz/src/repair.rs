//! Repairs of the formats of `unspoken-rlwe`, following its codec.

use unspoken_ring::Basis;
use unspoken_rlwe::{FORMAT_VERSION, HEADER_BYTES, Parameters};

/// The object kinds, numbered as in the header.
#[derive(Clone, Copy)]
pub enum Kind {
    Ciphertext = 1,
    SeededCiphertext = 2,
    KeyBundle = 3,
    PublicKey = 4,
    SmallRingKeys = 5,
    SparseCiphertext = 6,
    RoundedCiphertext = 7,
}

/// Bytes of a key's descriptor in a bundle: Galois element (u64), chain length (u32).
const DESCRIPTOR_BYTES: usize = 12;
/// Bytes of a bundle before its descriptors.
pub const BUNDLE_HEAD: usize = HEADER_BYTES + 4;
/// Bits of the number of chain primes in the 16 bits of a basis; the others are the number of terminal primes.
const CHAIN_BITS: u32 = 12;
/// Bytes of the seed of a ciphertext.
const SEED_BYTES: usize = 32;
/// Most keys in a repaired bundle.
const MAX_KEYS: usize = 6;

/// Writes magic number, version, kind and fingerprint at the start, and extends `bytes` to at least `least` bytes.
pub fn header(parameters: &Parameters, kind: Kind, bytes: &mut Vec<u8>, least: usize) {
    if bytes.len() < least {
        bytes.resize(least, 0);
    }
    bytes[..4].copy_from_slice(b"uspk");
    bytes[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[6..8].copy_from_slice(&[kind as u8, 0]);
    bytes[8..HEADER_BYTES].copy_from_slice(&parameters.fingerprint().0);
}

/// Repairs the chain length at the start of `bytes`.
fn chain(parameters: &Parameters, bytes: &mut [u8]) -> usize {
    let chain = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let all = parameters.ring().chain().len();
    let possible = if (1..=all).contains(&chain) { chain } else { 1 + chain % all };
    bytes[..2].copy_from_slice(&(possible as u16).to_le_bytes());
    possible
}

/// Repairs the numbers of chain primes and terminal primes at the start of `bytes`.
fn basis(parameters: &Parameters, bytes: &mut [u8]) -> Basis {
    let field = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let (chain, terminal) = (field & ((1 << CHAIN_BITS) - 1), field >> CHAIN_BITS);
    let (chains, terminals) = (parameters.ring().chain().len(), parameters.ring().terminal().len());
    let chain = if (1..=chains).contains(&chain) { chain } else { 1 + chain % chains };
    let terminal = terminal % (terminals + 1);
    bytes[..2].copy_from_slice(&((chain | terminal << CHAIN_BITS) as u16).to_le_bytes());
    Basis::chain(chain).with_terminal(terminal)
}

/// Repairs header, basis, number of components and length of a ciphertext.
pub fn ciphertext(parameters: &Parameters, bytes: &mut Vec<u8>) {
    header(parameters, Kind::Ciphertext, bytes, HEADER_BYTES + 3);
    let basis = basis(parameters, &mut bytes[HEADER_BYTES..]);
    let components = &mut bytes[HEADER_BYTES + 2];
    if !(2..=3).contains(components) {
        *components = 2 + (*components & 1);
    }
    let count = usize::from(*components);
    bytes.resize(HEADER_BYTES + 3 + count * parameters.ring().residue_bytes(basis), 0);
}

/// Repairs header, basis and length of a seeded ciphertext, and derives its seed from the residues: a service
/// refuses a seed that it has seen with other residues.
pub fn seeded_ciphertext(parameters: &Parameters, bytes: &mut Vec<u8>) {
    header(parameters, Kind::SeededCiphertext, bytes, HEADER_BYTES + 2);
    let basis = basis(parameters, &mut bytes[HEADER_BYTES..]);
    bytes.resize(unspoken_rlwe::SeededCiphertext::byte_len(parameters, basis), 0);
    let (head, residues) = bytes.split_at_mut(HEADER_BYTES + 2 + SEED_BYTES);
    head[HEADER_BYTES + 2..].copy_from_slice(blake3::hash(residues).as_bytes());
}

/// Repairs header, basis and length of a seeded ciphertext of `places` coefficients, and derives its seed as
/// [`seeded_ciphertext`] does.
pub fn sparse_ciphertext(parameters: &Parameters, places: usize, bytes: &mut Vec<u8>) {
    header(parameters, Kind::SparseCiphertext, bytes, HEADER_BYTES + 2);
    let basis = basis(parameters, &mut bytes[HEADER_BYTES..]);
    bytes.resize(unspoken_rlwe::SeededCiphertext::sparse_byte_len(parameters, basis, places), 0);
    let (head, residues) = bytes.split_at_mut(HEADER_BYTES + 2 + SEED_BYTES);
    head[HEADER_BYTES + 2..].copy_from_slice(blake3::hash(residues).as_bytes());
}

/// Repairs header, number of bits and length of a rounded ciphertext.
pub fn rounded_ciphertext(parameters: &Parameters, places: usize, bytes: &mut Vec<u8>) {
    header(parameters, Kind::RoundedCiphertext, bytes, HEADER_BYTES + 1);
    let bits = &mut bytes[HEADER_BYTES];
    *bits = 8 + *bits % unspoken_rlwe::RoundedCiphertext::MAX_BITS as u8 / 8 * 8;
    let bits = u32::from(*bits);
    bytes.resize(unspoken_rlwe::RoundedCiphertext::byte_len(parameters, bits, places), 0);
}

/// Repairs header and length of a public key.
pub fn public_key(parameters: &Parameters, bytes: &mut Vec<u8>) {
    header(parameters, Kind::PublicKey, bytes, HEADER_BYTES + SEED_BYTES);
    bytes.resize(unspoken_rlwe::PublicKey::byte_len(parameters), 0);
}

/// Repairs header, number of keys and descriptors of a bundle. Returns the chain length of each key.
pub fn key_plan(parameters: &Parameters, bytes: &mut Vec<u8>) -> Vec<usize> {
    let first = HEADER_BYTES + 4;
    header(parameters, Kind::KeyBundle, bytes, first);
    let count = (usize::from(bytes[HEADER_BYTES]) % (MAX_KEYS + 1)).min((bytes.len() - first) / DESCRIPTOR_BYTES);
    bytes[HEADER_BYTES..first].copy_from_slice(&(count as u32).to_le_bytes());
    let order = unspoken_rlwe::galois::order(parameters.ring());
    let end = first + count * DESCRIPTOR_BYTES;
    let (descriptors, _) = bytes[first..end].as_chunks_mut::<DESCRIPTOR_BYTES>();
    descriptors.sort_unstable_by_key(element);
    let mut least = 0;
    let mut chains = Vec::new();
    for descriptor in descriptors {
        // Ascending and distinct: 0, then odd numbers from 3.
        let possible = match element(descriptor) % order {
            0 if least == 0 => 0,
            other => (other | 1).max(least.max(3)),
        };
        least = (possible + 2) | 1;
        descriptor[..8].copy_from_slice(&possible.to_le_bytes());
        chains.push(chain(parameters, &mut descriptor[8..10]));
        descriptor[10..].fill(0);
    }
    chains
}

fn element(descriptor: &[u8; DESCRIPTOR_BYTES]) -> u64 {
    let [e0, e1, e2, e3, e4, e5, e6, e7, ..] = *descriptor;
    u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7])
}

/// Like [`key_plan`]; also repairs the length of the keys that follow.
pub fn key_bundle(parameters: &Parameters, bytes: &mut Vec<u8>) {
    let chains = key_plan(parameters, bytes);
    let ring = parameters.ring();
    let key = |&chain: &usize| 32 + ring.digit_count(chain) * ring.residue_bytes(ring.gadget_key_basis(chain));
    let keys: usize = chains.iter().map(key).sum();
    bytes.resize(HEADER_BYTES + 4 + chains.len() * DESCRIPTOR_BYTES + keys, 0);
}

/// Repairs a scale, then applies `rest` to the bytes that follow it.
pub fn scaled(bytes: &mut Vec<u8>, default: f64, rest: impl FnOnce(&mut Vec<u8>)) {
    let mut tail = bytes.split_off(bytes.len().min(8));
    let scale = <[u8; 8]>::try_from(bytes.as_slice()).map_or(default, f64::from_le_bytes);
    let usable = if (1.0..=2f64.powi(200)).contains(&scale) { scale } else { default };
    *bytes = usable.to_le_bytes().to_vec();
    rest(&mut tail);
    bytes.extend(tail);
}

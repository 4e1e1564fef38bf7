//! How token codes become an encrypted query, and back: the only place that knows.
//!
//! This is the *direct* form: for each subtable one seeded ciphertext whose slot `e` holds `alpha_j` for column `j` of
//! token `e`, at the level the lookup's plan starts from. Padded slots hold zero.

use std::collections::HashSet;

use unspoken_ckks::{Ciphertext, CkksParameters, Complex64, Encoder, SeededCiphertext};
use unspoken_lookup::alpha;
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

use crate::error::EmbedError;

/// Encrypts one vector for each of `subtables`; `columns` is the padded width of a subtable. Each code has one entry
/// for each subtable, and there are at most as many codes as slots.
pub(crate) fn encrypt(
    encoder: &Encoder,
    secret: &SecretKey,
    rng: &mut SecretRng,
    codes: &[&[u16]],
    (subtables, columns, level): (usize, usize, usize),
) -> Result<Vec<Vec<u8>>, EmbedError> {
    let parameters = encoder.parameters();
    let alphas: Vec<Complex64> = (0..columns).map(|j| alpha(j, columns)).collect();
    let mut slots = vec![Complex64::default(); parameters.slots()];
    let mut vectors = Vec::with_capacity(subtables);
    for t in 0..subtables {
        slots.iter_mut().zip(codes).for_each(|(slot, code)| *slot = alphas[usize::from(code[t])]);
        let plaintext = encoder.encode(&slots, level, parameters.scale())?;
        vectors.push(encoder.encrypt(&plaintext, secret, rng)?.to_bytes(parameters));
    }
    slots.iter_mut().for_each(|slot| *slot = Complex64::default());
    Ok(vectors)
}

/// Reads and expands the vectors of a query, which must have fresh seeds.
pub(crate) fn read(
    parameters: &CkksParameters,
    vectors: &[Vec<u8>],
    subtables: usize,
) -> Result<Vec<Ciphertext>, EmbedError> {
    if vectors.len() != subtables {
        let needed = format!("{subtables}, one per subtable");
        return Err(EmbedError::mismatch("query", format!("{} vectors", vectors.len()), needed));
    }
    let read = |vector: &Vec<u8>| Ok(SeededCiphertext::from_bytes(parameters, vector)?);
    let vectors: Vec<SeededCiphertext> = vectors.iter().map(read).collect::<Result<_, EmbedError>>()?;
    let seeds: HashSet<&[u8; 32]> = vectors.iter().map(SeededCiphertext::seed).collect();
    if seeds.len() != vectors.len() {
        return Err(EmbedError::mismatch("query", "one seed used twice", "a fresh seed for each vector"));
    }
    Ok(vectors.iter().map(|vector| vector.expand(parameters)).collect())
}

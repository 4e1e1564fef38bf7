//! Targets for encrypted vectors: a scale, followed by a ciphertext.

use unspoken_ckks::{Ciphertext, Complex64, Encoder, SeededCiphertext};

use crate::fixtures::{SMALL, SMALL_SECRET, rng};
use crate::{Target, repair};

/// `Ciphertext::from_bytes`: a decoded ciphertext encodes to the same bytes and decrypts.
pub static CIPHERTEXT: Target = Target {
    name: "ckks_ciphertext",
    run: |data| {
        let Ok(vector) = Ciphertext::from_bytes(&SMALL, data) else { return false };
        assert!(vector.to_bytes(&SMALL) == data, "the bytes changed");
        assert!(vector.scale() >= 1.0 && vector.level() <= SMALL.max_level());
        let slots = Encoder::new(&SMALL).decrypt(&vector, &SMALL_SECRET).expect("decrypts");
        assert!(slots.len() == SMALL.slots() && slots.iter().all(|z| z.is_finite()));
        true
    },
    repair: |data| repair::scaled(data, SMALL.scale(), |rest| repair::ciphertext(SMALL.rlwe(), rest)),
    seeds: || (0..=2).map(|level| vector(level).expand(&SMALL).to_bytes(&SMALL)).collect(),
};

/// `SeededCiphertext::from_bytes`: encoding gives the same bytes.
pub static SEEDED_CIPHERTEXT: Target = Target {
    name: "ckks_seeded_ciphertext",
    run: |data| {
        let Ok(vector) = SeededCiphertext::from_bytes(&SMALL, data) else { return false };
        assert!(vector.to_bytes(&SMALL) == data, "the bytes changed");
        assert_eq!(SeededCiphertext::byte_len(&SMALL, vector.level()), data.len());
        assert_eq!(vector.expand(&SMALL).level(), vector.level());
        true
    },
    repair: |data| repair::scaled(data, SMALL.scale(), |rest| repair::seeded_ciphertext(SMALL.rlwe(), rest)),
    seeds: || (0..=2).map(|level| vector(level).to_bytes(&SMALL)).collect(),
};

fn vector(level: usize) -> SeededCiphertext {
    let encoder = Encoder::new(&SMALL);
    // The lower levels are too small for the default scale.
    let scale = [2f64.powi(20), 2f64.powi(40), SMALL.scale()][level];
    let plaintext = encoder.encode(&[Complex64::new(0.5, -0.25)], level, scale).expect("fits");
    encoder.encrypt(&plaintext, &SMALL_SECRET, &mut rng()).expect("encrypts")
}

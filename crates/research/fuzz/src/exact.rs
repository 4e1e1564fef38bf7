//! Targets for exact vectors: scheme, plaintext modulus and a bound of the noise, followed by a ciphertext.

use std::sync::LazyLock;

use unspoken_exact::{Ciphertext, Encoder, ExactParameters, MIN_BUDGET_BITS, Preset, Scheme, SeededCiphertext};
use unspoken_rlwe::SecretKey;

use crate::fixtures::rng;
use crate::{Target, repair};

/// The test preset in the smallest ring.
static SMALL: LazyLock<ExactParameters> = LazyLock::new(|| {
    let mut literal = Preset::find("insecure_n10_exact17").and_then(|p| p.literal(Scheme::Bgv)).expect("a preset");
    literal.rlwe.ring.degree = 512;
    ExactParameters::new(literal).expect("a possible set")
});

static SECRET: LazyLock<SecretKey> = LazyLock::new(|| SecretKey::generate(SMALL.rlwe(), &mut rng()).expect("a secret"));

/// Bytes of the head: scheme (u8), plaintext modulus (u32), bound of the noise (f64).
const HEAD_BYTES: usize = 13;

/// `Ciphertext::from_bytes`: a decoded ciphertext encodes to the same bytes and has a noise budget; decryption gives
/// values in range or reports too much noise.
pub static CIPHERTEXT: Target = Target {
    name: "exact_ciphertext",
    run: |data| {
        let Ok(vector) = Ciphertext::from_bytes(&SMALL, data) else { return false };
        assert!(vector.to_bytes() == data, "the bytes changed");
        assert!(vector.budget_bits() >= MIN_BUDGET_BITS);
        let encoder = Encoder::new(&SMALL);
        if let Ok(plaintext) = encoder.decrypt(&vector, &SECRET) {
            let limit = i64::from(SMALL.plain_modulus() / 2);
            let slots = encoder.decode_slots(&plaintext).expect("of these parameters");
            assert!(slots.iter().all(|x| x.abs() <= limit));
        }
        true
    },
    repair: |data| head(data, true, |rest| repair::ciphertext(SMALL.rlwe(), rest)),
    seeds: || vec![vector().expand().expect("expands").to_bytes()],
};

/// `SeededCiphertext::from_bytes`: encoding gives the same bytes.
pub static SEEDED_CIPHERTEXT: Target = Target {
    name: "exact_seeded_ciphertext",
    run: |data| {
        let Ok(vector) = SeededCiphertext::from_bytes(&SMALL, data) else { return false };
        assert!(vector.to_bytes() == data, "the bytes changed");
        assert_eq!(SeededCiphertext::byte_len(&SMALL), data.len());
        assert!(vector.expand().expect("expands").budget_bits() >= MIN_BUDGET_BITS);
        true
    },
    repair: |data| head(data, false, |rest| repair::seeded_ciphertext(SMALL.rlwe(), rest)),
    seeds: || vec![vector().to_bytes()],
};

/// Puts a valid head before the rest, which `repair` repairs; the noise bound is 0 to 64 bits, or 0 without `bound`.
fn head(data: &mut Vec<u8>, bound: bool, repair: impl FnOnce(&mut Vec<u8>)) {
    if data.len() < HEAD_BYTES {
        data.resize(HEAD_BYTES, 0);
    }
    let mut rest = data.split_off(HEAD_BYTES);
    let bits = if bound { f64::from(data[12]) / 4.0 } else { 0.0 };
    data.clear();
    data.push(1);
    data.extend(SMALL.plain_modulus().to_le_bytes());
    data.extend(bits.to_le_bytes());
    repair(&mut rest);
    data.extend(rest);
}

fn vector() -> SeededCiphertext {
    let encoder = Encoder::new(&SMALL);
    let plaintext = encoder.encode_slots(&[1, -2, 3]).expect("fits");
    encoder.encrypt(&plaintext, &SECRET, &mut rng()).expect("encrypts")
}

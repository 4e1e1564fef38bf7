//! The published forms against ours, and measured noise against predictions.

use std::sync::atomic::AtomicBool;

use unspoken_gsw::{BinaryRingLiteral, BootstrapLiteral, GadgetLiteral, LweLiteral, Noise};
use unspoken_pir_scheme::{DatabaseShape, Mode, PirLiteral, PirParameters, PirSecret, Preset, ResponseLiteral, expand};
use unspoken_ring::SecretRng;
use unspoken_ring::modular::primes_descending;

use super::decomposition::{self, BitTables, Rotations, digits};
use super::keys::{Client, Keys, decrypted};
use super::parameters::Decomposition;
use super::transciphering::Circuit;

/// A ring of degree 512 and an LWE secret of 40 words.
fn small() -> PirParameters {
    let degree = 512;
    PirParameters::new(PirLiteral {
        bootstrap: BootstrapLiteral {
            ring: BinaryRingLiteral {
                name: "insecure_published",
                degree,
                primes: primes_descending(1 << 25, 1 << 26, 2 * degree as u32).take(2).collect(),
            },
            lwe: LweLiteral { dimension: 48, error_terms: 14 },
            rotation: GadgetLiteral { log2_base: 9, levels: 5 },
            trace: GadgetLiteral { log2_base: 3, levels: 16 },
            output: GadgetLiteral { log2_base: 4, levels: 7 },
        },
        compact: LweLiteral { dimension: degree, error_terms: 1 },
        compact_switch: GadgetLiteral { log2_base: 1, levels: 14 },
        response: ResponseLiteral {
            degree,
            prime: 16_760_833,
            gadget: GadgetLiteral { log2_base: 1, levels: 24 },
            body_bits: 7,
        },
        selection: GadgetLiteral { log2_base: 9, levels: 2 },
        plaintext_bits: 4,
        row_bits: 6,
        bit_body_bits: 5,
    })
    .unwrap()
}

fn client(pir: &PirParameters, index_bits: u32) -> (Client, Keys) {
    let mut client = Client::new(&Decomposition::find(pir, index_bits).unwrap(), 1).unwrap();
    let keys = client.keys().unwrap();
    (client, keys)
}

/// The bits that our expansion of a compact query gives, decrypted.
fn ours(pir: &PirParameters, bits: u32, index: u32) -> u32 {
    let mut rng = SecretRng::insecure_from_seed(2);
    let secret = PirSecret::generate(pir, &mut rng).unwrap();
    let keys = secret.keys(Mode::Compact, &mut rng).unwrap().expand().unwrap();
    let shape = DatabaseShape::new(pir, 1 << bits).unwrap();
    let query = secret.query(Mode::Compact, shape, index.into(), &mut rng).unwrap();
    decrypted(secret.ring(), &expand(&keys, shape, &query, &AtomicBool::new(false)).unwrap()).unwrap()
}

#[test]
fn both_decompositions_of_an_index_give_the_same_bits() {
    let (pir, bits) = (small(), 11);
    let (mut client, keys) = client(&pir, bits);
    for index in [0, 1, 0b101_1001_1010, 1 << 10, (1 << 11) - 1] {
        let query = client.query(index);
        let found = decomposition::expand(&keys, &query).unwrap();
        assert_eq!(decrypted(&client.ring, &found.bits).unwrap(), index);
        assert_eq!(ours(&pir, bits, index), index);
        assert_eq!(found.bits.len(), 11);
        let Rotations { digits, bits, conversion } = found.rotations;
        assert_eq!(digits + bits, 3 * keys.parameters.digits - 2);
        assert_eq!((bits, conversion), (keys.parameters.digits, 11));
    }
}

#[test]
fn the_decomposition_at_real_parameters_finds_every_bit() {
    let pir = Preset::N11.build().unwrap();
    let parameters = Decomposition::find(&pir, 20).unwrap();
    assert_eq!((parameters.digit_bits, parameters.digits, parameters.width(0)), (4, 5, 28));
    assert!(parameters.log2_failure() <= -40.0, "{}", parameters.log2_failure());
    let (mut client, keys) = client(&pir, 20);
    let query = client.query(0b1010_0110_0101_1100_0011);
    let found = decomposition::expand(&keys, &query).unwrap();
    assert_eq!(decrypted(&client.ring, &found.bits).unwrap(), 0b1010_0110_0101_1100_0011);
    assert_eq!(found.rotations, Rotations { digits: 8, bits: 5, conversion: 20 });
}

/// Measured variance over predicted variance, as deviations.
fn assert_predicted(what: &str, errors: &[f64], predicted: Noise) {
    let measured = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
    let ratio = (measured / predicted.0).sqrt();
    assert!((0.6..1.5).contains(&ratio), "{what}: measured {ratio:.3} times the predicted deviation");
}

#[test]
fn digits_and_bits_have_the_predicted_noise() {
    const QUERIES: u32 = 24;
    let (mut client, keys) = client(&small(), 9);
    let parameters = keys.parameters.clone();
    let tables = BitTables::new(&parameters).unwrap();
    let mut of_digits = vec![Vec::new(); parameters.digits as usize];
    let mut of_bits = Vec::new();
    for number in 0..QUERIES {
        let index = number.wrapping_mul(0x9e37_79b1) >> 23;
        let query = client.query(index);
        for (step, digit) in digits(&keys, &query, &mut 0).unwrap().iter().enumerate() {
            let value = index >> (step as u32 * parameters.digit_bits) & ((1 << parameters.digit_bits) - 1);
            let unit = 1u32 << (32 - parameters.digit_bits);
            let message = value.wrapping_mul(unit).wrapping_add(unit / 2);
            let phase = client.words.phase(digit).unwrap();
            of_digits[step].push(fraction(phase.wrapping_sub(message)));
            for (bit, ciphertext) in tables.bits(&keys, digit).unwrap().iter().enumerate() {
                let phase = client.lwe.phase(ciphertext).unwrap();
                of_bits.push(fraction(phase.wrapping_sub((value >> bit & 1) << 31)));
            }
        }
    }
    for (step, errors) in of_digits.iter().enumerate() {
        assert_predicted(&format!("digit {step}"), errors, parameters.digit_noise(step as u32));
    }
    assert_predicted("bits of digits", &of_bits, parameters.bit_noise());
}

/// A difference of two words as a fraction of 2^32, between -1/2 and 1/2.
fn fraction(difference: u32) -> f64 {
    f64::from(difference.cast_signed()) / 32f64.exp2()
}

#[test]
fn larger_digits_fail_too_often_and_the_papers_roundings_do() {
    let pir = Preset::N11.build().unwrap();
    let mut parameters = Decomposition::find(&pir, 22).unwrap();
    assert_eq!((parameters.digit_bits, parameters.digits, parameters.width(0)), (4, 6, 32));
    assert!(parameters.log2_failure() <= -40.0);
    (parameters.digit_bits, parameters.digits) = (5, 5);
    assert!(parameters.log2_failure() > -40.0, "{}", parameters.log2_failure());
    let paper = super::paper::rounding_log2_failure();
    assert!((-33.0..-26.0).contains(&paper), "{paper}");
}

#[test]
fn an_encrypted_column_of_aes_is_that_of_the_standard() {
    let pir = Preset::InsecureN11.build().unwrap();
    let mut circuit = Circuit::new(&pir, 3).unwrap();
    // FIPS 197, appendix B: the first column of round 1 before SubBytes, shifted, and its round key.
    let [column, key] = [[0x19, 0xf4, 0x8d, 0x08], [0xa0, 0xfa, 0xfe, 0x17]].map(|bytes| circuit.encrypt(bytes));
    let found = circuit.round(&column, &key).unwrap();
    assert_eq!(circuit.decrypt(&found).unwrap(), [0xa4, 0x9c, 0x7f, 0xf2]);
}

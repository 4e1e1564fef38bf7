//! Encryption with a public key, and with encryptions of zero made ahead.

mod common;

use common::{Client, REAL, STANDARD};
use unspoken_ckks::{CkksError, Complex64, Encrypted, NoiseModel, Zero};
use unspoken_rlwe::{PublicKey, RlweError};

fn worst(a: &[Complex64], b: &[Complex64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
}

#[test]
fn every_way_decrypts_to_the_same() {
    for preset in [STANDARD, REAL, "insecure_n11_linear_depth4_scale30"] {
        let mut client = Client::new(preset, 3);
        let public = PublicKey::generate(&client.secret, &mut client.rng).unwrap();
        let (parameters, values) = (client.parameters().clone(), client.values(1.0));
        let top = parameters.max_level();
        // Slots of six deviations of the noise of a public-key encryption.
        let bound = 6.0 * 3.19 * 2.0 * 2048.0 * (4.0f64 / 3.0).sqrt() * 1.5 / parameters.scale();
        for level in [1, top] {
            let plaintext = client.encoder.encode(&values, level, parameters.scale()).unwrap();
            let full = client.encoder.encrypt_public(&plaintext, &public, &mut client.rng).unwrap();
            assert!(worst(&client.decrypt(&full), &values) < bound);
            let zeros = [
                Zero::seeded(&parameters, &client.secret, top, &mut client.rng).unwrap(),
                Zero::public(&parameters, &public, top, &mut client.rng).unwrap(),
            ];
            for (zero, seeded) in zeros.into_iter().zip([true, false]) {
                let bytes = zero.into_bytes(&parameters).unwrap();
                assert_eq!(bytes.len(), Zero::byte_len(&parameters, top, seeded));
                let zero = Zero::from_bytes(&parameters, &bytes).unwrap();
                let sent = client.encoder.encrypt_with(&plaintext, zero).unwrap();
                assert_eq!(matches!(sent, Encrypted::Seeded(_)), seeded);
                let bytes = sent.to_bytes(&parameters);
                let received = Encrypted::from_bytes(&parameters, &bytes).unwrap();
                assert_eq!((received.level(), received.scale()), (level, parameters.scale()));
                assert_eq!(received.to_bytes(&parameters), bytes);
                assert!(worst(&client.decrypt(&received.expand(&parameters)), &values) < bound);
            }
        }
    }
}

#[test]
fn a_zero_of_too_low_a_level_is_refused() {
    let mut client = Client::new(STANDARD, 4);
    let parameters = client.parameters().clone();
    let plaintext = client.encoder.encode(&[Complex64::from(1.0)], 2, parameters.scale()).unwrap();
    let zero = Zero::seeded(&parameters, &client.secret, 1, &mut client.rng).unwrap();
    assert!(matches!(client.encoder.encrypt_with(&plaintext, zero), Err(CkksError::Rlwe(_))));
}

#[test]
fn bytes_of_something_else_are_no_zero() {
    let mut client = Client::new(STANDARD, 5);
    let parameters = client.parameters().clone();
    let bytes = Zero::seeded(&parameters, &client.secret, 1, &mut client.rng).unwrap();
    let bytes = bytes.into_bytes(&parameters).unwrap();
    for len in [0, 6, 7, 30, bytes.len() - 1] {
        assert!(Zero::from_bytes(&parameters, &bytes[..len]).is_err());
        assert!(Encrypted::from_bytes(&parameters, &bytes[..len]).is_err());
    }
    let public = PublicKey::generate(&client.secret, &mut client.rng).unwrap();
    assert!(Zero::from_bytes(&parameters, &public.to_bytes()).is_err());
}

#[test]
fn keys_and_zeros_of_other_parameters_are_refused() {
    let mut client = Client::new(STANDARD, 7);
    let public = PublicKey::generate(&client.secret, &mut client.rng).unwrap();
    // Other numbers, and another object with the same.
    for other in [REAL, STANDARD] {
        let other = Client::new(other, 8).parameters().clone();
        let seeded = Zero::seeded(&other, &client.secret, 1, &mut client.rng).map(drop);
        let full = Zero::public(&other, &public, 1, &mut client.rng).map(drop);
        for refused in [seeded, full] {
            assert!(matches!(refused, Err(CkksError::Rlwe(RlweError::OtherParameters { .. }))), "{refused:?}");
        }
        let own = client.parameters().clone();
        let zeros = [
            Zero::seeded(&own, &client.secret, 1, &mut client.rng).unwrap(),
            Zero::public(&own, &public, 1, &mut client.rng).unwrap(),
        ];
        assert!(zeros.into_iter().all(|zero| matches!(zero.into_bytes(&other), Err(CkksError::Ring(_)))));
    }
}

#[test]
fn the_noise_of_a_public_key_is_predicted() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 6);
        let public = PublicKey::generate(&client.secret, &mut client.rng).unwrap();
        let (parameters, values) = (client.parameters().clone(), client.values(1.0));
        let plaintext = client.encoder.encode(&values, 2, parameters.scale()).unwrap();
        let sent = client.encoder.encrypt_public(&plaintext, &public, &mut client.rng).unwrap();
        let slots = client.decrypt(&sent);
        let square = slots.iter().zip(&values).map(|(a, b)| (a - b).norm_sqr()).sum::<f64>() / slots.len() as f64;
        let ratio = square.sqrt() * parameters.scale() / NoiseModel::new(&parameters).public_encryption();
        // The errors of 2048 slots that share an ephemeral secret and a key.
        assert!((0.85..1.15).contains(&ratio), "{preset}: {ratio}");
    }
}

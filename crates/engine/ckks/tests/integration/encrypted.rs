//! Encryption with a public key, and with precomputed encryptions of zero.

use crate::common::{Client, REAL, STANDARD};
use unspoken_ckks::{CkksError, Complex64, Encrypted, NoiseModel};
use unspoken_rlwe::{PublicKey, ZeroEncryption};

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
        // Six standard deviations of the noise of a public-key encryption, at a slot.
        let bound = 6.0 * 3.19 * 2.0 * 2048.0 * (4.0f64 / 3.0).sqrt() * 1.5 / parameters.scale();
        for level in [1, top] {
            let plaintext = client.encoder.encode(&values, level, parameters.scale()).unwrap();
            let full = client.encoder.encrypt_public(&plaintext, &public, &mut client.rng).unwrap();
            assert!(worst(&client.decrypt(&full), &values) < bound);
            let basis = parameters.basis(top);
            let zeros = [
                ZeroEncryption::seeded(&client.secret, basis, &mut client.rng).unwrap(),
                ZeroEncryption::public(&public, basis, &mut client.rng).unwrap(),
            ];
            for (zero, seeded) in zeros.into_iter().zip([true, false]) {
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
    let zero = ZeroEncryption::seeded(&client.secret, parameters.basis(1), &mut client.rng).unwrap();
    assert!(matches!(client.encoder.encrypt_with(&plaintext, zero), Err(CkksError::Rlwe(_))));
}

#[test]
fn bytes_cut_short_are_no_vector() {
    let mut client = Client::new(STANDARD, 5);
    let parameters = client.parameters().clone();
    let plaintext = client.encoder.encode(&[Complex64::from(1.0)], 2, parameters.scale()).unwrap();
    let zero = ZeroEncryption::seeded(&client.secret, parameters.basis(2), &mut client.rng).unwrap();
    let bytes = client.encoder.encrypt_with(&plaintext, zero).unwrap().to_bytes(&parameters);
    assert!(Encrypted::from_bytes(&parameters, &bytes).is_ok());
    for len in [0, 6, 7, 30, bytes.len() - 1] {
        assert!(Encrypted::from_bytes(&parameters, &bytes[..len]).is_err());
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
        // The tolerance is wide because the 2048 slots share one ephemeral secret and one key.
        assert!((0.85..1.15).contains(&ratio), "{preset}: {ratio}");
    }
}

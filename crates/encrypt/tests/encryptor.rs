//! One call, whatever the plan, and what it refuses.

mod common;

use std::time::Duration;

use common::{Client, TOLERANCE};
use unspoken_ckks::{CkksError, Complex64, Encrypted};
use unspoken_encrypt::{Empty, EncryptError, Encryptor, Needs};

#[test]
fn every_plan_encrypts() {
    let client = Client::new(21);
    for key in client.keys() {
        let entry = client.entry_bytes(&key);
        for needs in [Needs::default(), Needs { burst: 2, memory_bytes: 10 * entry }] {
            for empty in [Empty::FallBack, Empty::Wait(Duration::from_secs(60))] {
                let mut encryptor = Encryptor::new(&client.parameters, key.clone(), needs).unwrap().when_empty(empty);
                assert_eq!(encryptor.plan().zeros, needs.burst);
                for i in 0..6 {
                    let values = [Complex64::new(f64::from(i) / 6.0, -1.0)];
                    let sent = encryptor.encrypt(&values).unwrap();
                    assert_eq!(matches!(sent, Encrypted::Seeded(_)), key.is_seeded());
                    assert_eq!(sent.level(), client.parameters.max_level());
                    assert!(client.error(sent, &values) < TOLERANCE);
                }
            }
        }
    }
}

#[test]
fn values_that_cannot_be_encrypted_are_named() {
    let client = Client::new(22);
    let [key, _] = client.keys();
    let mut encryptor = Encryptor::new(&client.parameters, key, Needs::default()).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut values = vec![Complex64::from(1.0); 8];
        values[5].im = bad;
        let error = encryptor.encrypt(&values).unwrap_err();
        assert!(matches!(error, EncryptError::Ckks(CkksError::Value { index: 5, .. })), "{error}");
    }
    let scale = client.parameters.scale();
    let mut values = vec![Complex64::from(1.0); 8];
    for (large, level) in [(1e40, 4), (-1e300, 4), (f64::MAX, 4), (1e10, 0)] {
        values[3] = Complex64::from(large);
        let error = encryptor.encrypt_at(&values, level, scale).unwrap_err();
        assert!(matches!(error, EncryptError::Overflow { index: 3, .. }), "{large}: {error}");
        assert!(error.to_string().contains("value 3"), "{error}");
    }
    let error = encryptor.encrypt(&[Complex64::from(1.0); 3]).unwrap_err();
    assert!(matches!(error, EncryptError::Ckks(CkksError::Shape { found: 3, .. })), "{error}");
    assert!(encryptor.encrypt_at(&values[..1], 0, f64::NAN).is_err());
    assert!(encryptor.encrypt_at(&values[..1], 99, scale).is_err());
}

//! Pools for BFV and BGV: the entries do not depend on the scheme.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use unspoken_encrypt::{ClientKey, Pool, PoolOptions};
use unspoken_exact::{Encoder, Encrypted, Evaluator, Preset, Scheme};
use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{PublicKey, SecretKey, ZeroEncryption};

const PATIENCE: Duration = Duration::from_secs(60);
const ENTRIES: usize = 2;

#[test]
fn counts_go_out_on_entries_of_a_pool() {
    for scheme in [Scheme::Bfv, Scheme::Bgv] {
        let parameters = Preset::find("insecure_n10_exact17").unwrap().build(scheme).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters), Evaluator::new(&parameters));
        let mut rng = SecretRng::insecure_from_seed(31);
        let secret = Arc::new(SecretKey::generate(parameters.rlwe(), &mut rng).unwrap());
        let public = Arc::new(PublicKey::generate(&secret, &mut rng).unwrap());
        let basis = Basis::chain(parameters.ring().chain().len());
        for key in [ClientKey::Secret(Arc::clone(&secret)), ClientKey::Public(public)] {
            let capacity_bytes = ENTRIES * ZeroEncryption::memory_bytes(parameters.rlwe(), basis, key.is_seeded());
            let pool = Pool::new(key.clone(), PoolOptions { basis, capacity_bytes, background: true }).unwrap();
            // More vectors than entries: the thread refills the pool, and no two vectors share an entry.
            let mut sent = HashSet::new();
            let mut sum = None;
            for i in 0..3 * ENTRIES as i64 {
                let plaintext = encoder.encode_slots(&[i, -i, 1]).unwrap();
                let encrypted = encoder.encrypt_with(&plaintext, pool.take_within(PATIENCE).unwrap()).unwrap();
                assert_eq!(matches!(encrypted, Encrypted::Seeded(_)), key.is_seeded());
                assert!(sent.insert(encrypted.to_bytes()));
                let next = encrypted.expand().unwrap();
                sum = Some(match sum {
                    Some(sum) => evaluator.add(&sum, &next).unwrap(),
                    None => next,
                });
            }
            let slots = encoder.decode_slots(&encoder.decrypt(&sum.unwrap(), &secret).unwrap()).unwrap();
            assert_eq!(slots[..4], [15, -15, 6, 0], "{scheme}");
        }
    }
}

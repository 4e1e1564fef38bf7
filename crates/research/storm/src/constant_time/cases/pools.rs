//! Pools of encryptions of zero, in memory and in a file.

use std::path::Path;
use std::sync::Arc;

use unspoken_ckks::Encoder;
use unspoken_encrypt::{ClientKey, Pool, PoolFile, PoolOptions, PoolPaths, PoolShape};
use unspoken_rlwe::{PublicKey, ZeroEncryption};

use super::ckks::{BOOTSTRAPPED, parameters, secret_key};
use super::{secret_generator, secret_key as sealing_key, secret_numbers};

pub fn run(directory: &Path) -> anyhow::Result<()> {
    let mut generator = secret_generator();
    let parameters = parameters(BOOTSTRAPPED)?;
    let (level, scale) = (1, parameters.scale());
    let basis = parameters.basis(level);
    let secret = secret_key(&parameters)?;
    let public = PublicKey::generate(&secret, &mut generator)?;
    let keys = [ClientKey::Secret(Arc::new(secret)), ClientKey::Public(Arc::new(public))];
    let encoder = Encoder::new(&parameters);
    let plaintext = encoder.encode_real(&secret_numbers(parameters.slots()), level, scale)?;
    for (number, key) in keys.into_iter().enumerate() {
        let entry = ZeroEncryption::memory_bytes(parameters.rlwe(), basis, key.is_seeded());
        let options = PoolOptions { basis, capacity_bytes: 2 * entry, background: false };
        let pool = Pool::new(key.clone(), options)?;
        anyhow::ensure!(pool.fill(&mut generator)? == 2, "the pool is not full");
        let paths = PoolPaths::beside(directory.join(format!("pool{number}")));
        let shape = PoolShape { basis, capacity: 2 };
        let mut file = PoolFile::create(&paths, &sealing_key(), key, shape)?;
        anyhow::ensure!(file.refill(&mut generator, 2)? == 2, "the pool file is not full");
        for zero in [pool.take()?, file.take()?].into_iter().flatten() {
            encoder.encrypt_with(&plaintext, zero)?.to_bytes(&parameters);
        }
    }
    Ok(())
}

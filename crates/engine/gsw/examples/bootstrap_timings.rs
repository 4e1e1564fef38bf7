//! Prints the running times of a circuit bootstrap and an external product at secure parameters, on one thread.

use std::sync::Arc;
use std::time::Instant;

use unspoken_gsw::{
    BinaryRingLiteral, BootstrapLiteral, BootstrapParameters, CircuitBootstrapKey, GadgetLiteral, LweCiphertext,
    LweLiteral, LweSecret, Noise, RingSecret, SeededBlindRotationKey, SeededConversionKey,
};
use unspoken_ring::SecretRng;
use unspoken_ring::modular::primes_descending;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parameters = BootstrapParameters::new(BootstrapLiteral {
        ring: BinaryRingLiteral {
            name: "n11_bits52",
            degree: 2048,
            primes: primes_descending(1 << 25, 1 << 26, 4096).take(2).collect(),
        },
        lwe: LweLiteral { dimension: 700, error_terms: 16 },
        rotation: GadgetLiteral { log2_base: 11, levels: 4 },
        trace: GadgetLiteral { log2_base: 4, levels: 12 },
        output: GadgetLiteral { log2_base: 4, levels: 7 },
    })?;
    let mut rng = SecretRng::from_os()?;
    let secret = RingSecret::generate(parameters.ring(), &mut rng)?;
    let lwe = LweSecret::generate(parameters.lwe(), &mut rng);
    let started = Instant::now();
    let rotation = SeededBlindRotationKey::generate(&lwe, &secret, parameters.rotation(), &mut rng)?;
    let conversion = SeededConversionKey::generate(&parameters, &secret, &mut rng)?;
    println!("keys made in {:.2} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let key = CircuitBootstrapKey::new(rotation.expand(parameters.ring())?, Arc::new(conversion.expand()?));
    println!("keys expanded in {:.2} s, {} MB", started.elapsed().as_secs_f64(), key.bytes() >> 20);
    let seed = rng.seed();
    for i in 0..5u64 {
        let body = lwe.encrypt(1 << 31, (&seed, i), parameters.lwe(), &mut rng);
        let ciphertext = LweCiphertext::expand(body, (&seed, i), lwe.dimension());
        let started = Instant::now();
        let rgsw = key.bootstrap(&ciphertext, parameters.output())?;
        let bootstrapped = started.elapsed().as_secs_f64();
        let message = parameters.ring().evaluate_i64(&vec![0; 2048], parameters.ring().basis())?;
        let operand = secret.encrypt(&message, &mut rng)?;
        let started = Instant::now();
        for _ in 0..100 {
            rgsw.external_product(parameters.ring(), &operand)?;
        }
        let product = started.elapsed().as_secs_f64() / 100.0;
        println!("bootstrap {:.1} ms, external product {:.1} us", bootstrapped * 1e3, product * 1e6);
    }
    println!("log2 of the deviation of a product: {:.1}", Noise::bootstrapped_product(&parameters).log2_deviation());
    Ok(())
}

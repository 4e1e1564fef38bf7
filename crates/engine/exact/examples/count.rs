//! Counts records that match two conditions: one is encrypted, the other is the server's own.
//!
//! A clinic stores which patients have a diagnosis; a registry stores in which district each patient lives. The
//! registry learns no diagnosis. The clinic learns how many patients with the diagnosis live in each district.

use std::time::Instant;

use unspoken_exact::{Encoder, Evaluator, Preset, Scheme};
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

const PATIENTS: usize = 4000;
const DISTRICTS: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = SecretRng::from_os()?;
    let mut bytes = vec![0; 2 * PATIENTS];
    rng.fill(&mut bytes);
    let diagnosis: Vec<i64> = bytes[..PATIENTS].iter().map(|b| i64::from(*b < 40)).collect();
    let district: Vec<usize> = bytes[PATIENTS..].iter().map(|b| usize::from(*b) % DISTRICTS).collect();

    for scheme in [Scheme::Bfv, Scheme::Bgv] {
        let parameters = Preset::find("n12_exact17")?.build(scheme)?;
        let (encoder, evaluator) = (Encoder::new(&parameters), Evaluator::new(&parameters));
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;

        let start = Instant::now();
        let query = encoder.encrypt(&encoder.encode_coefficients(&diagnosis)?, &secret, &mut rng)?;
        let sent = query.to_bytes().len();
        println!("{scheme}: {PATIENTS} flags encrypted in {:.2?}, {sent} bytes", start.elapsed());

        let encrypted = query.expand()?;
        for wanted in 0..DISTRICTS {
            let mask: Vec<i64> = district.iter().map(|&d| i64::from(d == wanted)).collect();
            let answer = evaluator.mul_plain(&encrypted, &encoder.encode_weights(&mask)?)?;
            let measured = encoder.measured_budget_bits(&answer, &secret)?;
            let count = encoder.decode_coefficients(&encoder.decrypt(&answer, &secret)?)?[0];
            let expected: i64 = diagnosis.iter().zip(&mask).map(|(a, b)| a * b).sum();
            assert_eq!(count, expected);
            println!(
                "  district {wanted}: {count:3} patients; noise budget {:.0} bits at least, {measured:.0} measured",
                answer.budget_bits()
            );
        }
    }
    Ok(())
}

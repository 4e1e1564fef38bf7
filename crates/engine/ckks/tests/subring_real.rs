//! One bootstrap of a subring query with parameters of 128 bits of security. It needs about 1.5 GB of memory and a
//! quarter of a minute.

mod common;

use std::f64::consts::PI;

use common::Client;
use unspoken_ckks::{Complex64, ErrorStatistics, Simulator, SubringBootstrap, SubringBootstrapper};
use unspoken_rlwe::{KeyStorage, SubringQuerySecret};

#[test]
fn a_query_of_4096_elements_takes_less_than_a_gigabyte_of_keys() {
    let mut client = Client::new("n16_query_depth11_scale40", 1);
    let plan = SubringBootstrap::new(client.parameters(), 4096).unwrap();
    let (keys, ring) = (plan.key_plan(), client.parameters().ring());
    assert!(keys.memory_bytes(ring) < 750_000_000, "{}", keys.memory_bytes(ring));
    assert!(keys.stored_bytes(ring, KeyStorage::Seeded) < 400_000_000 && keys.wire_bytes(ring) < 350_000_000);
    assert!(plan.log2_failure() < -49.0);
    let (scale, slots) = (client.parameters().scale(), client.parameters().slots());
    let elements: Vec<f64> = (0..4096).map(|i| ((i * 37) % 1021) as f64 / 1021.0 - 0.5).collect();
    let mut wanted = vec![Complex64::default(); 4096];
    elements.iter().enumerate().for_each(|(i, t)| wanted[plan.slot_of(i)] = Complex64::cis(2.0 * PI * t));
    let wanted = wanted.repeat(slots / 4096);
    let simulator = Simulator::new(&client.encoder, 2);
    let expected = plan.simulate(&simulator, &elements, scale).unwrap().error();
    assert_eq!(simulator.overflows(), []);

    let secret = SubringQuerySecret::of(&client.secret, plan.queries()).unwrap();
    let query = secret.encrypt(&elements, &mut client.rng).unwrap();
    let keys = client.keys(&keys);
    let bootstrapper = SubringBootstrapper::new(&client.encoder, plan).unwrap();
    let output = bootstrapper.exponential(&client.evaluator(&keys), &query, scale).unwrap();
    assert_eq!(output.level(), 11);
    let found = ErrorStatistics::between(&client.decrypt(&output), &wanted);
    println!("rms 2^{:.1}, worst 2^{:.1}", found.rms.log2(), found.worst.log2());
    assert!(found.worst < 2f64.powi(-21), "2^{:.1}", found.worst.log2());
    assert!((0.5..2.0).contains(&(found.rms / expected.rms)), "{} of {}", found.rms, expected.rms);
}

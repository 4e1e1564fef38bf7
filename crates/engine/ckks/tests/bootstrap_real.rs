//! One bootstrap with parameters of 128 bits of security. It needs about 6 GB of memory and half a minute.

mod common;

use common::Client;
use unspoken_ckks::{Bootstrap, Bootstrapper, ErrorStatistics, Simulator, SlotValues};

#[test]
fn the_largest_preset_keeps_twenty_bits_in_every_slot() {
    let mut client = Client::new("n16_boot_depth10_scale50", 1);
    let slots = client.parameters().slots();
    let plan = Bootstrap::new(client.parameters(), slots, SlotValues::Complex).unwrap();
    assert!(plan.depth() >= 8 && plan.log2_failure() < -40.0);
    let keys = plan.key_plan();
    assert!(keys.memory_bytes(client.parameters().ring()) < 4_000_000_000);
    assert!(keys.wire_bytes(client.parameters().ring()) < 2_000_000_000);
    let input = client.values(1.0);
    let simulator = Simulator::new(&client.encoder, 2);
    let simulated = simulator.encrypt(&input, plan.input_level(), client.parameters().scale()).unwrap();
    let simulated = plan.simulate_refresh(&simulator, &simulated).unwrap();
    let expected = ErrorStatistics::between(simulated.noisy(), &input);

    let keys = client.keys(&keys);
    let encrypted = client.encrypt(&input, plan.input_level());
    let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
    let output = bootstrapper.refresh(&client.evaluator(&keys), &encrypted).unwrap();
    let found = ErrorStatistics::between(&client.decrypt(&output), &input);
    println!("rms 2^{:.1}, worst 2^{:.1}", found.rms.log2(), found.worst.log2());
    assert!(found.worst < 2f64.powi(-20), "2^{:.1}", found.worst.log2());
    assert!((0.5..2.0).contains(&(found.rms / expected.rms)), "{} of {}", found.rms, expected.rms);
}

//! Bootstraps of subring queries in a small insecure ring: encrypted runs against simulated runs and values in the
//! clear.

use std::f64::consts::PI;

use crate::common::Client;
use unspoken_ckks::{
    Bootstrap, CkksError, Complex64, ErrorStatistics, Preset, Simulator, SlotValues, SubringBootstrap,
    SubringBootstrapper,
};
use unspoken_rlwe::{
    EvaluationKeys, KeyKind, RlweError, SubringQuery, SubringQueryParameters, SubringQuerySecret, galois,
};

/// Elements, and their exponentials in the slots of a period.
fn torus(plan: &SubringBootstrap) -> (Vec<f64>, Vec<Complex64>) {
    let count = plan.queries().len();
    let elements: Vec<f64> = (0..count).map(|i| (i * i % 509) as f64 / 509.0 - 0.5).collect();
    let mut exponentials = vec![Complex64::default(); count];
    elements.iter().enumerate().for_each(|(i, t)| exponentials[plan.slot_of(i)] = Complex64::cis(2.0 * PI * t));
    (elements, exponentials)
}

#[test]
fn elements_become_exponentials_with_the_noise_that_was_simulated() {
    for (preset, counts, worst) in [
        ("insecure_n11_query_depth11_scale40", [4, 32, 512], -20.0),
        ("insecure_n11_boot_depth10_scale50", [8, 128, 512], -23.0),
    ] {
        let mut client = Client::new(preset, 1);
        for count in counts {
            let plan = SubringBootstrap::new(client.parameters(), count).unwrap();
            let queries = plan.queries().clone();
            let (scale, level) = (client.parameters().scale(), client.parameters().circuit_level());
            let (elements, exponentials) = torus(&plan);
            let wanted = exponentials.repeat(client.parameters().slots() / count);

            let simulator = Simulator::new(&client.encoder, 5).with_keys(plan.key_plan());
            let simulated = plan.simulate(&simulator, &elements, scale).unwrap();
            let expected = simulated.error();
            assert!(ErrorStatistics::between(simulated.exact(), &wanted).worst < 2f64.powi(-30), "{preset} {count}");
            assert_eq!((simulator.key_plan(), simulator.overflows()), (plan.key_plan(), vec![]), "{preset} {count}");

            let secret = SubringQuerySecret::of(&client.secret, &queries).unwrap();
            let bytes = secret.encrypt(&elements, &mut client.rng).unwrap().to_bytes(&queries).unwrap();
            assert_eq!(bytes.len(), 16 + count * 30 / 8);
            let query = SubringQuery::from_bytes(&queries, &bytes).unwrap();
            let keys = client.keys(&plan.key_plan());
            let bootstrapper = SubringBootstrapper::new(&client.encoder, plan).unwrap();
            let output = bootstrapper.exponential(&client.evaluator(&keys), &query, scale).unwrap();
            assert_eq!(output.level(), level);
            assert!((output.scale() / scale - 1.0).abs() < 1e-9);
            let found = ErrorStatistics::between(&client.decrypt(&output), &wanted);
            let bits = [found.rms, found.worst, expected.rms].map(f64::log2);
            println!("{preset} {count}: rms 2^{:.1}, worst 2^{:.1}, predicted 2^{:.1}", bits[0], bits[1], bits[2]);
            assert!(found.worst.log2() < worst && (0.4..2.5).contains(&(found.rms / expected.rms)), "{bits:?}");
        }
    }
}

#[test]
fn one_key_serves_the_giant_steps_of_a_factor_and_one_its_baby_step() {
    let client = Client::new("insecure_n11_query_depth11_scale40", 2);
    let most = SubringQueryParameters::most(client.parameters().rlwe()).unwrap();
    let plan = SubringBootstrap::new(client.parameters(), most).unwrap().key_plan();
    // Two for each of three factors of three stages; of the query, of the conjugation, of products.
    assert_eq!(plan.len(), 9);
    let kinds: Vec<KeyKind> = plan.iter().map(|(kind, _)| kind).collect();
    let conjugation = galois::conjugation(client.parameters().ring());
    for kind in [KeyKind::SubringQuery, KeyKind::Relinearisation, KeyKind::Galois { element: conjugation }] {
        assert!(kinds.contains(&kind), "{kind}");
    }
    assert!(!kinds.iter().any(|kind| matches!(kind, KeyKind::Decapsulation { .. })));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut client = Client::new("insecure_n11_query_depth11_scale40", 3);
    for count in [0, 2, 48, 1024] {
        assert!(SubringBootstrap::new(client.parameters(), count).is_err(), "{count}");
    }
    let parameters = client.parameters().clone();
    // There are no levels for slots to coefficients.
    let error = Bootstrap::new(&parameters, parameters.slots(), SlotValues::Real).unwrap_err().to_string();
    assert!(error.contains("subring queries alone"), "{error}");
    let other = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
    assert!(SubringBootstrap::new(&other, 64).is_err());

    let plan = SubringBootstrap::new(&parameters, 64).unwrap();
    let (elements, _) = torus(&plan);
    let queries = plan.queries().clone();
    let secret = SubringQuerySecret::of(&client.secret, &queries).unwrap();
    assert!(secret.encrypt(&elements[1..], &mut client.rng).is_err());
    assert!(secret.encrypt(&[f64::NAN; 64], &mut client.rng).is_err());
    let query = secret.encrypt(&elements, &mut client.rng).unwrap();
    let bytes = query.to_bytes(&queries).unwrap();
    assert!(SubringQuery::from_bytes(&queries, &bytes[1..]).is_err());
    assert!(SubringQuery::from_bytes(&queries, &[0xff; 256]).is_err());
    let beyond = [bytes[..16].to_vec(), vec![0xff; bytes.len() - 16]].concat();
    assert!(matches!(SubringQuery::from_bytes(&queries, &beyond), Err(RlweError::Ring(_))));

    let simulator = Simulator::new(&client.encoder, 1);
    assert!(plan.simulate(&simulator, &elements[1..], parameters.scale()).is_err());
    let wanted = plan.key_plan().len();
    let bootstrapper = SubringBootstrapper::new(&client.encoder, plan).unwrap();
    let none = EvaluationKeys::new();
    let error = bootstrapper.exponential(&client.evaluator(&none), &query, parameters.scale()).unwrap_err();
    let CkksError::Rlwe(RlweError::MissingKeys { missing, .. }) = error else { panic!("{error}") };
    assert_eq!(missing.len(), wanted);
}

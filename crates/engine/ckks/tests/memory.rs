//! Estimates of memory against measured allocations, in a small insecure ring.

#[path = "common/memory.rs"]
mod memory;

use std::collections::BTreeMap;

use memory::{Checks, Server, allocated, own_parameters, peak};
use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, CkksError, CkksParameters, Complex64, Encoder, LinearPlan, LinearTransform,
    Simulator, SlotValues, Steps, SubringBootstrap, SubringBootstrapper,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{SecretKey, SubringQuerySecret};

const PRESET: &str = "insecure_n11_depth9_scale50";
const BOOT: &str = "insecure_n11_boot_depth10_scale50";
const QUERY: &str = "insecure_n11_query_depth11_scale40";
const LEVEL: usize = 6;

/// Ten rotations, then sixty products of them, which are kept and summed.
fn many_vectors<A: Arithmetic>(a: &A, x: &A::Vector) -> Result<A::Vector, CkksError> {
    let rotated = a.rotate_hoisted(x, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10])?;
    let mut kept = Vec::new();
    for r in &rotated {
        for s in rotated.iter().take(6) {
            kept.push(a.multiply(r, s)?);
        }
    }
    kept.iter().skip(1).try_fold(kept[0].clone(), |sum, v| a.add(&sum, v))
}

/// Bytes that the result of `work` takes.
fn kept<T>(encoder: &Encoder, work: impl FnOnce() -> T) -> (T, u64) {
    let ring = encoder.parameters().ring();
    ring.release_idle();
    let before = allocated();
    let result = work();
    ring.release_idle();
    (result, allocated() - before)
}

#[test]
fn estimates_bound_what_is_allocated() {
    let mut checks = Checks::default();
    let parameters = own_parameters(PRESET);
    let scale = parameters.scale();
    let counter = Simulator::counting(&Encoder::new(&parameters));
    let input = counter.encrypt(&[], LEVEL, scale).unwrap();
    let estimate = counter.working_bytes(|counter| many_vectors(counter, &input)).unwrap();
    let server = Server::new(PRESET, &counter.key_plan(), 1, (LEVEL, scale));
    let (result, measured) = peak(|| many_vectors(&server.evaluator(), &server.inputs[0]));
    result.unwrap();
    checks.check("products of rotations", measured, estimate, 2.0);

    for (count, babies) in [(64, 8), (64, 64), (40, 1)] {
        let plan = |parameters: &CkksParameters| {
            let value = |k: usize, j: usize| Complex64::from((k + j) as f64 / 2048.0);
            let diagonal = |k: usize| (k, (0..parameters.slots()).map(|j| value(k, j)).collect());
            let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..count).map(diagonal).collect();
            let plan = LinearPlan::new(parameters, diagonals, LEVEL, scale, scale).unwrap();
            plan.with_steps(Steps::of_babies(babies)).unwrap()
        };
        let server = Server::new(PRESET, &plan(&parameters).key_plan(), 1, (LEVEL, scale));
        // The values of the diagonals are allocated before the measurement, because the plan holds them.
        let values = (count * parameters.slots() * size_of::<Complex64>()) as u64;
        // The plan belongs to the server's ring, as in a service.
        let plan = plan(server.encoder.parameters());
        let (transform, measured) = kept(&server.encoder, || LinearTransform::new(&server.encoder, plan).unwrap());
        checks.check("prepared diagonals", measured, transform.prepared_bytes() - values, 1.2);
        let (result, measured) = peak(|| transform.apply(&server.evaluator(), &server.inputs[0]));
        result.unwrap();
        let what = format!("{count} diagonals by {babies} baby steps");
        checks.check(&what, measured, transform.working_bytes(), 3.0);
    }

    let plan = |parameters: &_| Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex).unwrap();
    let boot = own_parameters(BOOT);
    let planned = plan(&boot);
    let encoder = Encoder::new(&boot);
    // The plan holds the values, which are there already.
    let (bootstrapper, measured) = kept(&encoder, || Bootstrapper::new(&encoder, planned.clone()).unwrap());
    checks.check("matrices of a bootstrap", measured, bootstrapper.prepared_bytes(), 1.2);
    let server = Server::new(BOOT, &planned.key_plan(), 1, (planned.input_level(), boot.scale()));
    let bootstrapper = Bootstrapper::new(&server.encoder, plan(server.encoder.parameters())).unwrap();
    server.encoder.parameters().ring().release_idle();
    let (result, measured) = peak(|| bootstrapper.refresh(&server.evaluator(), &server.inputs[0]));
    result.unwrap();
    checks.check("bootstrap", measured, bootstrapper.working_bytes(), 3.0);
    server.encoder.parameters().ring().release_idle();
    let group = [&server.inputs[0]; 3];
    let (result, measured) = peak(|| bootstrapper.refresh_many(&server.evaluator(), &group));
    result.unwrap();
    let estimate = bootstrapper.plan().working_bytes_of_many(&server.encoder, group.len()).unwrap();
    checks.check("three bootstraps at once", measured, estimate, 4.5);

    let parameters = own_parameters(QUERY);
    let planned = SubringBootstrap::new(&parameters, 512).unwrap();
    let server = Server::new(QUERY, &planned.key_plan(), 1, (1, parameters.scale()));
    let planned = SubringBootstrap::new(server.encoder.parameters(), 512).unwrap();
    let bootstrapper = SubringBootstrapper::new(&server.encoder, planned.clone()).unwrap();
    let mut rng = SecretRng::insecure_from_seed(3);
    // Another secret than the secret of the keys, because the values do not matter.
    let secret = SecretKey::generate(server.encoder.parameters().rlwe(), &mut rng).unwrap();
    let secret = SubringQuerySecret::of(&secret, planned.queries()).unwrap();
    let query = secret.encrypt(&[0.25; 512], &mut rng).unwrap();
    server.encoder.parameters().ring().release_idle();
    let (result, measured) = peak(|| bootstrapper.exponential(&server.evaluator(), &query, parameters.scale()));
    result.unwrap();
    checks.check("bootstrap of a query", measured, bootstrapper.working_bytes(), 3.5);
    checks.finish();
}

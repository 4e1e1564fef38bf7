//! A server on a device computes the bits of one on the processor.

use std::sync::atomic::AtomicBool;

use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksError, CkksParameters, CoefficientMatrix, Complex64,
    DimensionPlaces, Encoder, Evaluator, LinearPlan, LinearTransform, PRESETS, PreparedVector, Preset,
    SeededCiphertext, Simulator, SlotValues, Steps,
};
use unspoken_ring::{Backend, Basis, Device, GadgetKey, Poly, Ring, RingError, RingLiteral, SecretRng, Seed, Special};
use unspoken_rlwe::{EvaluationKeys, KeyBundle, KeyPlan, KeyStorage, SecretKey, SeededSmallRingKeys};

const PRESET: &str = "insecure_n11_depth9_scale50";
const BOOT: &str = "insecure_n11_boot_depth10_scale50";
const RATIONAL: &str = "insecure_n11_boot_depth15_scale40";

fn parameters(preset: &str) -> CkksParameters {
    CkksParameters::new(Preset::find(preset).unwrap().literal().unwrap()).unwrap()
}

/// What a client sends: its keys, and encrypted vectors.
struct Sent {
    keys: Vec<u8>,
    vectors: Vec<Vec<u8>>,
    /// Keys of products between the halves of a bootstrap, if it has any.
    small: Vec<u8>,
}

const WEIGHT_BITS: u32 = 12;
const SMALL_DEGREE: usize = 512;
const TOKENS: usize = 16;

impl Sent {
    fn new(preset: &str, plan: &KeyPlan, level: usize) -> Self {
        let parameters = parameters(preset);
        let encoder = Encoder::new(&parameters);
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        let mut keys = Vec::new();
        KeyBundle::write(&secret, plan, &mut rng, &mut keys, |_, _| (), &AtomicBool::new(false)).unwrap();
        let vectors = (1..=2).map(|factor| {
            let value = |i: usize| Complex64::new((factor * i % 7) as f64 / 7.0, (i % 5) as f64 / 9.0);
            let values: Vec<Complex64> = (0..parameters.slots()).map(value).collect();
            let plaintext = encoder.encode(&values, level, parameters.scale()).unwrap();
            encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().to_bytes(&parameters)
        });
        let vectors = vectors.collect();
        let small = Bootstrap::for_products(&parameters, WEIGHT_BITS).map_or(Vec::new(), |plan| {
            let ring = plan.small_ring(SMALL_DEGREE, TOKENS).unwrap();
            SeededSmallRingKeys::generate(&ring, &secret, &mut rng).unwrap().to_bytes(&ring)
        });
        Sent { keys, vectors, small }
    }

    /// The bytes of what a server computes from them, on the processor or on a device; and how many polynomials were
    /// fetched from the device in between.
    fn served(
        &self,
        parameters: &CkksParameters,
        storage: KeyStorage,
        work: impl Fn(&Evaluator<'_>, &[Ciphertext]) -> Result<Vec<Ciphertext>, CkksError>,
    ) -> (Vec<Vec<u8>>, u64) {
        let encoder = Encoder::new(parameters);
        let keys: EvaluationKeys = KeyBundle::read(parameters.rlwe(), storage, &mut self.keys.as_slice()).unwrap();
        let read = |bytes: &Vec<u8>| SeededCiphertext::from_bytes(parameters, bytes).unwrap().expand(parameters);
        let inputs: Vec<Ciphertext> = self.vectors.iter().map(read).collect();
        let before = parameters.ring().fetched_polynomials();
        let results = work(&Evaluator::new(&encoder, &keys), &inputs).unwrap();
        let fetched = parameters.ring().fetched_polynomials() - before;
        let bytes = results.into_iter().map(|mut result| {
            result.fetch(parameters).unwrap();
            result.to_bytes(parameters)
        });
        (bytes.collect(), fetched)
    }

    /// That both compute the same. Returns how many polynomials were fetched.
    fn same(
        &self,
        preset: &str,
        device: &Device,
        work: impl Fn(&Evaluator<'_>, &[Ciphertext]) -> Result<Vec<Ciphertext>, CkksError>,
    ) -> u64 {
        let host = parameters(preset);
        let there = host.on_device(device).unwrap();
        let (wanted, _) = self.served(&host, KeyStorage::Expanded, &work);
        let (found, fetched) = self.served(&there, KeyStorage::Expanded, &work);
        assert_eq!(wanted.len(), found.len());
        for (number, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
            assert!(wanted == found, "{preset}: result {number} has other bits");
        }
        fetched
    }
}

/// Every operation, with real and complex constants and vectors whose slots repeat or not.
fn arithmetic<A: Arithmetic>(a: &A, x: &A::Vector, y: &A::Vector) -> Result<Vec<A::Vector>, CkksError> {
    let scale = a.parameters().scale();
    let product = a.multiply(x, y)?;
    let rotated = a.rotate_hoisted(&product, &[1, 2, 5])?;
    let sum = rotated.iter().skip(1).try_fold(rotated[0].clone(), |sum, v| a.add(&sum, v))?;
    let square = a.multiply(&sum, &sum)?;
    let level = a.level(&sum);
    let constant = Complex64::new(0.75, -1.5);
    let tensors = a.sum_tensors(&[(x, y), (y, y)])?;
    let values = |period: usize| -> Vec<Complex64> {
        (0..a.parameters().slots()).map(|i| Complex64::new((i % period) as f64 / 3.0 - 1.0, 0.0)).collect()
    };
    let mut factors = Vec::new();
    for period in [1, 4, 1 << 20] {
        factors.push(PreparedVector::new(values(period), level, scale)?);
    }
    let products: Vec<_> = factors.iter().map(|factor| (&sum, factor)).collect();
    let rows: Vec<Vec<(usize, &PreparedVector)>> =
        vec![factors.iter().enumerate().map(|(i, factor)| (i % 2, factor)).collect(), vec![(1, &factors[2])]];
    let mut results = vec![
        a.rotate(&square, 3)?,
        a.sub(&sum, &rotated[0])?,
        a.relinearise_rescale(&tensors)?,
        a.drop_to(&a.relinearise(&tensors)?, level - 1)?,
        a.rescale(&a.rescale(x)?)?,
        a.sum_rotations(y, &[0, 1, 2])?,
        a.rotate_rescale(y, 5)?,
        a.conjugate(&sum)?,
        a.mul_imaginary(&sum)?,
        a.mul_monomial(&sum, 77)?,
        a.mul_constant(&sum, constant, a.scale(&sum) * scale)?,
        a.add_constant(&sum, constant)?,
        a.sum_multiples(&[(x, constant), (y, Complex64::from(-3.0))], level, scale * 1024.0)?,
        a.mul_values(&sum, &values(7), scale)?,
        a.add_values(&sum, &values(5))?,
        a.sum_products(&products)?,
        a.sum_slots(&sum, 1, 4)?,
    ];
    results.extend(a.rotation_products(&sum, &[1, 5], &rows)?);
    Ok(results)
}

/// Diagonals whose slots repeat with a period.
fn diagonals(parameters: &CkksParameters, level: usize, input_scale: f64, period: usize) -> LinearPlan {
    let value = |k: usize, j: usize| Complex64::new((k + j) as f64 / 2048.0, (k * j % 11) as f64 / 11.0);
    let diagonal = |k: usize| (k, (0..parameters.slots()).map(|j| value(k, j % period)).collect());
    let plan = LinearPlan::new(parameters, (0..20).map(diagonal).collect(), level, input_scale, parameters.scale());
    plan.unwrap().with_steps(Steps::of_babies(5)).unwrap()
}

#[test]
fn a_server_on_a_device_computes_the_same_bits() {
    let device = unspoken_device_shim::device(2 << 30);
    // Levels of primes of one size, and of several sizes.
    for (preset, level) in [(PRESET, 6), (RATIONAL, 9)] {
        same_arithmetic(&device, preset, level);
    }
}

fn same_arithmetic(device: &Device, preset: &str, level: usize) {
    let counter = Simulator::counting(&Encoder::new(&parameters(preset)));
    let input = counter.encrypt(&[], level, counter.parameters().scale()).unwrap();
    let results = arithmetic(&counter, &input, &input).unwrap();
    let after = counter.level(&results[0]);
    let mut plan = counter.key_plan();
    plan.extend(&diagonals(counter.parameters(), after, 1e15, 1 << 20).key_plan());
    let fetched = Sent::new(preset, &plan, level).same(preset, device, |evaluator, inputs| {
        let mut results = arithmetic(evaluator, &inputs[0], &inputs[1])?;
        let encoder = evaluator.encoder();
        for period in [8, 64, 1 << 20] {
            let plan = diagonals(encoder.parameters(), after, results[0].scale(), period);
            results.push(LinearTransform::new(encoder, plan)?.apply(evaluator, &results[0])?);
        }
        Ok(results)
    });
    assert_eq!(fetched, 0, "nothing comes from the device before the results");
}

#[test]
fn a_bootstrap_on_a_device_computes_the_same_bits() {
    let device = unspoken_device_shim::device(4 << 30);
    let plan =
        |parameters: &CkksParameters| Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex).unwrap();
    let planned = plan(&parameters(BOOT));
    let sent = Sent::new(BOOT, &planned.key_plan(), planned.input_level());
    let between = std::cell::Cell::new(0);
    sent.same(BOOT, &device, |evaluator, inputs| {
        let encoder = evaluator.encoder();
        let bootstrapper = Bootstrapper::new(encoder, plan(encoder.parameters()))?;
        let first = bootstrapper.refresh(evaluator, &inputs[0])?;
        // Short forms of keys are made at their first use, on the processor.
        let before = encoder.parameters().ring().fetched_polynomials();
        let second = bootstrapper.refresh(evaluator, &inputs[1])?;
        // The second one was recorded.
        let ring = encoder.parameters().ring();
        assert_eq!(ring.device().map(Device::recorded), ring.device().map(|_| 1));
        let third = bootstrapper.refresh(evaluator, &inputs[0])?;
        between.set(ring.fetched_polynomials() - before);
        Ok(vec![first, second, third])
    });
    assert_eq!(between.get(), 0, "nothing comes from the device before the results");
}

#[test]
fn products_between_the_halves_of_a_bootstrap_have_the_same_bits() {
    let device = unspoken_device_shim::device(4 << 30);
    let plan = |parameters: &CkksParameters| Bootstrap::for_products(parameters, WEIGHT_BITS).unwrap();
    let planned = plan(&parameters(BOOT));
    let sent = Sent::new(BOOT, &planned.key_plan(), planned.input_level());
    let between = std::cell::Cell::new(0);
    sent.same(BOOT, &device, |evaluator, inputs| {
        let encoder = evaluator.encoder();
        let bootstrapper = Bootstrapper::new(encoder, plan(encoder.parameters()))?;
        let small = bootstrapper.plan().small_ring(SMALL_DEGREE, TOKENS)?;
        let keys = SeededSmallRingKeys::from_bytes(&small, &sent.small)?.expand(&small)?;
        let (used, outputs): (Vec<usize>, Vec<_>) = ((0..30).map(|i| 2 * i).collect(), (0..70).map(Some).collect());
        let places = DimensionPlaces { inputs: &used, outputs: &outputs };
        let weight = |output: usize, input: usize| (((output * 37 + input * 101) % 41) as f64 - 20.0) / 4096.0;
        let matrix = CoefficientMatrix::new(bootstrapper.plan(), &small, &places, 70, weight)?;
        let product = |inputs: &[&Ciphertext]| bootstrapper.refresh_product(evaluator, &keys, &matrix, 2, inputs);
        let mut results = product(&[&inputs[0], &inputs[1]])?;
        let fetched =
            || encoder.parameters().ring().fetched_polynomials() + small.parameters().ring().fetched_polynomials();
        let before = fetched();
        results.extend(product(&[&inputs[1], &inputs[0]])?);
        let ring = encoder.parameters().ring();
        assert_eq!(ring.device().map(Device::recorded), ring.device().map(|_| 2), "the halves");
        results.extend(product(&[&inputs[1], &inputs[1]])?);
        between.set(fetched() - before);
        Ok(results)
    });
    assert_eq!(between.get(), 0, "nothing comes from the device before the results");
}

/// The degree of rings with the shapes of presets.
const SMALL: usize = 512;

/// What a server does at a level with polynomials of a ring, and from there to the level below.
fn at_level(ring: &Ring, key: &GadgetKey, basis: Basis, below: Option<Basis>) -> Result<Vec<Poly>, RingError> {
    let short = match ring.switching_basis(basis).special {
        Special::Short => Some(ring.short_gadget_key(key)?),
        _ => None,
    };
    let key = short.as_ref().unwrap_or(key);
    let [a, b, c] = [0, 1, 2].map(|stream| ring.uniform(&Seed([4; 32]), stream, basis));
    let mut results: Vec<Poly> = ring.tensor([&a, &b], [&b, &c], basis)?.into();
    let digits = ring.decompose(&results[2])?;
    results.extend(ring.gadget_product_hoisted(&digits, key)?);
    results.extend(ring.hoisted_sum(&digits, &[(key, 5), (key, 1)])?);
    if let Some(below) = below {
        results.push(ring.rescale_round(&results[0], below)?);
    }
    let mut coefficients = results[1].clone();
    ring.to_coefficients(&mut coefficients)?;
    results.push(coefficients);
    Ok(results)
}

#[test]
fn rings_with_the_shapes_of_all_presets_have_the_same_bits() {
    let device = unspoken_device_shim::device(1 << 30);
    let mut seen = Vec::new();
    for preset in PRESETS {
        let literal = preset.literal().unwrap();
        let (levels, ring) = (literal.levels, RingLiteral { degree: SMALL, ..literal.rlwe.ring });
        // Without special primes there are no keys that a server switches with.
        if seen.contains(&ring) || ring.special.is_empty() {
            continue;
        }
        let host = Ring::new(ring.clone(), Backend::detect()).unwrap();
        let rings = [host.clone(), host.on_device(&device).unwrap()];
        let chain = ring.chain.len();
        let keys = rings.each_ref().map(|ring| {
            let rows = (0..ring.digit_count(chain) as u32).map(|digit| {
                [2 * digit, 2 * digit + 1]
                    .map(|stream| ring.uniform(&Seed([3; 32]), stream, ring.gadget_key_basis(chain)))
            });
            let rows: Vec<[Poly; 2]> = rows.collect();
            ring.gadget_key(chain, &rows.iter().map(|row| row.each_ref()).collect::<Vec<_>>()).unwrap()
        });
        // Levels of one shape differ in the number of primes alone.
        for (level, &basis) in levels.iter().enumerate().filter(|(level, _)| level % 3 == 0 || level + 2 > levels.len())
        {
            let below = level.checked_sub(1).map(|below| levels[below]);
            let [wanted, found] = [0, 1].map(|which| at_level(&rings[which], &keys[which], basis, below).unwrap());
            for (number, (wanted, mut found)) in wanted.into_iter().zip(found).enumerate() {
                rings[1].fetch(&mut found).unwrap();
                let [mut of_host, mut of_device] = [Vec::new(), Vec::new()];
                rings[0].write_residues(&wanted, &mut of_host);
                rings[1].write_residues(&found, &mut of_device);
                assert!(of_host == of_device, "{}, level {level}: result {number} has other bits", preset.name);
            }
        }
        seen.push(ring);
    }
    assert!(seen.len() > 10, "{} shapes", seen.len());
}

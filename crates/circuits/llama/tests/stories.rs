//! The circuit with the model stories260K: in the clear, and simulated.

use std::path::Path;
use std::sync::OnceLock;

use ndarray::{Array2, Axis, concatenate};
use unspoken_ckks::Preset;
use unspoken_llama::{
    Circuit, CircuitError, Clear, Comparison, Design, DesignOptions, EngineNoise, Margins, Noise, Place, Quantity,
    Ranges, Sample, Simulated, Simulation, Tensor, TensorArithmetic, calibrate,
};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{Generation, InputError, KvCache, Model, rotate, round_weights};

/// A rotated model, and stories that it tells.
struct Setting {
    model: Model,
    calibration: Vec<Sample>,
    held_out: Vec<Sample>,
    ranges: Ranges,
}

const PUBLIC: usize = 40;

/// With fewer rounds of softmax, the sums of some heads differ by too much.
fn circuit(model: &Model) -> Circuit {
    Circuit::new(&model.config).with_rounds(3)
}

fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
        let LoadedModel { mut model, tokenizer } = load(&path, None).unwrap();
        let story = |name: &str, animal: &str| -> Sample {
            let prompt = format!("One day, {name} and a {animal} went to the park. They saw");
            let prompt = tokenizer.encode(&prompt).unwrap();
            let told = Generation::new(&model, &prompt, &[]).unwrap().take(90);
            let tokens: Vec<u32> = prompt.iter().copied().chain(told).collect();
            Sample { public: tokens[..PUBLIC].to_vec(), private: tokens[PUBLIC..PUBLIC + 48].to_vec() }
        };
        let stories = |animals: &[&str]| -> Vec<Sample> {
            let names = ["Tom", "Lily", "Sam", "Mia", "Ben", "Anna"];
            animals.iter().flat_map(|animal| names.map(|name| story(name, animal))).collect()
        };
        let (calibration, held_out) = (stories(&["dog", "cat", "bird", "fish", "bear"]), stories(&["frog", "pig"]));
        rotate(&model.config, &mut model.weights, 1);
        let ranges = calibrate(&circuit(&model), &model, &calibration, 16, |_| {}).unwrap();
        Setting { model, calibration, held_out, ranges }
    })
}

fn design(setting: &Setting, options: &DesignOptions) -> Result<Design, CircuitError> {
    Design::new(&circuit(&setting.model), &setting.ranges, options)
}

fn wide() -> DesignOptions {
    let margins = Margins { norm: 1.2, softmax: 1.3, score: 1.3, gate: 1.5 };
    DesignOptions { margins, ..DesignOptions::default() }
}

/// Logits of all private tokens, in chunks of these lengths.
fn run<A>(arithmetic: &mut A, setting: &Setting, sample: &Sample, chunks: &[usize]) -> Array2<f32>
where
    A: TensorArithmetic<Tensor = Tensor, Error = CircuitError>,
{
    let circuit = circuit(&setting.model);
    let mut session = circuit.session(arithmetic).unwrap();
    let (mut rest, mut logits) = (&sample.private[..], Vec::new());
    for chunk in chunks {
        let (tokens, more) = rest.split_at(*chunk);
        let input = Tensor::activations(setting.model.embed(tokens));
        let normed = circuit.pass(arithmetic, &mut session, input).unwrap();
        logits.push(circuit.logits(arithmetic, &normed).unwrap());
        rest = more;
    }
    assert_eq!(session.tokens(), sample.public.len() + sample.private.len());
    let rows: Vec<_> = logits.iter().map(Tensor::rows).collect();
    concatenate(Axis(0), &rows).unwrap()
}

fn simulation<'a>(circuit: &'a Circuit, model: &'a Model, served: &'a Model, design: &'a Design) -> Simulation<'a> {
    Simulation { circuit, model, served, design, chunk: 16 }
}

fn public(setting: &Setting, sample: &Sample) -> KvCache {
    setting.model.prefix_cache(&sample.public).unwrap()
}

fn largest_difference(a: &Array2<f32>, b: &Array2<f32>) -> f32 {
    (a - b).iter().fold(0.0, |most: f32, value| most.max(value.abs()))
}

#[test]
fn the_circuit_in_the_clear_is_the_model() {
    let setting = setting();
    let sample = &setting.held_out[0];
    let public = public(setting, sample);
    let normed = setting.model.forward(&sample.private, &mut public.clone(), &mut ()).unwrap();
    let expected = setting.model.logits(normed.view());
    let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    // One chunk, several, and single tokens as in generation.
    for chunks in [&[48][..], &[16, 20, 12], &[40, 1, 1, 1, 1, 1, 1, 1, 1]] {
        let logits =
            run(&mut Clear::new(&setting.model, &public, &circuit(&setting.model), ()), setting, sample, chunks);
        assert!(largest_difference(&logits, &expected) < 2e-5 * scale, "{chunks:?}");
    }
}

#[test]
fn polynomials_with_wide_margins_agree_with_the_model_on_held_out_text() {
    let setting = setting();
    let design = design(setting, &wide()).unwrap();
    let (model, circuit) = (&setting.model, circuit(&setting.model));
    let noises = [Noise::None, Noise::Bits(16.0), Noise::Bits(12.0), Noise::Bits(10.0)];
    let results = simulation(&circuit, model, model, &design).compare(&noises, &setting.held_out, |_| {}).unwrap();
    let [clear, polynomials, sixteen, twelve, ten] = &results[..] else { panic!("five results") };
    assert_eq!(clear.tokens, 12 * 47);
    assert_eq!((clear.agreement(), clear.divergence(), clear.logit_error), (1.0, 0.0, 0.0));
    assert_eq!(polynomials.escaped(), 0, "{:?}", polynomials.escapes);
    assert!((polynomials.perplexity() / clear.perplexity() - 1.0).abs() < 1e-3);
    assert!(polynomials.agreement() > 0.99);
    // Less precise, less alike.
    let worse = [polynomials, sixteen, twelve, ten].map(Comparison::divergence);
    assert!(worse.windows(2).all(|pair| pair[0] < pair[1]), "{worse:?}");
    assert!((twelve.perplexity() / clear.perplexity() - 1.0).abs() < 0.02);
}

#[test]
fn weights_of_twelve_bits_are_nearly_as_good_and_those_of_five_are_not() {
    let setting = setting();
    let design = design(setting, &wide()).unwrap();
    let (model, circuit) = (&setting.model, circuit(&setting.model));
    let divergence = |bits| {
        let mut served = model.clone();
        round_weights(&mut served.weights, bits);
        let results = simulation(&circuit, model, &served, &design).compare(&[Noise::None], &setting.held_out, |_| {});
        results.unwrap()[1].divergence()
    };
    let (twelve, eight, five) = (divergence(12), divergence(8), divergence(5));
    assert!(twelve < 1e-4 && twelve < eight && eight < five && five > 1e-3, "{twelve} {eight} {five}");
}

#[test]
fn noise_depends_on_the_seed_alone() {
    let setting = setting();
    let design = design(setting, &wide()).unwrap();
    let (sample, noise) = (&setting.held_out[1], Noise::Bits(10.0));
    let public = public(setting, sample);
    let simulate =
        |seed| run(&mut Simulated::new(&setting.model, &public, &design, &noise, seed), setting, sample, &[48]);
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (first, second) = (simulate(1), alone.install(|| simulate(1)));
    assert!(largest_difference(&first, &second) < 1e-3, "other threads, other noise");
    assert!(largest_difference(&first, &simulate(2)) > 1e-2);
}

#[test]
fn the_engines_noise_falls_with_its_scale_and_its_bootstraps() {
    let setting = setting();
    let design = design(setting, &wide()).unwrap();
    let parameters = Preset::find("n16_boot_depth10_scale50").unwrap().build().unwrap();
    let engine = |scale, bits| Noise::Engine(EngineNoise::new(&parameters, scale, bits, &design).unwrap());
    let noises = [engine(50.0, 20.0), engine(50.0, 14.0), engine(32.0, 20.0)];
    let (model, circuit) = (&setting.model, circuit(&setting.model));
    let results = simulation(&circuit, model, model, &design).compare(&noises, &setting.held_out[..3], |_| {}).unwrap();
    let divergence: Vec<f64> = results[1..].iter().map(Comparison::divergence).collect();
    assert!(divergence[0] < divergence[1] && divergence[0] < divergence[2], "{divergence:?}");
    assert!((results[1].perplexity() / results[0].perplexity() - 1.0).abs() < 2e-3);
}

#[test]
fn escapes_are_counted_where_the_margin_is_too_small() {
    let setting = setting();
    let margins = Margins::all(1.0);
    let options = DesignOptions { margins, widening: 1.0, ..DesignOptions::default() };
    let design = design(setting, &options).unwrap();
    let (model, circuit) = (&setting.model, circuit(&setting.model));
    let results =
        simulation(&circuit, model, model, &design).compare(&[Noise::None], &setting.held_out, |_| {}).unwrap();
    assert!(results[1].escaped() > 0);
    let farthest = results[1].escapes.values().map(|escapes| escapes.farthest).fold(0.0, f64::max);
    assert!(farthest > 1.0, "{farthest}");
    // The margins that held-out text needs are larger than 1, and hold it.
    let others = calibrate(&circuit, model, &setting.held_out, 16, |_| {}).unwrap();
    let needed = Margins::needed(&circuit, &setting.ranges, &others).unwrap();
    assert!(needed.softmax.margin > 1.0 && needed.softmax.place.is_some(), "{needed:?}");
    let options = DesignOptions { margins: needed.map(|needed| 1.1 * needed.margin), ..DesignOptions::default() };
    let design = Design::new(&circuit, &setting.ranges, &options).unwrap();
    let results =
        simulation(&circuit, model, model, &design).compare(&[Noise::None], &setting.held_out, |_| {}).unwrap();
    assert_eq!(results[1].escaped(), 0, "{:?}", results[1].escapes);
}

#[test]
fn designs_that_cannot_be_made_name_the_place_and_the_amount() {
    let setting = setting();
    let imprecise = design(setting, &DesignOptions { bits: 30.0, degrees: vec![15], ..wide() }).unwrap_err();
    let CircuitError::Imprecise { place, degree, bits, found, .. } = &imprecise else { panic!("{imprecise}") };
    assert_eq!((*place, *degree, *bits), (Place::new(0, Quantity::AttentionNormFactor), 15, 32.0));
    assert!(*found < 30.0);
    let text = imprecise.to_string();
    for part in ["layer 0, attention-norm-factor", "needed 32 bits", "degree 15"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let empty = Design::new(&circuit(&setting.model), &Ranges::new(), &wide()).unwrap_err();
    assert!(matches!(empty, CircuitError::NoRange { .. }), "{empty}");
    // With two rounds, this model has a head whose sums differ too much: three are needed.
    let two = Circuit::new(&setting.model.config);
    let ranges = calibrate(&two, &setting.model, &setting.calibration, 16, |_| {}).unwrap();
    let imprecise = Design::new(&two, &ranges, &wide()).unwrap_err();
    assert!(
        matches!(&imprecise, CircuitError::Imprecise { place, .. } if place.quantity == Quantity::SoftmaxFactor(0))
    );
}

#[test]
fn texts_that_do_not_fit_are_refused() {
    let setting = setting();
    let (model, circuit) = (&setting.model, circuit(&setting.model));
    let refused = |public: usize, private: Vec<u32>| {
        let text = Sample { public: vec![1; public], private };
        calibrate(&circuit, model, &[text], 16, |_| {}).unwrap_err()
    };
    let long = refused(500, vec![2; 13]);
    assert!(matches!(long, CircuitError::Input(InputError::Context { found: 513, cached: 500, context: 512 })));
    assert!(matches!(refused(3, vec![]), CircuitError::Input(InputError::Empty)));
    assert!(matches!(refused(3, vec![7, 512]), CircuitError::Input(InputError::Token { position: 1, id: 512, .. })));
}

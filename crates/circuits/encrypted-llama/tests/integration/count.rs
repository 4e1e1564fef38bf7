//! Passes that are counted from the dimensions of a model, compared with those of programs with weights.

use std::path::Path;
use std::sync::Arc;

use crate::common::{other_attention, wide_heads};
use unspoken_ckks::{Bootstrap, CostModel, Encoder, Preset};
use unspoken_encrypted_llama::{Dimensions, ExplainedStep, PassProgram, WEIGHT_BITS};
use unspoken_llama::{Circuit, Degrees, Design, Quantity};
use unspoken_llama_files::load;
use unspoken_llama_model::{Attention, Model, published, rotate};

const SMALL: &str = "insecure_n11_boot_depth15_scale40";
const SECURE: &str = "n16_boot_depth15_scale40";

fn stories() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    let mut model = load(&path, None).unwrap().model;
    rotate(&model.config, &mut model.weights, 1);
    model
}

/// Steps without seconds, which are differences of sums.
fn without_seconds(steps: &[ExplainedStep]) -> Vec<ExplainedStep> {
    let step = |step: &ExplainedStep| ExplainedStep { seconds: 0.0, bootstrap_seconds: 0.0, ..step.clone() };
    steps.iter().map(step).collect()
}

fn seconds(steps: &[ExplainedStep]) -> [f64; 2] {
    [steps.iter().map(|step| step.seconds).sum(), steps.iter().map(|step| step.bootstrap_seconds).sum()]
}

#[test]
fn dimensions_count_what_a_program_with_weights_does() {
    // Five layers, of which four are counted; and heads that do not fit one vector.
    check(Arc::new(stories()), &[(8, 40, 1), (8, 100, 3)]);
    check(wide_heads(1100).model, &[(16, 20, 2)]);
    let attention = Attention { input_biases: true, output_bias: true, head_norms: true, unrotated: vec![1] };
    check(other_attention(attention, 24).model, &[(8, 20, 2)]);
}

/// `sessions` are tokens of a chunk, public tokens, and chunks.
fn check(model: Arc<Model>, sessions: &[(usize, usize, usize)]) {
    let parameters = Preset::find(SMALL).unwrap().build().unwrap();
    let (encoder, cost, degrees) = (Encoder::new(&parameters), CostModel::nominal(&parameters), Degrees::default());
    let circuit = Circuit::new(&model.config);
    let design = Design::of_degrees(&circuit, &degrees).unwrap();
    for &(chunk, public, chunks) in sessions {
        let bootstrap = Bootstrap::for_products(&parameters, WEIGHT_BITS).unwrap();
        let mut program = PassProgram::new(&circuit, Arc::clone(&model), &design, bootstrap, (chunk, 512)).unwrap();
        program.place(&encoder, public, &cost).unwrap();
        let requirements = program.requirements(&encoder, public, chunks).unwrap();
        let place = (public, chunks.min(2) - 1, chunks);
        let steps = program.explain(&encoder, place, &cost).unwrap();

        let dimensions = Dimensions { config: &model.config, degrees: &degrees, chunk, small_degree: 512 };
        let counted = dimensions.count(&parameters, place, &cost).unwrap();
        assert_eq!((counted.tokens, &counted.keys), (program.layout().chunk(), &requirements.keys));
        assert_eq!(without_seconds(&counted.steps), without_seconds(&steps));
        assert_eq!(counted.memory, requirements.memory(&program, public));
        for (counted, exact) in seconds(&counted.steps).into_iter().zip(seconds(&steps)) {
            assert!((counted / exact - 1.0).abs() < 1e-9, "{counted} {exact}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (config, degrees) = (stories().config, Degrees::default());
    let count = |preset: &str, chunk, place| {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let dimensions = Dimensions { config: &config, degrees: &degrees, chunk, small_degree: 512 };
        dimensions.count(&parameters, place, &CostModel::nominal(&parameters)).unwrap_err().to_string()
    };
    assert!(count(SMALL, 8, (508, 0, 1)).contains("a context of 512 tokens"));
    assert!(count(SMALL, 12, (40, 0, 1)).contains("chunks of 12 tokens"));
    assert!(count("insecure_n11_depth9_scale50", 8, (40, 0, 1)).contains("boot"));
}

#[test]
fn published_models_of_other_families_are_counted_with_their_norms() {
    let (parameters, degrees) = (Preset::find(SECURE).unwrap().build().unwrap(), Degrees::default());
    for (name, norms) in [("qwen2.5-0.5b", 0), ("qwen3-0.6b", 6)] {
        let config = published(name).unwrap();
        let dimensions = Dimensions { config: &config, degrees: &degrees, chunk: 16, small_degree: 4096 };
        let counted = dimensions.count(&parameters, (256, 0, 1), &CostModel::nominal(&parameters)).unwrap();
        let of_heads = |step: &&ExplainedStep| {
            let place = step.places[0];
            place.layer == 1 && (Quantity::QueryNormSquare..=Quantity::KeyNorm).contains(&place.quantity)
        };
        assert_eq!(counted.steps.iter().filter(of_heads).count(), norms, "{name}");
    }
}

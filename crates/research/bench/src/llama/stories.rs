//! The model stories260K, rotated on stories that it tells itself.

use std::path::Path;
use std::sync::Arc;

use unspoken_chat::ServedModel;
use unspoken_llama::{Circuit, CircuitError, Design, DesignOptions, Margins, Quantity, Sample, calibrate};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{ClientModel, Generation, Model, RotatedModel, Tokenizer, rotate};

const MODEL: &str = "models/stories260K/stories260K.bin";

/// Tokens of a story.
const LENGTH: usize = 150;

/// Numbers of public tokens of the stories for calibration, in turn.
const PUBLIC: [usize; 4] = [2, 9, 17, 33];

/// Factor by which margins exceed the margins that held-out text needs, as in `unspoken llama prepare`.
const SPARE: f64 = 1.1;

/// Bits of each value's range, as `unspoken llama prepare` takes them.
const BITS: f64 = 14.0;

/// Rounds of softmax that are tried.
const MAX_ROUNDS: u8 = 4;

const NAMES: [&str; 8] = ["Tom", "Lily", "Sam", "Mia", "Ben", "Anna", "Max", "Sue"];
const ANIMALS: [&str; 6] = ["dog", "cat", "bird", "fish", "bear", "frog"];
const HELD_OUT: [&str; 2] = ["pig", "cow"];
const UNSEEN: &str = "duck";

/// The rotated model, its polynomials, and stories that neither calibration nor margins have seen.
pub(super) struct Stories {
    pub(super) circuit: Circuit,
    pub(super) design: Design,
    pub(super) model: Arc<Model>,
    pub(super) rotated: RotatedModel,
    pub(super) client: Arc<ClientModel>,
    /// Tokens, of which the first is the token of the prefix.
    pub(super) unseen: Vec<Vec<u32>>,
}

impl Stories {
    /// Loads the model below the root of the repository, lets it tell stories, and chooses polynomials for chunks of
    /// `chunk` tokens.
    pub(super) fn prepare(root: &Path, chunk: usize) -> anyhow::Result<Self> {
        let LoadedModel { mut model, tokenizer } = load(&root.join(MODEL), None)?;
        let stories = |animals: &[&str]| -> anyhow::Result<Vec<Vec<u32>>> {
            let pairs = animals.iter().flat_map(|animal| NAMES.map(|name| (name, *animal)));
            pairs.map(|(name, animal)| story(&model, &tokenizer, name, animal)).collect()
        };
        let sample = |(number, tokens): (usize, &Vec<u32>)| {
            let (public, private) = tokens.split_at(PUBLIC[number % PUBLIC.len()]);
            Sample { public: public.to_vec(), private: private.to_vec() }
        };
        let samples = |stories: &[Vec<u32>]| -> Vec<Sample> { stories.iter().enumerate().map(sample).collect() };
        let (calibration, held_out) = (samples(&stories(&ANIMALS)?), samples(&stories(&HELD_OUT)?));
        let unseen = stories(&[UNSEEN])?;
        rotate(&model.config, &mut model.weights, 1);
        let (circuit, design) = fit(&model, &calibration, &held_out, chunk)?;
        let prefix = unseen.iter().filter_map(|story| story.first().copied()).take(1).collect();
        let rotated = RotatedModel::new(model, prefix);
        let client = Arc::new(ClientModel::new(&rotated, tokenizer));
        let model = Arc::new(rotated.model().clone());
        Ok(Stories { circuit, design, model, rotated, client, unseen })
    }

    /// The model as a service takes it.
    pub(super) fn served(&self) -> ServedModel {
        ServedModel {
            id: self.rotated.id(),
            model: Arc::clone(&self.model),
            prefix: self.rotated.prefix().to_vec(),
            circuit: self.circuit.clone(),
            design: self.design.clone(),
            context: LENGTH,
            least_public: 0,
        }
    }
}

/// A story of [`LENGTH`] tokens. After the end of a story the model tells another one.
fn story(model: &Model, tokenizer: &Tokenizer, name: &str, animal: &str) -> anyhow::Result<Vec<u32>> {
    let prompt = tokenizer.encode(&format!("One day, {name} and a {animal} went to the park. They saw"))?;
    let told = Generation::new(model, &prompt, &[])?;
    let tokens: Vec<u32> = prompt.iter().copied().chain(told).take(LENGTH).collect();
    match tokens.len() {
        LENGTH => Ok(tokens),
        found => anyhow::bail!("a story: found {found} tokens, needed {LENGTH}; this is a bug, please report it"),
    }
}

/// The polynomials, with as few rounds of softmax as its sums allow.
fn fit(model: &Model, calibration: &[Sample], held_out: &[Sample], chunk: usize) -> anyhow::Result<(Circuit, Design)> {
    let mut rounds = Circuit::ROUNDS;
    loop {
        let circuit = Circuit::new(&model.config).with_rounds(rounds);
        let mut ranges = calibrate(&circuit, model, calibration, chunk, |_| {})?;
        let others = calibrate(&circuit, model, held_out, chunk, |_| {})?;
        let margins = Margins::needed(&circuit, &ranges, &others)?.map(|needed| SPARE * needed.margin);
        ranges.merge(&others);
        let options = DesignOptions { bits: BITS, margins, tokens: Some(LENGTH), ..DesignOptions::default() };
        match Design::new(&circuit, &ranges, &options) {
            Ok(design) => return Ok((circuit, design)),
            Err(CircuitError::Imprecise { place, .. })
                if rounds < MAX_ROUNDS && matches!(place.quantity, Quantity::SoftmaxFactor(0)) =>
            {
                rounds += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

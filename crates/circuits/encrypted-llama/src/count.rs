//! Passes of models of which only the dimensions are known.

use unspoken_ckks::{Bootstrap, CkksParameters, CostModel, Encoder};
use unspoken_llama::{Circuit, Degrees, Design, Quantity};
use unspoken_llama_model::Config;
use unspoken_rlwe::KeyPlan;

use crate::error::PassError;
use crate::explain::ExplainedStep;
use crate::program::{PassProgram, WEIGHT_BITS};

/// A pass of a model with these dimensions, counted without weights.
#[derive(Clone, Debug)]
pub struct CountedPass {
    /// Tokens of the chunk.
    pub tokens: usize,
    /// The lowest level from which a bootstrap starts, and that of its results.
    pub bootstrap_levels: [usize; 2],
    /// The client's switching keys, without those of the small ring.
    pub keys: KeyPlan,
    /// The steps of all layers, and then those of the head.
    pub steps: Vec<ExplainedStep>,
    /// Bytes of memory of a service for one client with one session, part by part.
    pub memory: [(&'static str, u64); 7],
}

/// A model whose passes are counted.
#[derive(Clone, Copy, Debug)]
pub struct Dimensions<'a> {
    /// Dimensions of the model, norms folded.
    pub config: &'a Config,
    /// Degrees of its polynomials.
    pub degrees: &'a Degrees,
    /// Tokens of a chunk.
    pub chunk: usize,
    /// Degree of the ring for products on coefficients.
    pub small_degree: usize,
}

/// Layers that are counted one by one. Those between the second and the last do the same work: the first one begins at
/// another level, and in the second one levels may still fall to where they stay.
const COUNTED: usize = 4;

impl Dimensions<'_> {
    /// Counts the pass of chunk `chunk`, counted from 0, of a session with room for `chunks` chunks after `public`
    /// tokens. Bootstraps are placed as by a service; seconds are those of `model`. All layers have the same
    /// polynomials, so a layer in the middle is counted once.
    ///
    /// # Errors
    /// If chunks do not fit the parameters, these have no bootstrap or too few levels, the tokens do not fit the
    /// context, or `chunk` is not below `chunks`.
    pub fn count(
        &self,
        parameters: &CkksParameters,
        place: (usize, usize, usize),
        model: &CostModel,
    ) -> Result<CountedPass, PassError> {
        let layers = self.config.layers;
        if layers <= COUNTED {
            return self.of_layers(layers, parameters, place, model);
        }
        let [fewer, counted] = [COUNTED - 1, COUNTED].map(|count| self.of_layers(count, parameters, place, model));
        let (fewer, counted) = (fewer?, counted?);
        let memory = std::array::from_fn(|part| {
            let ((what, bytes), more) = (fewer.memory[part], counted.memory[part].1);
            (what, bytes + (more - bytes) * (layers + 1 - COUNTED) as u64)
        });
        Ok(CountedPass { steps: repeated(&counted.steps, layers), memory, ..counted })
    }

    /// The pass of a model with so many layers.
    fn of_layers(
        &self,
        layers: usize,
        parameters: &CkksParameters,
        place: (usize, usize, usize),
        model: &CostModel,
    ) -> Result<CountedPass, PassError> {
        let circuit = Circuit::new(&Config { layers, ..self.config.clone() });
        let design = Design::of_degrees(&circuit, self.degrees)?;
        let bootstrap = Bootstrap::for_products(parameters, WEIGHT_BITS)?;
        let mut program = PassProgram::counted(&circuit, &design, bootstrap, (self.chunk, self.small_degree))?;
        let (encoder, (public, _, chunks)) = (Encoder::new(parameters), place);
        program.place(&encoder, public, &CostModel::nominal(parameters))?;
        let requirements = program.requirements(&encoder, public, chunks)?;
        Ok(CountedPass {
            tokens: program.layout().chunk(),
            bootstrap_levels: [program.bootstrap.input_level(), program.bootstrap.output_level()],
            keys: requirements.keys.clone(),
            steps: program.explain(&encoder, place, model)?,
            memory: requirements.memory(&program, public),
        })
    }
}

/// The steps of `layers` layers and of the head from those of [`COUNTED`] layers: those of the last but one repeat.
fn repeated(steps: &[ExplainedStep], layers: usize) -> Vec<ExplainedStep> {
    let more = layers - COUNTED;
    let ends = |step: &ExplainedStep| step.places.iter().any(|place| place.quantity == Quantity::Residual);
    let mut all = Vec::new();
    for (layer, part) in steps.split_inclusive(ends).enumerate() {
        let by = match layer {
            layer if layer + 2 < COUNTED => 0..=0,
            layer if layer + 2 == COUNTED => 0..=more,
            _ => more..=more,
        };
        for by in by {
            all.extend(part.iter().cloned().map(|mut step| {
                step.places.iter_mut().for_each(|place| place.layer += by);
                step
            }));
        }
    }
    all
}

//! The network on encrypted images with plaintext weights, which the server knows.

use std::collections::BTreeMap;

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, Encoder, InnerSum, LinearPlan, LinearTransform, Simulator, Steps,
};
use unspoken_digits_model::{CLASSES, Network};
use unspoken_rlwe::KeyPlan;

use crate::convolution::Convolution;
use crate::error::CnnError;
use crate::layout::ImageLayout;

/// Number of computed scores, a power of two: the classes, and some scores that are always 0.
const PADDED_CLASSES: usize = CLASSES.next_power_of_two();

/// The network as a circuit on encrypted images with plaintext weights. It uses five levels.
///
/// Features are cells of `batch` slots, so all rotations are by multiples of the batch. A dense layer from `m` to `n`
/// cells has `n` diagonals, with baby steps and giant steps, then a sum of the `m / n` cells that belong to one output.
/// The result repeats every `n` cells, as the diagonals of the next layer require (Halevi and Shoup's diagonal method
/// for wide matrices, as in Juvekar, Vaikuntanathan and Chandrakasan, "GAZELLE", section 4.2).
pub struct PlainWeightsCircuit {
    parameters: CkksParameters,
    layout: ImageLayout,
    convolution: Convolution,
    convolution_bias: Vec<Complex64>,
    dense: Dense,
    out: Dense,
    score_bound: f64,
    keys: KeyPlan,
    working_bytes: u64,
}

/// A dense layer whose inputs repeat every `inputs` cells.
struct Dense {
    transform: LinearTransform,
    bias: Vec<Complex64>,
    /// The sum over the cells of one output.
    sum: InnerSum,
}

impl PlainWeightsCircuit {
    /// Number of levels it uses.
    pub const DEPTH: usize = 5;

    /// Prepares the network for batches of this size. Weights are encoded at their first use.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the parameters have too few levels, their modulus is too small for the scores, or the
    /// batch does not fit.
    pub fn new(network: &Network, parameters: &CkksParameters, batch: usize) -> Result<Self, CnnError> {
        const OPERATION: &str = "prepare a network";
        let layout = ImageLayout::new(network.shape(), parameters.slots(), batch)?;
        if parameters.max_level() < Self::DEPTH {
            let found = format!("preset {} of {} levels", parameters.name(), parameters.max_level());
            return Err(CnnError::mismatch(OPERATION, found, format!("{} levels", Self::DEPTH)));
        }
        let score_bound = network.bounds().scores;
        let room = parameters.log2_modulus(0) - parameters.scale().log2() - 1.0;
        if score_bound.log2() >= room {
            let found = format!("scores up to {score_bound:.3e}");
            return Err(CnnError::mismatch(OPERATION, found, format!("below 2^{room:.0}; train it again")));
        }
        let (shape, scale) = (network.shape(), parameters.scale());
        let (features, hidden) = (shape.features(), shape.hidden);
        // A square of a value of scale s has the scale s^2 over the modulus of its level.
        let squared = |level: usize| scale * scale / parameters.level_modulus(level);
        let dense = Dense::new(parameters, batch, (features, hidden), (3, squared(4)), |h, f| network.dense(h, f))?
            .with_bias(batch, (0..hidden).map(|h| network.dense_bias(h)));
        let out = Dense::new(parameters, batch, (hidden, PADDED_CLASSES), (1, squared(2)), |c, h| network.out(c, h))?
            .with_bias(batch, (0..PADDED_CLASSES).map(|c| network.out_bias(c)));
        let mut circuit = Self {
            parameters: parameters.clone(),
            convolution: Convolution::new(network, parameters, layout.clone(), Self::DEPTH)?,
            convolution_bias: cells(
                (0..shape.channels).map(|c| network.kernel_bias(c)),
                features * batch / shape.channels,
            ),
            layout,
            dense,
            out,
            score_bound,
            keys: KeyPlan::new(),
            working_bytes: 0,
        };
        let simulator = Simulator::counting(&Encoder::new(parameters));
        let encrypt = |_| simulator.encrypt(&[], circuit.input_level(), circuit.scale());
        let inputs = (0..circuit.layout.vectors()).map(encrypt).collect::<Result<Vec<_>, _>>()?;
        circuit.working_bytes = simulator.working_bytes(|simulator| circuit.evaluate(simulator, &inputs))?;
        circuit.keys = simulator.key_plan();
        Ok(circuit)
    }

    /// The layout of images in its inputs and of scores in its output.
    pub fn layout(&self) -> &ImageLayout {
        &self.layout
    }

    /// The level of its inputs: [`PlainWeightsCircuit::DEPTH`].
    pub fn input_level(&self) -> usize {
        Self::DEPTH
    }

    /// The scale of its inputs and of its output.
    pub fn scale(&self) -> f64 {
        self.parameters.scale()
    }

    /// A bound of the scores of all images.
    pub fn score_bound(&self) -> f64 {
        self.score_bound
    }

    /// Bytes of memory of its weights. Weights that are not yet encoded count as encoded.
    pub fn prepared_bytes(&self) -> u64 {
        let dense = |layer: &Dense| layer.transform.plan().prepared_bytes();
        dense(&self.dense) + dense(&self.out) + self.convolution.prepared_bytes(&self.parameters)
    }

    /// Peak memory of one run in bytes. It includes the result, but not the inputs, the keys and
    /// [`PlainWeightsCircuit::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// The scores of a batch of images, at level 0. [`ImageLayout::scores`] reads them.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the number of inputs does not fit the layout; [`CnnError::Ckks`] if their level or
    /// scale is not the prepared one, or keys are missing.
    pub fn evaluate<A: Arithmetic>(&self, arithmetic: &A, inputs: &[A::Vector]) -> Result<A::Vector, CnnError> {
        if inputs.len() != self.layout.vectors() {
            let needed = format!("{}", self.layout.vectors());
            return Err(CnnError::mismatch("evaluate a network", format!("{} vectors", inputs.len()), needed));
        }
        let features = self.convolution.evaluate(arithmetic, inputs)?;
        let features = arithmetic.add_values(&features, &self.convolution_bias)?;
        let squares = arithmetic.multiply(&features, &features)?;
        let hidden = self.dense.evaluate(arithmetic, &squares)?;
        let squares = arithmetic.multiply(&hidden, &hidden)?;
        Ok(self.out.evaluate(arithmetic, &squares)?)
    }
}

impl Dense {
    /// A layer without bias. Its diagonals `k` below `outputs` add `weight(j mod outputs, (j + k) mod inputs)` times
    /// cell `j + k` to cell `j`.
    fn new(
        parameters: &CkksParameters,
        batch: usize,
        (inputs, outputs): (usize, usize),
        (level, input_scale): (usize, f64),
        weight: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, CkksError> {
        let diagonal = |k: usize| {
            let values = (0..inputs).map(|j| weight(j % outputs, (j + k) % inputs));
            (k * batch, cells(values, batch))
        };
        let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..outputs).map(diagonal).collect();
        let babies = 1 << outputs.trailing_zeros().div_ceil(2);
        let plan = LinearPlan::new(parameters, diagonals, level, input_scale, parameters.scale())?;
        let plan = plan.with_steps(Steps { difference: batch, first: 0, babies })?;
        let sum = InnerSum::new((outputs * batch) as i64, inputs / outputs)?;
        Ok(Self { transform: LinearTransform::deferred(plan), bias: Vec::new(), sum })
    }

    fn with_bias(self, batch: usize, bias: impl Iterator<Item = f64>) -> Self {
        Self { bias: cells(bias, batch), ..self }
    }

    fn evaluate<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, CkksError> {
        let products = arithmetic.linear(&self.transform, input)?;
        arithmetic.add_values(&self.sum.apply(arithmetic, &products)?, &self.bias)
    }
}

/// Repeats each value in `batch` slots.
fn cells(values: impl Iterator<Item = f64>, batch: usize) -> Vec<Complex64> {
    values.flat_map(|value| std::iter::repeat_n(Complex64::from(value), batch)).collect()
}

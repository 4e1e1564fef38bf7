//! The network on encrypted images with encrypted weights (section 6.3 and Appendix E of the paper).

mod layout;

pub use layout::EncryptedWeightsLayout;
use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, Encoder, InnerSum, Simulator};
use unspoken_digits_model::{CLASSES, Network, Shape};
use unspoken_rlwe::KeyPlan;

use crate::error::CnnError;

/// The network as a circuit on encrypted images with encrypted weights, five levels, no mask.
///
/// Every layer is one product for each tile and a sum by rotations, because whoever encrypts writes the expanded form:
/// the sum over the pixels under the kernel is cyclic, so it fills all rows with the feature; the sum over the features
/// leaves a hidden neuron at the start of its row and garbage behind it; the row's first slots are copied to where each
/// class's weights are, and 0 beside them removes the garbage. The paper's layout takes 49 products for the convolution
/// and as many vectors of images; this one 2 for the lite form.
pub struct EncryptedWeightsCircuit {
    parameters: CkksParameters,
    layout: EncryptedWeightsLayout,
    /// Over the rows of a vector, and over the features of a row.
    row_sum: InnerSum,
    feature_sum: InnerSum,
    keys: KeyPlan,
    working_bytes: u64,
}

/// A network's weights and biases as vectors, encrypted or simulated.
#[derive(Clone, Debug)]
pub struct EncryptedNetwork<V> {
    tiles: Vec<Tile<V>>,
    dense_bias: V,
    out: Vec<V>,
    out_bias: Vec<V>,
}

/// What meets the features of one tile.
#[derive(Clone, Debug)]
struct Tile<V> {
    /// One for each group of pixels.
    kernels: Vec<V>,
    kernel_bias: V,
    dense: V,
}

/// Scales of the values at each step: products divided by the primes of their level.
struct Scales {
    input: f64,
    convolution: f64,
    hidden: f64,
    scores: f64,
}

impl<V> EncryptedNetwork<V> {
    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        let tiles: usize = self.tiles.iter().map(|tile| tile.kernels.len() + 2).sum();
        tiles + 1 + self.out.len() + self.out_bias.len()
    }
}

impl EncryptedWeightsCircuit {
    /// Levels it spends.
    pub const DEPTH: usize = 5;

    /// A circuit for batches of this size.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the parameters have too few levels or the batch does not fit.
    pub fn new(shape: Shape, parameters: &CkksParameters, batch: usize) -> Result<Self, CnnError> {
        let layout = EncryptedWeightsLayout::new(shape, parameters.slots(), batch)?;
        if parameters.max_level() < Self::DEPTH {
            let found = format!("preset {} of {} levels", parameters.name(), parameters.max_level());
            return Err(CnnError::mismatch("prepare a network", found, format!("{} levels", Self::DEPTH)));
        }
        let row_sum = InnerSum::new((layout.width() * batch) as i64, shape.hidden)?;
        let feature_sum = InnerSum::new(batch as i64, layout.width())?;
        let (parameters, keys) = (parameters.clone(), KeyPlan::new());
        let mut circuit = Self { parameters, layout, row_sum, feature_sum, keys, working_bytes: 0 };
        let simulator = Simulator::counting(&Encoder::new(&circuit.parameters));
        let empty = Network::new(shape, vec![0.0; shape.parameters()], Default::default());
        let empty = empty.map_err(|error| CnnError::mismatch("plan keys", error, "a network"))?;
        let network = circuit.encrypt_network(&empty, |_, level, scale| simulator.encrypt(&[], level, scale))?;
        let encrypt = |_| simulator.encrypt(&[], circuit.input_level(), circuit.scale());
        let inputs = (0..circuit.layout.vectors()).map(encrypt).collect::<Result<Vec<_>, _>>()?;
        circuit.working_bytes = simulator.working_bytes(|simulator| circuit.evaluate(simulator, &network, &inputs))?;
        circuit.keys = simulator.key_plan();
        Ok(circuit)
    }

    /// How images lie in its inputs and scores in its outputs.
    pub fn layout(&self) -> &EncryptedWeightsLayout {
        &self.layout
    }

    /// The level its inputs need: [`EncryptedWeightsCircuit::DEPTH`].
    pub fn input_level(&self) -> usize {
        Self::DEPTH
    }

    /// The scale its inputs need.
    pub fn scale(&self) -> f64 {
        self.parameters.scale()
    }

    /// A network's weights as vectors: `encrypt` gets slots, level and scale of each, one after the other.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] for a network of another shape, and what `encrypt` returns.
    pub fn encrypt_network<V>(
        &self,
        network: &Network,
        mut encrypt: impl FnMut(&[Complex64], usize, f64) -> Result<V, CkksError>,
    ) -> Result<EncryptedNetwork<V>, CnnError> {
        let (layout, scales) = (&self.layout, self.scales());
        if network.shape() != layout.shape() {
            let (found, needed) = (format!("{:?}", network.shape()), format!("{:?}", layout.shape()));
            return Err(CnnError::mismatch("encrypt a network", found, needed));
        }
        let mut tiles = Vec::new();
        for tile in 0..layout.tiles() {
            let kernels = 0..layout.groups();
            let kernels = kernels.map(|group| encrypt(&layout.kernel(network, tile, group), 5, scales.input));
            tiles.push(Tile {
                kernels: kernels.collect::<Result<_, _>>()?,
                kernel_bias: encrypt(&layout.kernel_bias(network, tile), 4, scales.convolution)?,
                dense: encrypt(&layout.dense(network, tile), 3, scales.input)?,
            });
        }
        let dense_bias = encrypt(&layout.dense_bias(network), 2, scales.hidden)?;
        let out = (0..CLASSES).map(|class| encrypt(&layout.out(network, class), 1, scales.input));
        let out = out.collect::<Result<_, _>>()?;
        let out_bias = (0..layout.outputs()).map(|o| encrypt(&layout.out_bias(network, o), 0, scales.scores));
        Ok(EncryptedNetwork { tiles, dense_bias, out, out_bias: out_bias.collect::<Result<_, _>>()? })
    }

    /// Bytes of memory that one run takes at its peak, its results included, beyond its inputs, the network and the
    /// keys.
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// The scores of a batch of images, at level 0; [`EncryptedWeightsLayout::scores`] reads them.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if inputs or weights are not as many as the layout says; [`CnnError::Ckks`] if levels
    /// or scales are not what was said, or keys are missing.
    pub fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        network: &EncryptedNetwork<A::Vector>,
        inputs: &[A::Vector],
    ) -> Result<Vec<A::Vector>, CnnError> {
        let layout = &self.layout;
        if inputs.len() != layout.vectors() || network.tiles.len() != layout.tiles() {
            let found = format!("{} vectors and {} tiles of weights", inputs.len(), network.tiles.len());
            let needed = format!("{} and {}", layout.vectors(), layout.tiles());
            return Err(CnnError::mismatch("evaluate a network", found, needed));
        }
        let product = |(inputs, tile): (&[A::Vector], &Tile<A::Vector>)| {
            let features = self.convolution(arithmetic, inputs, tile)?;
            let squares = arithmetic.multiply(&features, &features)?;
            arithmetic.tensor(&squares, &tile.dense)
        };
        let products = inputs.chunks(layout.groups()).zip(&network.tiles).map(product);
        let sum = sum_all(arithmetic, products)?;
        let sum = arithmetic.relinearise_rescale(&sum)?;
        let hidden = self.feature_sum.apply(arithmetic, &sum)?;
        let hidden = arithmetic.add(&hidden, &network.dense_bias)?;
        let squares = arithmetic.multiply(&hidden, &hidden)?;
        Ok(self.out(arithmetic, network, &squares)?)
    }

    /// Features of a tile, in every row.
    fn convolution<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[A::Vector],
        tile: &Tile<A::Vector>,
    ) -> Result<A::Vector, CkksError> {
        let products = inputs.iter().zip(&tile.kernels).map(|(input, kernel)| arithmetic.tensor(input, kernel));
        let sum = arithmetic.relinearise_rescale(&sum_all(arithmetic, products)?)?;
        arithmetic.add(&self.row_sum.apply(arithmetic, &sum)?, &tile.kernel_bias)
    }

    /// Scores from the squares at the start of each row.
    fn out<A: Arithmetic>(
        &self,
        arithmetic: &A,
        network: &EncryptedNetwork<A::Vector>,
        squares: &A::Vector,
    ) -> Result<Vec<A::Vector>, CkksError> {
        let (batch, width) = (self.layout.batch(), self.layout.width());
        let steps: Vec<i64> = (1..CLASSES.min(width)).map(|class| -((class * batch) as i64)).collect();
        let mut copies = vec![squares.clone()];
        copies.extend(arithmetic.rotate_hoisted(squares, &steps)?);
        let output = |(weights, bias): (&[A::Vector], &A::Vector)| {
            let products = copies.iter().zip(weights).map(|(copy, weights)| arithmetic.tensor(copy, weights));
            let sum = arithmetic.relinearise_rescale(&sum_all(arithmetic, products)?)?;
            arithmetic.add(&self.row_sum.apply(arithmetic, &sum)?, bias)
        };
        network.out.chunks(width).zip(&network.out_bias).map(output).collect()
    }

    fn scales(&self) -> Scales {
        let input = self.scale();
        let rescaled = |product: f64, level: usize| product / self.parameters.level_modulus(level);
        let convolution = rescaled(input * input, 5);
        let hidden = rescaled(rescaled(convolution * convolution, 4) * input, 3);
        let scores = rescaled(rescaled(hidden * hidden, 2) * input, 1);
        Scales { input, convolution, hidden, scores }
    }
}

/// The sum of products, neither relinearised nor rescaled.
fn sum_all<A: Arithmetic>(
    arithmetic: &A,
    mut terms: impl Iterator<Item = Result<A::Vector, CkksError>>,
) -> Result<A::Vector, CkksError> {
    let none = || CkksError::Shape { operation: "sum products", found: 0, needed: "at least one product".into() };
    let first = terms.next().ok_or_else(none)??;
    terms.try_fold(first, |sum, term| arithmetic.add(&sum, &term?))
}

//! The network on encrypted images with encrypted weights (section 6.3 and Appendix E of the paper).

mod layout;

pub use layout::EncryptedWeightsLayout;
use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, Encoder, InnerSum, Simulator};
use unspoken_cnn::CnnError;
use unspoken_digits_model::{CLASSES, Network, Shape};
use unspoken_rlwe::KeyPlan;

/// The network as a circuit on encrypted images with encrypted weights. It uses five levels and no mask.
///
/// Images and weights are encrypted in the expanded form, so every layer is one product for each tile and a sum by
/// rotations. The sum over the pixels under the kernel is cyclic, so every row then contains the features. The sum over
/// the features leaves a hidden neuron at the start of its row, followed by values without meaning. The first slots of
/// the row are copied to the weights of each class, and the zeros next to these weights remove the other values. The
/// paper's layout needs 49 products for the convolution and 49 vectors of images; this one needs 2 of each for the lite
/// form.
pub struct EncryptedWeightsCircuit {
    parameters: CkksParameters,
    layout: EncryptedWeightsLayout,
    /// The sum over the rows of a vector.
    row_sum: InnerSum,
    /// The sum over the features of a row.
    feature_sum: InnerSum,
    keys: KeyPlan,
    working_bytes: u64,
}

/// The weights and biases of a network as vectors, encrypted or simulated.
#[derive(Clone, Debug)]
pub struct EncryptedNetwork<V> {
    tiles: Vec<Tile<V>>,
    dense_bias: V,
    out: Vec<V>,
    out_bias: Vec<V>,
}

/// The weights and biases that are applied to the features of one tile.
#[derive(Clone, Debug)]
struct Tile<V> {
    /// The kernels, one vector for each group of pixels.
    kernels: Vec<V>,
    kernel_bias: V,
    dense: V,
}

/// Scales of the values at each step. A product has the product of the scales over the modulus of its level.
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
    /// Number of levels it uses.
    pub const DEPTH: usize = 5;

    /// A circuit for batches of this size.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the parameters have too few levels or the batch does not fit.
    pub fn new(shape: Shape, parameters: &CkksParameters, batch: usize) -> Result<Self, CnnError> {
        let layout = EncryptedWeightsLayout::new(shape, parameters.slots(), batch)?;
        if parameters.max_level() < Self::DEPTH {
            let found = format!("preset {} of {} levels", parameters.name(), parameters.max_level());
            return Err(mismatch("prepare a network", found, format!("{} levels", Self::DEPTH)));
        }
        let row_sum = InnerSum::new((layout.width() * batch) as i64, shape.hidden)?;
        let feature_sum = InnerSum::new(batch as i64, layout.width())?;
        let (parameters, keys) = (parameters.clone(), KeyPlan::new());
        let mut circuit = Self { parameters, layout, row_sum, feature_sum, keys, working_bytes: 0 };
        let simulator = Simulator::counting(&Encoder::new(&circuit.parameters));
        let empty = Network::new(shape, vec![0.0; shape.parameters()], Default::default());
        let empty = empty.map_err(|error| mismatch("plan keys", error, "a network"))?;
        let network = circuit.encrypt_network(&empty, |_, level, scale| simulator.encrypt(&[], level, scale))?;
        let encrypt = |_| simulator.encrypt(&[], circuit.input_level(), circuit.scale());
        let inputs = (0..circuit.layout.vectors()).map(encrypt).collect::<Result<Vec<_>, _>>()?;
        circuit.working_bytes = simulator.working_bytes(|simulator| circuit.evaluate(simulator, &network, &inputs))?;
        circuit.keys = simulator.key_plan();
        Ok(circuit)
    }

    /// The layout of images in its inputs and of scores in its outputs.
    pub fn layout(&self) -> &EncryptedWeightsLayout {
        &self.layout
    }

    /// The level of its inputs: [`EncryptedWeightsCircuit::DEPTH`].
    pub fn input_level(&self) -> usize {
        Self::DEPTH
    }

    /// The scale of its inputs.
    pub fn scale(&self) -> f64 {
        self.parameters.scale()
    }

    /// The weights of a network as vectors. `encrypt` is called with the slots, level and scale of each vector in turn.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] for a network of another shape, and the errors of `encrypt`.
    pub fn encrypt_network<V>(
        &self,
        network: &Network,
        mut encrypt: impl FnMut(&[Complex64], usize, f64) -> Result<V, CkksError>,
    ) -> Result<EncryptedNetwork<V>, CnnError> {
        let (layout, scales) = (&self.layout, self.scales());
        if network.shape() != layout.shape() {
            let (found, needed) = (format!("{:?}", network.shape()), format!("{:?}", layout.shape()));
            return Err(mismatch("encrypt a network", found, needed));
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

    /// Peak memory of one run in bytes. It includes the results, but not the inputs, the network and the keys.
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.keys
    }

    /// The scores of a batch of images, at level 0. [`EncryptedWeightsLayout::scores`] reads them.
    ///
    /// # Errors
    /// [`CnnError::Mismatch`] if the number of inputs or of weights does not fit the layout; [`CnnError::Ckks`] if
    /// levels or scales are wrong, or keys are missing.
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
            return Err(mismatch("evaluate a network", found, needed));
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

    /// The features of a tile, repeated in every row.
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

    /// The scores, from the squares at the start of each row.
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

/// The sum of products, without relinearisation and rescale.
fn sum_all<A: Arithmetic>(
    arithmetic: &A,
    mut terms: impl Iterator<Item = Result<A::Vector, CkksError>>,
) -> Result<A::Vector, CkksError> {
    let none = || CkksError::Shape { operation: "sum products", found: 0, needed: "at least one product".into() };
    let first = terms.next().ok_or_else(none)??;
    terms.try_fold(first, |sum, term| arithmetic.add(&sum, &term?))
}

fn mismatch(operation: &'static str, found: impl ToString, needed: impl ToString) -> CnnError {
    CnnError::Mismatch { operation, found: found.to_string(), needed: needed.to_string() }
}

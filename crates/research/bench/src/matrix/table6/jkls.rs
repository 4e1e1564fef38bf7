//! The network as matrix products of E2DM (Jiang, Kim, Lauter and Song, CCS 2018): nine levels, one batch size.
//!
//! Tiles have the dimension of the hidden layer. The tiles of the features and groups of images are packed as
//! parallel matrices: matrix `i + tiles * c` has the features of tile `i` and the images of group `c`. One matrix
//! product multiplies all of them, and about two rotations add the tiles.

use unspoken_ckks::{Arithmetic, CkksParameters, Complex64};
use unspoken_digits_model::{CLASSES, FEATURES_PER_CHANNEL, Image, KERNEL, Network, Shape};
use unspoken_encrypted_matrix::{EncryptedMatrix, Layout, Method, Product};

use super::circuit::{Circuit, Encrypt};
use super::pixel_vectors::{pixel, stored_parameters, sum_of_products};

/// Levels of the inputs, and of the factors of the first and the second product.
const INPUT: usize = 9;
const FIRST: usize = 7;
const SECOND: usize = 3;

pub(super) struct JklsCircuit {
    shape: Shape,
    layout: Layout,
    first: Product,
    second: Product,
    scale: f64,
    convolution: f64,
}

pub(super) struct Weights<V> {
    kernels: Vec<V>,
    kernel_bias: V,
    dense: V,
    dense_bias: V,
    out: V,
    out_bias: V,
}

impl JklsCircuit {
    pub(super) fn new(shape: Shape, parameters: &CkksParameters) -> anyhow::Result<Self> {
        let layout = Layout::new(parameters, shape.hidden, 1)?;
        let scale = parameters.scale();
        let convolution = scale * scale / parameters.level_modulus(INPUT);
        let squared = |scale: f64, level: usize| scale * scale / parameters.level_modulus(level);
        let product = |level: usize, input: f64| {
            Product::new(parameters, layout, Method::Jkls { hoisted: true }, level, [scale, input])
        };
        let first = product(FIRST, squared(convolution, FIRST + 1))?;
        let second = product(SECOND, squared(scale, SECOND + 1))?;
        Ok(JklsCircuit { shape, layout, first, second, scale, convolution })
    }

    /// Number of tiles of the features.
    fn tiles(&self) -> usize {
        self.shape.features() / self.shape.hidden
    }

    /// Slots with the values `value(matrix, row, column)`.
    fn fill(&self, value: impl Fn(usize, usize, usize) -> f64) -> Vec<Complex64> {
        let (d, parallel) = (self.layout.dim(), self.layout.parallel());
        let at = |slot: usize| value(slot % parallel, slot / parallel / d, slot / parallel % d).into();
        (0..self.layout.slots()).map(at).collect()
    }

    fn feature(&self, matrix: usize, row: usize) -> usize {
        matrix % self.tiles() * self.shape.hidden + row
    }

    fn product<A: Arithmetic>(
        &self,
        arithmetic: &A,
        product: &Product,
        [a, b]: [&A::Vector; 2],
    ) -> anyhow::Result<A::Vector> {
        let (d, parallel) = (self.layout.dim(), self.layout.parallel());
        let matrix = |v: &A::Vector| EncryptedMatrix::from_tiles(self.layout, (d, d), parallel, vec![v.clone()]);
        let result = product.apply(arithmetic, &matrix(a)?, &matrix(b)?)?;
        Ok(result.tiles()[0].clone())
    }
}

impl Circuit for JklsCircuit {
    const NAME: &'static str = "E2DM's products of matrices";
    type Weights<V: Send + Sync> = Weights<V>;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn batch(&self) -> usize {
        self.layout.parallel() / self.tiles() * self.shape.hidden
    }

    fn levels(&self) -> usize {
        INPUT
    }

    fn encrypt<V: Send + Sync>(&self, network: &Network, encrypt: Encrypt<'_, V>) -> anyhow::Result<Weights<V>> {
        let (parts, scale) = (stored_parameters(network), self.scale);
        let channel = |p: usize, row: usize| self.feature(p, row) / FEATURES_PER_CHANNEL;
        let kernel = |offset: usize| self.fill(|p, row, _| parts.kernel[channel(p, row) * KERNEL * KERNEL + offset]);
        let kernels = (0..KERNEL * KERNEL).map(|offset| encrypt(&kernel(offset), INPUT, scale));
        let kernels = kernels.collect::<Result<_, _>>()?;
        let kernel_bias = self.fill(|p, row, _| parts.kernel_bias[channel(p, row)]);
        let dense = self.fill(|p, row, column| parts.dense[row * self.shape.features() + self.feature(p, column)]);
        let out = |row: usize, column: usize| parts.out.get(row * self.shape.hidden + column).copied();
        let out_bias = |row: usize| parts.out_bias.get(row).copied().unwrap_or_default();
        Ok(Weights {
            kernels,
            kernel_bias: encrypt(&kernel_bias, INPUT - 1, self.convolution)?,
            dense: encrypt(&dense, FIRST, scale)?,
            dense_bias: encrypt(&self.fill(|_, row, _| parts.dense_bias[row]), SECOND + 1, scale)?,
            out: encrypt(&self.fill(|_, row, column| out(row, column).unwrap_or_default()), SECOND, scale)?,
            out_bias: encrypt(&self.fill(|_, row, _| out_bias(row)), 0, scale)?,
        })
    }

    fn arrange(&self, images: &[Image]) -> anyhow::Result<Vec<Vec<Complex64>>> {
        let vector = |offset: usize| {
            self.fill(|p, row, column| {
                pixel(&images[p / self.tiles() * self.shape.hidden + column], self.feature(p, row), offset)
            })
        };
        Ok((0..KERNEL * KERNEL).map(vector).collect())
    }

    fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        weights: &Weights<A::Vector>,
        inputs: &[A::Vector],
    ) -> anyhow::Result<Vec<A::Vector>> {
        let pairs = inputs.iter().cloned().zip(weights.kernels.iter().cloned());
        let features = arithmetic.add(&sum_of_products(arithmetic, pairs)?, &weights.kernel_bias)?;
        let squares = arithmetic.multiply(&features, &features)?;
        let products = self.product(arithmetic, &self.first, [&weights.dense, &squares])?;
        let hidden = arithmetic.sum_slots(&products, 1, self.tiles())?;
        let hidden = arithmetic.add(&hidden, &weights.dense_bias)?;
        let squares = arithmetic.multiply(&hidden, &hidden)?;
        let scores = self.product(arithmetic, &self.second, [&weights.out, &squares])?;
        Ok(vec![arithmetic.add(&scores, &weights.out_bias)?])
    }

    fn scores(&self, slots: &[Vec<Complex64>]) -> anyhow::Result<Vec<[f64; CLASSES]>> {
        let (hidden, tiles) = (self.shape.hidden, self.tiles());
        let score = |class: usize, j: usize| slots[0][self.layout.slot(j / hidden * tiles, class, j % hidden)].re;
        Ok((0..self.batch()).map(|j| std::array::from_fn(|class| score(class, j))).collect())
    }
}

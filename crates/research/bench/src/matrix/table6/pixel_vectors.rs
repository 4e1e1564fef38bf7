//! The paper's convolution (Appendix E): one vector of images and one of kernels for each of the 49 pixels under the
//! kernel. The dense layers are the cheapest possible in its expanded form: slot `(k, r, j)` has feature `k`, hidden
//! neuron `r`, image `j`, and every sum uses doubling.

use unspoken_ckks::{Arithmetic, CkksParameters, Complex64};
use unspoken_digits_model::{
    CLASSES, FEATURES_PER_CHANNEL, IMAGE_SIDE, Image, KERNEL, Network, OUTPUT_SIDE, STRIDE, Shape,
};

use super::circuit::{Circuit, Encrypt};
use crate::error::wrong;

pub(super) struct PixelVectorsCircuit {
    shape: Shape,
    batch: usize,
    slots: usize,
    scale: f64,
    /// The primes of levels 1 to 5.
    moduli: [f64; 5],
}

/// Weights and biases; a tile has all features that fit.
pub(super) struct Weights<V> {
    /// For each tile: kernels, their bias, the first dense layer.
    tiles: Vec<(Vec<V>, V, V)>,
    dense_bias: V,
    /// For each output vector: weights and bias.
    out: Vec<(V, V)>,
}

/// The network's parameters in their stored form.
pub(super) struct StoredParameters<'a> {
    pub(super) kernel: &'a [f64],
    pub(super) kernel_bias: &'a [f64],
    pub(super) dense: &'a [f64],
    pub(super) dense_bias: &'a [f64],
    pub(super) out: &'a [f64],
    pub(super) out_bias: &'a [f64],
}

pub(super) fn stored_parameters(network: &Network) -> StoredParameters<'_> {
    let shape = network.shape();
    let mut rest = network.parameters();
    let mut next = |count: usize| rest.split_off(..count).unwrap_or_default();
    StoredParameters {
        kernel: next(shape.channels * KERNEL * KERNEL),
        kernel_bias: next(shape.channels),
        dense: next(shape.hidden * shape.features()),
        dense_bias: next(shape.hidden),
        out: next(CLASSES * shape.hidden),
        out_bias: next(CLASSES),
    }
}

/// The pixel under the kernel at a feature's position.
pub(super) fn pixel(image: &Image, feature: usize, offset: usize) -> f64 {
    let position = feature % FEATURES_PER_CHANNEL;
    let row = position / OUTPUT_SIDE * STRIDE + offset / KERNEL;
    let column = position % OUTPUT_SIDE * STRIDE + offset % KERNEL;
    f64::from(image.pixels()[row * IMAGE_SIDE + column]) / 255.0
}

/// The sum of the products of two lists, relinearised and rescaled once.
pub(super) fn sum_of_products<A: Arithmetic>(
    arithmetic: &A,
    pairs: impl Iterator<Item = (A::Vector, A::Vector)>,
) -> anyhow::Result<A::Vector> {
    let mut sum: Option<A::Vector> = None;
    for (a, b) in pairs {
        let product = arithmetic.tensor(&a, &b)?;
        sum = Some(match sum {
            Some(sum) => arithmetic.add(&sum, &product)?,
            None => product,
        });
    }
    let wrong = || wrong("a sum of no products", 0.0, 1.0);
    Ok(arithmetic.relinearise_rescale(&sum.ok_or_else(wrong)?)?)
}

impl PixelVectorsCircuit {
    pub(super) fn new(shape: Shape, parameters: &CkksParameters, batch: usize) -> anyhow::Result<Self> {
        let moduli = std::array::from_fn(|i| parameters.level_modulus(i + 1));
        Ok(PixelVectorsCircuit { shape, batch, slots: parameters.slots(), scale: parameters.scale(), moduli })
    }

    /// Number of features in a tile.
    fn width(&self) -> usize {
        self.slots / self.shape.hidden / self.batch
    }

    fn tiles(&self) -> usize {
        self.shape.features().div_ceil(self.width())
    }

    fn fill(&self, value: impl Fn(usize, usize, usize) -> f64) -> Vec<Complex64> {
        let at = |slot: usize| {
            let cell = slot / self.batch;
            value(cell / self.shape.hidden, cell % self.shape.hidden, slot % self.batch).into()
        };
        (0..self.slots).map(at).collect()
    }

    fn feature(&self, tile: usize, k: usize) -> Option<usize> {
        Some(tile * self.width() + k).filter(|&feature| feature < self.shape.features())
    }
}

impl Circuit for PixelVectorsCircuit {
    const NAME: &'static str = "a vector for each pixel under the kernel";
    type Weights<V: Send + Sync> = Weights<V>;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn levels(&self) -> usize {
        self.moduli.len()
    }

    fn encrypt<V: Send + Sync>(&self, network: &Network, encrypt: Encrypt<'_, V>) -> anyhow::Result<Weights<V>> {
        let parts = stored_parameters(network);
        let [q1, q2, q3, q4, q5] = self.moduli;
        let convolution = self.scale * self.scale / q5;
        let hidden = convolution * convolution / q4 * self.scale / q3;
        let scores = hidden * hidden / q2 * self.scale / q1;
        let mut tiles = Vec::new();
        for tile in 0..self.tiles() {
            let of = |k: usize, value: &dyn Fn(usize) -> f64| self.feature(tile, k).map_or(0.0, value);
            let kernel = |offset: usize| {
                let value = |f: usize| parts.kernel[f / FEATURES_PER_CHANNEL * KERNEL * KERNEL + offset];
                self.fill(|k, _, _| of(k, &value))
            };
            let kernels = (0..KERNEL * KERNEL).map(|offset| encrypt(&kernel(offset), 5, self.scale));
            let kernels = kernels.collect::<Result<Vec<_>, _>>()?;
            let bias = self.fill(|k, _, _| of(k, &|f| parts.kernel_bias[f / FEATURES_PER_CHANNEL]));
            let dense = self.fill(|k, r, _| of(k, &|f| parts.dense[r * self.shape.features() + f]));
            tiles.push((kernels, encrypt(&bias, 4, convolution)?, encrypt(&dense, 3, self.scale)?));
        }
        let dense_bias = encrypt(&self.fill(|_, r, _| parts.dense_bias[r]), 2, hidden)?;
        let mut out = Vec::new();
        for classes in (0..CLASSES).step_by(self.width()) {
            let weight = |k: usize, r: usize| parts.out.get((classes + k) * self.shape.hidden + r);
            let weights = self.fill(|k, r, _| weight(k, r).copied().unwrap_or_default());
            let bias = self.fill(|k, _, _| parts.out_bias.get(classes + k).copied().unwrap_or_default());
            out.push((encrypt(&weights, 1, self.scale)?, encrypt(&bias, 0, scores)?));
        }
        Ok(Weights { tiles, dense_bias, out })
    }

    fn arrange(&self, images: &[Image]) -> anyhow::Result<Vec<Vec<Complex64>>> {
        let vector = |tile: usize, offset: usize| {
            self.fill(|k, _, j| self.feature(tile, k).map_or(0.0, |feature| pixel(&images[j], feature, offset)))
        };
        let pairs = (0..self.tiles()).flat_map(|tile| (0..KERNEL * KERNEL).map(move |offset| (tile, offset)));
        Ok(pairs.map(|(tile, offset)| vector(tile, offset)).collect())
    }

    fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        weights: &Weights<A::Vector>,
        inputs: &[A::Vector],
    ) -> anyhow::Result<Vec<A::Vector>> {
        let mut squares = Vec::new();
        for (inputs, (kernels, bias, dense)) in inputs.chunks(KERNEL * KERNEL).zip(&weights.tiles) {
            let features = sum_of_products(arithmetic, inputs.iter().cloned().zip(kernels.iter().cloned()))?;
            let features = arithmetic.add(&features, bias)?;
            squares.push((arithmetic.multiply(&features, &features)?, dense.clone()));
        }
        let hidden = sum_of_products(arithmetic, squares.into_iter())?;
        let hidden = arithmetic.sum_slots(&hidden, self.shape.hidden * self.batch, self.width())?;
        let hidden = arithmetic.add(&hidden, &weights.dense_bias)?;
        let squares = arithmetic.multiply(&hidden, &hidden)?;
        let output = |(out, bias): &(A::Vector, A::Vector)| {
            let products = arithmetic.multiply(&squares, out)?;
            Ok(arithmetic.add(&arithmetic.sum_slots(&products, self.batch, self.shape.hidden)?, bias)?)
        };
        weights.out.iter().map(output).collect()
    }

    fn scores(&self, slots: &[Vec<Complex64>]) -> anyhow::Result<Vec<[f64; CLASSES]>> {
        let score = |class: usize, j: usize| {
            slots[class / self.width()][class % self.width() * self.shape.hidden * self.batch + j].re
        };
        Ok((0..self.batch).map(|j| std::array::from_fn(|class| score(class, j))).collect())
    }
}

//! The convolution: products of pixels, in one or several vectors, with plaintext kernels.

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, InnerSum, PreparedVector};
use unspoken_digits_model::{FEATURES_PER_CHANNEL, Network, OUTPUT_SIDE, PIXELS};

use crate::error::CnnError;
use crate::layout::ImageLayout;
use crate::placement::{REACH, step, uses};

/// The kernels as plaintext vectors, grouped by the rotation of their products: `64 d + 8 v + u` cells.
pub(crate) struct Convolution {
    layout: ImageLayout,
    /// The sum over the blocks of a vector.
    sum: InnerSum,
    /// Products by `d` (channels), then by `3 v + u`. Each is the number of an input vector and its plaintext factor.
    products: Vec<Vec<Vec<(usize, PreparedVector)>>>,
}

/// Number of steps: one for each pair of `u` and `v`.
const STEPS: usize = REACH * REACH;

impl Convolution {
    /// Prepares the kernels for inputs at `level`. After a rescale, the products have the scale of the inputs.
    pub(crate) fn new(
        network: &Network,
        parameters: &CkksParameters,
        layout: ImageLayout,
        level: usize,
    ) -> Result<Self, CnnError> {
        let (slots, batch) = (layout.slots(), layout.batch());
        let (channels, features) = (layout.shape().channels, layout.shape().features());
        let mut values = vec![vec![vec![Vec::new(); layout.vectors()]; STEPS]; channels];
        for pixel in 0..PIXELS {
            let (vector, cell) = layout.cell(pixel);
            for (output, row, column) in uses(pixel) {
                let Some((v, u)) = step(cell % FEATURES_PER_CHANNEL, output) else { continue };
                for channel in 0..channels {
                    let target = channel * FEATURES_PER_CHANNEL + output;
                    let distance = (cell + 2 * features - target - v * OUTPUT_SIDE - u) % features;
                    let cells: &mut Vec<f64> = &mut values[distance / FEATURES_PER_CHANNEL][v * REACH + u][vector];
                    cells.resize(slots / batch, 0.0);
                    cells[cell] = network.kernel(channel, row, column);
                }
            }
        }
        let hoisted = layout.vectors() == 1;
        let prepare = |(step, vectors): (usize, Vec<Vec<f64>>)| {
            let used = vectors.into_iter().enumerate().filter(|(_, cells)| !cells.is_empty());
            let prepare = |(vector, mut cells): (usize, Vec<f64>)| {
                if hoisted {
                    cells.rotate_left(step / REACH * OUTPUT_SIDE + step % REACH);
                }
                let values = cells.iter().flat_map(|&w| std::iter::repeat_n(Complex64::from(w), batch)).collect();
                Ok((vector, PreparedVector::new(values, level, parameters.level_modulus(level))?))
            };
            used.map(prepare).collect::<Result<Vec<_>, CkksError>>()
        };
        let prepare_all = |steps: Vec<Vec<Vec<f64>>>| steps.into_iter().enumerate().map(prepare).collect();
        let products = values.into_iter().map(prepare_all).collect::<Result<_, _>>()?;
        let sum = InnerSum::new((features * batch) as i64, layout.blocks_per_vector())?;
        Ok(Self { layout, sum, products })
    }

    /// Bytes of memory of the kernels. Kernels that are not yet encoded count as encoded.
    pub(crate) fn prepared_bytes(&self, parameters: &CkksParameters) -> u64 {
        self.products.iter().flatten().flatten().map(|(_, vector)| vector.prepared_bytes(parameters)).sum()
    }

    /// The convolution without its bias, one level below the inputs: feature `f` of image `i` is in slot `f * batch +
    /// i`, repeated through the slots.
    pub(crate) fn evaluate<A: Arithmetic>(&self, arithmetic: &A, inputs: &[A::Vector]) -> Result<A::Vector, CkksError> {
        let batch = self.layout.batch() as i64;
        let by_step = match inputs {
            [input] => self.hoisted(arithmetic, input)?,
            _ => {
                self.products.iter().map(|steps| self.by_horner(arithmetic, steps, inputs)).collect::<Result<_, _>>()?
            }
        };
        let sum = horner(arithmetic, by_step, FEATURES_PER_CHANNEL as i64 * batch)?;
        self.sum.apply(arithmetic, &arithmetic.rescale(&sum)?)
    }

    /// The products of a single input, whose nine rotations share one digit decomposition.
    fn hoisted<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<Vec<Option<A::Vector>>, CkksError> {
        let batch = self.layout.batch();
        let rotation = |step: usize| ((step / REACH * OUTPUT_SIDE + step % REACH) * batch) as i64;
        let steps: Vec<i64> = (1..STEPS).map(rotation).collect();
        let mut rotated = vec![input.clone()];
        rotated.extend(arithmetic.rotate_hoisted(input, &steps)?);
        let sum = |products: &Vec<Vec<(usize, PreparedVector)>>| {
            let mut pairs = Vec::new();
            for (rotated, products) in rotated.iter().zip(products) {
                pairs.extend(products.iter().map(|(_, factor)| (rotated, factor)));
            }
            arithmetic.sum_products(&pairs).map(Some)
        };
        self.products.iter().map(sum).collect()
    }

    /// The products of several inputs, which are added before they are rotated.
    fn by_horner<A: Arithmetic>(
        &self,
        arithmetic: &A,
        steps: &[Vec<(usize, PreparedVector)>],
        inputs: &[A::Vector],
    ) -> Result<Option<A::Vector>, CkksError> {
        let batch = self.layout.batch() as i64;
        let product = |products: &Vec<(usize, PreparedVector)>| {
            let pairs: Vec<_> = products.iter().map(|(vector, factor)| (&inputs[*vector], factor)).collect();
            if pairs.is_empty() { Ok(None) } else { arithmetic.sum_products(&pairs).map(Some) }
        };
        let row = |steps: &[Vec<(usize, PreparedVector)>]| {
            let products = steps.iter().map(product).collect::<Result<Vec<_>, _>>()?;
            horner(arithmetic, products, batch).map(Some)
        };
        let rows = steps.chunks(REACH).map(row).collect::<Result<Vec<_>, _>>()?;
        horner(arithmetic, rows, OUTPUT_SIDE as i64 * batch).map(Some)
    }
}

/// `sum_i rotate(terms[i], i * step)` by Horner's rule, with one key.
fn horner<A: Arithmetic>(arithmetic: &A, terms: Vec<Option<A::Vector>>, step: i64) -> Result<A::Vector, CkksError> {
    let mut sum: Option<A::Vector> = None;
    for term in terms.into_iter().rev() {
        let rotated = sum.map(|sum| arithmetic.rotate(&sum, step)).transpose()?;
        sum = match (rotated, term) {
            (Some(rotated), Some(term)) => Some(arithmetic.add(&rotated, &term)?),
            (rotated, term) => rotated.or(term),
        };
    }
    let none = || CkksError::Shape { operation: "convolution", found: 0, needed: "a kernel".into() };
    sum.ok_or_else(none)
}

//! Forward and backward pass for a block of images at once, one image in each lane of a vector.

use crate::images::Image;
use crate::shape::{CLASSES, FEATURES_PER_CHANNEL, IMAGE_SIDE, KERNEL, OUTPUT_SIDE, PIXELS, STRIDE, Shape};

/// Images of a block.
pub(super) const LANES: usize = 16;

type Lane = [f32; LANES];

/// An image, its label, and its shift down and to the right.
#[derive(Clone, Copy)]
pub(super) struct Example<'a> {
    pub image: &'a Image,
    pub label: u8,
    pub shift: (isize, isize),
}

/// Loss and correct predictions, summed over images.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub examples: usize,
    pub right: usize,
    pub loss: f64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        self.examples += other.examples;
        self.right += other.right;
        self.loss += other.loss;
    }
}

/// `y += w x`.
fn add_scaled(y: &mut Lane, w: f32, x: &Lane) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += w * x;
    }
}

/// `y += a b`, lane by lane.
fn add_product(y: &mut Lane, a: &Lane, b: &Lane) {
    for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
        *y += a * b;
    }
}

fn dot(a: &Lane, b: &Lane) -> f32 {
    let mut product = [0.0; LANES];
    add_product(&mut product, a, b);
    product.iter().sum()
}

fn square(a: &Lane) -> Lane {
    a.map(|x| x * x)
}

/// The first pixel under the kernel at a position.
fn corner(position: usize) -> usize {
    position / OUTPUT_SIDE * STRIDE * IMAGE_SIDE + position % OUTPUT_SIDE * STRIDE
}

/// `sum_k matrix[row][k] inputs[k]`, and a bias.
fn dense(matrix: &[f32], biases: &[f32], inputs: &[Lane]) -> Vec<Lane> {
    let row = |(row, &bias): (&[f32], &f32)| {
        let mut sum = [bias; LANES];
        row.iter().zip(inputs).for_each(|(&w, x)| add_scaled(&mut sum, w, x));
        sum
    };
    matrix.chunks_exact(inputs.len()).zip(biases).map(row).collect()
}

/// Adds the gradient of a dense layer's matrix and biases, and returns the gradient of its inputs.
fn dense_backward(
    matrix: &[f32],
    inputs: &[Lane],
    outputs: &[Lane],
    gradient: &mut [f32],
    biases: &mut [f32],
) -> Vec<Lane> {
    let mut back = vec![[0.0; LANES]; inputs.len()];
    let rows = matrix.chunks_exact(inputs.len()).zip(gradient.chunks_exact_mut(inputs.len()));
    for (((weights, gradient), output), bias) in rows.zip(outputs).zip(biases) {
        *bias += output.iter().sum::<f32>();
        for (((weight, gradient), input), back) in weights.iter().zip(gradient).zip(inputs).zip(&mut back) {
            *gradient += dot(output, input);
            add_scaled(back, *weight, output);
        }
    }
    back
}

/// The gradient of a square: twice its input times the gradient of its output.
fn square_backward(inputs: &[Lane], outputs: &mut [Lane]) {
    for (output, input) in outputs.iter_mut().zip(inputs) {
        output.iter_mut().zip(input).for_each(|(gradient, x)| *gradient *= 2.0 * x);
    }
}

/// Pixels of shifted images, one image in each lane.
fn pixels(examples: &[Example<'_>]) -> Vec<Lane> {
    let mut pixels = vec![[0.0; LANES]; PIXELS];
    for (lane, example) in examples.iter().enumerate() {
        let (down, right) = example.shift;
        for (i, pixel) in pixels.iter_mut().enumerate() {
            let (row, column) = ((i / IMAGE_SIDE) as isize, (i % IMAGE_SIDE) as isize);
            pixel[lane] = example.image.value(row - down, column - right) as f32;
        }
    }
    pixels
}

fn convolution(shape: Shape, weights: &[f32], pixels: &[Lane]) -> Vec<Lane> {
    let parts = shape.parts();
    let kernels = weights[parts.kernel].chunks_exact(KERNEL * KERNEL).zip(&weights[parts.kernel_bias]);
    let mut outputs = Vec::with_capacity(shape.features());
    for (kernel, &bias) in kernels {
        for position in 0..FEATURES_PER_CHANNEL {
            let mut sum = [bias; LANES];
            for (row, weights) in kernel.chunks_exact(KERNEL).enumerate() {
                let pixels = &pixels[corner(position) + row * IMAGE_SIDE..];
                weights.iter().zip(pixels).for_each(|(&w, x)| add_scaled(&mut sum, w, x));
            }
            outputs.push(sum);
        }
    }
    outputs
}

fn convolution_backward(shape: Shape, pixels: &[Lane], outputs: &[Lane], gradient: &mut [f32]) {
    let parts = shape.parts();
    for (channel, outputs) in outputs.chunks_exact(FEATURES_PER_CHANNEL).enumerate() {
        let mut sums = [[0.0; LANES]; KERNEL * KERNEL];
        for (position, output) in outputs.iter().enumerate() {
            for (row, sums) in sums.chunks_exact_mut(KERNEL).enumerate() {
                let pixels = &pixels[corner(position) + row * IMAGE_SIDE..];
                sums.iter_mut().zip(pixels).for_each(|(sum, x)| add_product(sum, output, x));
            }
        }
        let kernel = &mut gradient[parts.kernel.start + channel * KERNEL * KERNEL..][..KERNEL * KERNEL];
        kernel.iter_mut().zip(&sums).for_each(|(gradient, sum)| *gradient += sum.iter().sum::<f32>());
        gradient[parts.kernel_bias.start + channel] += outputs.iter().flatten().sum::<f32>();
    }
}

/// Replaces scores by the gradient of the cross-entropy, and returns loss and correct predictions. Lanes without an
/// image get zero.
fn judge(scores: &mut [Lane], examples: &[Example<'_>]) -> Tally {
    let mut tally = Tally { examples: examples.len(), ..Tally::default() };
    for lane in 0..LANES {
        let Some(example) = examples.get(lane) else {
            scores.iter_mut().for_each(|score| score[lane] = 0.0);
            continue;
        };
        let label = usize::from(example.label);
        let largest = scores.iter().fold(f32::NEG_INFINITY, |max, score| max.max(score[lane]));
        let others = scores.iter().enumerate().filter(|&(class, _)| class != label);
        let right = others.fold(true, |right, (_, score)| right && score[lane] < scores[label][lane]);
        let sum: f32 = scores.iter().map(|score| (score[lane] - largest).exp()).sum();
        tally.loss += f64::from(sum.ln() + largest - scores[label][lane]);
        tally.right += usize::from(right);
        for (class, score) in scores.iter_mut().enumerate() {
            score[lane] = (score[lane] - largest).exp() / sum - f32::from(u8::from(class == label));
        }
    }
    tally
}

/// The gradient of the summed cross-entropy of up to [`LANES`] examples.
pub(super) fn gradient(shape: Shape, weights: &[f32], examples: &[Example<'_>]) -> (Vec<f32>, Tally) {
    let parts = shape.parts();
    let pixels = pixels(examples);
    let first = convolution(shape, weights, &pixels);
    let first_squares: Vec<Lane> = first.iter().map(square).collect();
    let second = dense(&weights[parts.dense.clone()], &weights[parts.dense_bias.clone()], &first_squares);
    let second_squares: Vec<Lane> = second.iter().map(square).collect();
    let mut scores = dense(&weights[parts.out.clone()], &weights[parts.out_bias.clone()], &second_squares);
    debug_assert_eq!(scores.len(), CLASSES);
    let tally = judge(&mut scores, examples);
    let mut gradient = vec![0.0; shape.parameters()];
    let (head, out_bias) = gradient.split_at_mut(parts.out_bias.start);
    let (head, out) = head.split_at_mut(parts.out.start);
    let (head, dense_bias) = head.split_at_mut(parts.dense_bias.start);
    let (_, dense) = head.split_at_mut(parts.dense.start);
    let mut back = dense_backward(&weights[parts.out], &second_squares, &scores, out, out_bias);
    square_backward(&second, &mut back);
    let mut back = dense_backward(&weights[parts.dense], &first_squares, &back, dense, dense_bias);
    square_backward(&first, &mut back);
    convolution_backward(shape, &pixels, &back, &mut gradient);
    (gradient, tally)
}

#[cfg(test)]
mod tests {
    use unspoken_store::Random;

    use super::*;
    use crate::train::stream::Stream;

    #[test]
    fn gradients_are_the_slopes_of_the_loss() {
        let shape = Shape { channels: 1, hidden: 16 };
        let mut random = Random::new(3, Stream::Start as u64);
        let pixels: Vec<u8> = (0..PIXELS).map(|_| random.below(256) as u8).collect();
        let image = Image::new(&pixels).unwrap();
        let examples = [(3, (0, 0)), (8, (1, -1))].map(|(label, shift)| Example { image: &image, label, shift });
        let mut weights: Vec<f32> = (0..shape.parameters()).map(|_| random.symmetric(0.1)).collect();
        let (gradient, _) = super::gradient(shape, &weights, &examples);
        let parts = shape.parts();
        for range in [parts.kernel, parts.kernel_bias, parts.dense, parts.dense_bias, parts.out, parts.out_bias] {
            let largest = range.max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs())).unwrap();
            let mut loss_at = |delta: f32| {
                let kept = weights[largest];
                weights[largest] += delta;
                let loss = super::gradient(shape, &weights, &examples).1.loss;
                weights[largest] = kept;
                loss
            };
            let slope = (loss_at(1e-2) - loss_at(-1e-2)) / 2e-2;
            let found = f64::from(gradient[largest]);
            assert!((slope - found).abs() < 0.02 * slope.abs() + 1e-4, "{largest}: {found} and {slope}");
        }
    }
}

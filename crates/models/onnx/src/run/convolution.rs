//! Convolutions and pools, window by window.

use ndarray::{ArrayD, Axis, IxDyn};

use super::operations::unlike;
use crate::error::OnnxError;
use crate::graph::{Conv, Window};

/// The operand of a window with two axes; one axis is taken as one row of an image.
struct Image {
    height: usize,
    width: usize,
}

/// A window with two axes.
struct Window2 {
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
}

impl Window2 {
    fn of(window: &Window) -> Option<Window2> {
        let both = |values: &[usize], one: usize| match *values {
            [width] => Some([one, width]),
            [height, width] => Some([height, width]),
            _ => None,
        };
        let (before, after): (Vec<usize>, Vec<usize>) = window.padding.iter().copied().unzip();
        Some(Window2 {
            kernel: both(&window.kernel, 1)?,
            stride: both(&window.stride, 1)?,
            dilation: both(&window.dilation, 1)?,
            before: both(&before, 0)?,
            after: both(&after, 0)?,
        })
    }

    /// Calls with the place in the kernel and the place in the image for each element of a window that is no padding.
    fn each(&self, image: &Image, row: usize, column: usize, mut call: impl FnMut(usize, usize)) {
        let place = |axis: usize, start: usize, step: usize, size: usize| {
            let padded = start * self.stride[axis] + step * self.dilation[axis];
            padded.checked_sub(self.before[axis]).filter(|&place| place < size)
        };
        for y in 0..self.kernel[0] {
            let Some(inner_row) = place(0, row, y, image.height) else { continue };
            for x in 0..self.kernel[1] {
                if let Some(inner_column) = place(1, column, x, image.width) {
                    call(y * self.kernel[1] + x, inner_row * image.width + inner_column);
                }
            }
        }
    }

    /// How many elements of a window are in the padded image.
    fn padded_count(&self, image: &Image, row: usize, column: usize) -> usize {
        let count = |axis: usize, start: usize, size: usize| {
            let end = self.before[axis] + size + self.after[axis];
            end.saturating_sub(start * self.stride[axis]).min(self.kernel[axis])
        };
        count(0, row, image.height) * count(1, column, image.width)
    }
}

/// The convolution of a batch.
pub(super) fn conv(conv: &Conv, x: &ArrayD<f32>, shape: &[usize]) -> Result<ArrayD<f32>, OnnxError> {
    let weight = conv.weight.as_standard_layout();
    let (outputs, of_group) = (weight.shape()[0], weight.shape()[1]);
    let kernel: usize = weight.shape()[2..].iter().product();
    let weight = weight.as_slice().unwrap_or_default();
    let per_group = outputs / conv.groups.max(1);
    windows(&conv.window, x, shape, |window, image, channels, output, row, column| {
        let first = output / per_group * of_group;
        let mut sum = conv.bias.as_ref().map_or(0.0, |bias| f64::from(bias[output]));
        for within in 0..of_group {
            let weights = &weight[(output * of_group + within) * kernel..][..kernel];
            let channel = &channels[(first + within) * image.height * image.width..];
            window.each(image, row, column, |place, inner| {
                sum += f64::from(weights[place]) * f64::from(channel[inner]);
            });
        }
        sum as f32
    })
}

/// Averages of windows.
pub(super) fn average_pool(
    window: &Window,
    count_include_pad: bool,
    x: &ArrayD<f32>,
    shape: &[usize],
) -> Result<ArrayD<f32>, OnnxError> {
    windows(window, x, shape, |window, image, channels, channel, row, column| {
        let channel = &channels[channel * image.height * image.width..];
        let (mut sum, mut count) = (0.0, 0);
        window.each(image, row, column, |_, inner| {
            sum += f64::from(channel[inner]);
            count += 1;
        });
        let count = if count_include_pad { window.padded_count(image, row, column) } else { count };
        (sum / count as f64) as f32
    })
}

/// Maxima of windows.
pub(super) fn max_pool(window: &Window, x: &ArrayD<f32>, shape: &[usize]) -> Result<ArrayD<f32>, OnnxError> {
    windows(window, x, shape, |window, image, channels, channel, row, column| {
        let channel = &channels[channel * image.height * image.width..];
        let mut greatest = f32::NEG_INFINITY;
        window.each(image, row, column, |_, inner| greatest = greatest.max(channel[inner]));
        greatest
    })
}

/// A value for each window of each channel of each row of the batch.
fn windows(
    window: &Window,
    x: &ArrayD<f32>,
    shape: &[usize],
    of: impl Fn(&Window2, &Image, &[f32], usize, usize, usize) -> f32,
) -> Result<ArrayD<f32>, OnnxError> {
    let wrong = || unlike(x.shape(), shape);
    let spatial = |shape: &[usize]| match *shape {
        [_, _, width] => Some(Image { height: 1, width }),
        [_, _, height, width] => Some(Image { height, width }),
        _ => None,
    };
    let window = Window2::of(window).ok_or_else(wrong)?;
    let (image, counts) = (spatial(x.shape()).ok_or_else(wrong)?, spatial(shape).ok_or_else(wrong)?);
    let x = x.as_standard_layout();
    let mut numbers = Vec::new();
    for row in x.axis_iter(Axis(0)) {
        let channels = row.as_slice().ok_or_else(wrong)?;
        for output in 0..shape[1] {
            for y in 0..counts.height {
                numbers.extend((0..counts.width).map(|x| of(&window, &image, channels, output, y, x)));
            }
        }
    }
    ArrayD::from_shape_vec(IxDyn(shape), numbers).map_err(|_| wrong())
}

//! The shape of a network (Table 5 of the paper).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::DigitsModelError;

/// Pixels in a row or column of an image.
pub const IMAGE_SIDE: usize = 28;
/// Pixels of an image, row by row.
pub const PIXELS: usize = IMAGE_SIDE * IMAGE_SIDE;
/// Pixels in a row or column of the convolution's kernel.
pub const KERNEL: usize = 7;
/// Pixels from one position of the kernel to the next.
pub const STRIDE: usize = 3;
/// Positions of the kernel in a row or column.
pub const OUTPUT_SIDE: usize = (IMAGE_SIDE - KERNEL) / STRIDE + 1;
/// Positions of the kernel: features of one channel, row by row.
pub const FEATURES_PER_CHANNEL: usize = OUTPUT_SIDE * OUTPUT_SIDE;
/// Number of classes, the digits.
pub const CLASSES: usize = 10;

/// Number of channels and hidden neurons of a network. The rest is fixed: a convolution of 7 x 7 pixels with stride 3,
/// a square, a dense layer, a square, and a dense layer to ten scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Channels of the convolution: 1, 2, 4 or 8.
    pub channels: usize,
    /// Neurons between the two dense layers: 16, 32, 64 or 128, and at most the number of features.
    pub hidden: usize,
}

impl Shape {
    /// E2DM-lite: 2 channels, 128 features, 32 hidden neurons.
    pub const LITE: Shape = Shape { channels: 2, hidden: 32 };
    /// E2DM (Jiang, Kim, Lauter and Song, CCS 2018): 4 channels, 256 features, 64 hidden neurons.
    pub const FULL: Shape = Shape { channels: 4, hidden: 64 };

    /// Number of outputs of the convolution; they are ordered by channel.
    pub fn features(self) -> usize {
        self.channels * FEATURES_PER_CHANNEL
    }

    /// Number of parameters of a network of this shape: weights and biases.
    pub fn parameters(self) -> usize {
        self.parts().out_bias.end
    }

    /// # Errors
    /// [`DigitsModelError::Field`] for numbers outside their ranges.
    pub fn check(self) -> Result<(), DigitsModelError> {
        if ![1, 2, 4, 8].contains(&self.channels) {
            return Err(DigitsModelError::field("channels", self.channels, "1, 2, 4 or 8"));
        }
        if ![16, 32, 64, 128].contains(&self.hidden) || self.hidden > self.features() {
            let needed = format!("16, 32, 64 or 128, and at most {} features", self.features());
            return Err(DigitsModelError::field("hidden", self.hidden, needed));
        }
        Ok(())
    }

    /// Position of each part in the list of all parameters.
    pub(crate) fn parts(self) -> Parts {
        let mut end = 0;
        let mut next = |len: usize| {
            let start = end;
            end += len;
            start..end
        };
        Parts {
            kernel: next(self.channels * KERNEL * KERNEL),
            kernel_bias: next(self.channels),
            dense: next(self.hidden * self.features()),
            dense_bias: next(self.hidden),
            out: next(CLASSES * self.hidden),
            out_bias: next(CLASSES),
        }
    }
}

/// Ranges in the list of all parameters, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// `[channel][row][column]`
    pub kernel: Range<usize>,
    /// `[channel]`
    pub kernel_bias: Range<usize>,
    /// `[hidden][feature]`
    pub dense: Range<usize>,
    /// `[hidden]`
    pub dense_bias: Range<usize>,
    /// `[class][hidden]`
    pub out: Range<usize>,
    /// `[class]`
    pub out_bias: Range<usize>,
}

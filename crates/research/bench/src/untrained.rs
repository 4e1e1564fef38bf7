//! Networks for digits that nobody trained.

use unspoken_digits_model::{CLASSES, Network, Shape, TrainingRecord};

/// A pseudorandom number in `[-1, 1)` for each `i`.
pub(crate) fn pseudorandom(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// An untrained network whose values stay near 1: the weights do not change the time.
pub(crate) fn network(shape: Shape) -> anyhow::Result<Network> {
    let sizes = [(shape.channels * 49, 0.3), (shape.channels, 0.5), (shape.hidden * shape.features(), 0.1)];
    let sizes = sizes.into_iter().chain([(shape.hidden, 0.5), (CLASSES * shape.hidden, 0.3), (CLASSES, 0.5)]);
    let widths = sizes.flat_map(|(count, width)| std::iter::repeat_n(width, count));
    let parameters = widths.enumerate().map(|(i, width)| width * pseudorandom(i)).collect();
    Ok(Network::new(shape, parameters, TrainingRecord::default())?)
}

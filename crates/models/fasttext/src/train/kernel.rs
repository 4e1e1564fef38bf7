//! Inner loops over `f32` rows. They use only additions, multiplications,
//! divisions and square roots in a fixed order, so that a seed gives the same
//! model on every machine, whatever its mathematical library.

/// Number of separate partial sums, so that the compiler can use vector registers.
const LANES: usize = 8;

/// `sum_i a_i b_i`.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += x * y;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    lanes.iter().sum::<f32>() + rest
}

/// `sum_i a_i`.
fn sum(a: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (blocks, rest) = a.as_chunks::<LANES>();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += x;
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// `max_i a_i`.
fn largest(a: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (blocks, rest) = a.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}

/// `y_i += scale x_i`.
pub(super) fn add_scaled(y: &mut [f32], scale: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

/// Below this, `exp_nonpositive` is 0: the result would be less than the rounding of a sum with 1. Products of larger
/// results are not subnormal numbers, which are slow.
const NEGLIGIBLE: f32 = -20.0;

/// `exp(x)` for `x <= 0`, relative error below 2^-21; 0 below -20.
pub(super) fn exp_nonpositive(x: f32) -> f32 {
    /// 1.5 * 2^23: adding it rounds to an integer, held in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.max(NEGLIGIBLE);
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    // exp on [-ln2/2, ln2/2], Taylor to degree 6.
    let tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0));
    let series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * tail)));
    // n + 127 in the exponent field; the shift drops the bits of ROUND.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < NEGLIGIBLE { 0.0 } else { series * power }
}

/// Replaces a row of logits by `softmax(row / temperature)`.
pub(super) fn softmax(row: &mut [f32], temperature: f32) {
    let largest = largest(row);
    let inverse = 1.0 / temperature;
    for value in row.iter_mut() {
        *value = exp_nonpositive((*value - largest) * inverse);
    }
    let scale = 1.0 / sum(row);
    row.iter_mut().for_each(|value| *value *= scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_library_one() {
        for step in 0..=2000 {
            let x = -(step as f32) * 0.01;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp_nonpositive(x)) - exact).abs() / exact;
            assert!(error < 4.8e-7, "exp({x}): relative error {error:e}");
        }
        assert_eq!(exp_nonpositive(0.0), 1.0);
        assert_eq!(exp_nonpositive(-20.1), 0.0);
        assert_eq!(exp_nonpositive(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn softmax_sums_to_one_and_sharpens_as_it_cools() {
        let logits = [1.0, 3.0, 2.0, -50.0];
        let largest = |temperature| {
            let mut row = logits;
            softmax(&mut row, temperature);
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            row[1]
        };
        assert!((largest(1.0) - 0.665_240_96).abs() < 1e-6);
        assert!(largest(0.1) > 0.9999);
    }

    #[test]
    fn dot_covers_the_rest_of_a_row() {
        let a: Vec<f32> = (0..19u8).map(f32::from).collect();
        assert_eq!(dot(&a, &a), 2109.0);
        let mut y = a.clone();
        add_scaled(&mut y, 2.0, &a);
        assert_eq!(y[18], 54.0);
    }
}

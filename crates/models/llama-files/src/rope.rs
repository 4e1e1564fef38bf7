//! Angles of RoPE.

/// The angles `base^(-2 i / head_width)` of RoPE, in radians per position.
pub fn rope_frequencies(base: f64, head_width: usize) -> Vec<f64> {
    (0..head_width / 2).map(|pair| base.powf(-2.0 * pair as f64 / head_width as f64)).collect()
}

/// The order of rows of queries or keys in which the two rows that RoPE turns against each other are adjacent, for
/// files that turn row `i` of a head against row `i + rotated / 2`. Rows from `rotated` on are not turned.
pub fn adjacent_pairs(rows: usize, head_width: usize, rotated: usize) -> Vec<usize> {
    let source = |row: usize| {
        let (head, place) = (row / head_width * head_width, row % head_width);
        head + if place < rotated { place / 2 + (place % 2) * (rotated / 2) } else { place }
    };
    (0..rows).map(source).collect()
}

/// How frequencies are scaled for contexts that are longer than in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// All angles divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: long wavelengths divided by the factor, short ones kept, those between interpolated.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Number of turns in the original context below which an angle is divided.
        low_turns: f64,
        /// Number of turns in the original context above which an angle is kept.
        high_turns: f64,
        /// Context in training.
        original_context: f64,
    },
}

impl RopeScaling {
    pub fn apply(self, frequency: f64) -> f64 {
        match self {
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 { factor, low_turns, high_turns, original_context } => {
                let turns = original_context * frequency / std::f64::consts::TAU;
                if turns < low_turns {
                    frequency / factor
                } else if turns > high_turns {
                    frequency
                } else {
                    let smooth = (turns - low_turns) / (high_turns - low_turns);
                    frequency * ((1.0 - smooth) / factor + smooth)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_head_become_adjacent_pairs() {
        assert_eq!(adjacent_pairs(8, 4, 4), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(adjacent_pairs(12, 6, 4), [0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11]);
    }

    #[test]
    fn llama3_scaling_keeps_short_wavelengths_and_divides_long_ones() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low_turns: 1.0, high_turns: 4.0, original_context: 8192.0 };
        let frequencies = rope_frequencies(500_000.0, 128);
        let scaled: Vec<f64> = frequencies.iter().map(|frequency| scaling.apply(*frequency)).collect();
        assert_eq!(scaled[0], 1.0);
        assert_eq!(scaled[63], frequencies[63] / 8.0);
        // Interpolated angles lie between both, in falling order.
        assert!(scaled.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(scaled.iter().zip(&frequencies).all(|(new, old)| *new <= *old && *new >= *old / 8.0));
    }
}

//! AdamW (Loshchilov and Hutter) for the dense parameters.

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
/// Far below any gradient here, so that the step does not depend on its scale.
const EPSILON: f32 = 1e-10;

/// The state of AdamW for one tensor.
pub(super) struct AdamW {
    first: Vec<f32>,
    second: Vec<f32>,
    /// BETA1^step, BETA2^step
    decay: (f32, f32),
}

impl AdamW {
    pub(super) fn new(size: usize) -> Self {
        Self { first: vec![0.0; size], second: vec![0.0; size], decay: (1.0, 1.0) }
    }

    /// One step: `w -= rate (m / (sqrt(v) + eps) + weight_decay w)`.
    pub(super) fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32, weight_decay: f32) {
        self.decay = (self.decay.0 * BETA1, self.decay.1 * BETA2);
        let first_scale = 1.0 / (1.0 - self.decay.0);
        let second_scale = 1.0 / (1.0 - self.decay.1);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((weight, &gradient), (first, second)) in weights.iter_mut().zip(gradient).zip(moments) {
            *first += (1.0 - BETA1) * (gradient - *first);
            *second += (1.0 - BETA2) * (gradient * gradient - *second);
            let update = *first * first_scale / ((*second * second_scale).sqrt() + EPSILON);
            *weight -= rate * (update + weight_decay * *weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_step_has_the_size_of_the_rate() {
        let mut weights = [1.0f32, -1.0];
        AdamW::new(2).step(&mut weights, &[1e-4, -7.0], 0.1, 0.0);
        assert!((weights[0] - 0.9).abs() < 1e-5 && (weights[1] + 0.9).abs() < 1e-5);
    }

    #[test]
    fn finds_the_minimum_of_a_parabola() {
        let mut weights = [5.0f32];
        let mut adam = AdamW::new(1);
        for _ in 0..2000 {
            let gradient = [2.0 * (weights[0] - 3.0)];
            adam.step(&mut weights, &gradient, 0.05, 0.0);
        }
        assert!((weights[0] - 3.0).abs() < 1e-2, "{}", weights[0]);
    }
}

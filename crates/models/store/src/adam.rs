//! The optimiser AdamW.

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;

/// The state of AdamW for one tensor: the decaying means of its gradient and of the gradient's square.
pub struct AdamW {
    first: Vec<f32>,
    second: Vec<f32>,
    /// BETA1^step, BETA2^step
    decay: (f32, f32),
    epsilon: f32,
}

impl AdamW {
    /// The initial state for a tensor of `size` weights. Gradients far above `epsilon` move a weight by the rate,
    /// whatever their scale.
    pub fn new(size: usize, epsilon: f32) -> Self {
        Self { first: vec![0.0; size], second: vec![0.0; size], decay: (1.0, 1.0), epsilon }
    }

    /// One step: `w -= rate (m / (sqrt(v) + epsilon) + weight_decay w)`. Slices are as long as the tensor; the rest of
    /// longer ones is ignored.
    pub fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32, weight_decay: f32) {
        self.decay = (self.decay.0 * BETA1, self.decay.1 * BETA2);
        let first_scale = 1.0 / (1.0 - self.decay.0);
        let second_scale = 1.0 / (1.0 - self.decay.1);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((weight, &gradient), (first, second)) in weights.iter_mut().zip(gradient).zip(moments) {
            *first += (1.0 - BETA1) * (gradient - *first);
            *second += (1.0 - BETA2) * (gradient * gradient - *second);
            let update = *first * first_scale / ((*second * second_scale).sqrt() + self.epsilon);
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
        AdamW::new(2, 1e-10).step(&mut weights, &[1e-4, -7.0], 0.1, 0.0);
        assert!((weights[0] - 0.9).abs() < 1e-5 && (weights[1] + 0.9).abs() < 1e-5);
    }

    #[test]
    fn epsilon_holds_small_gradients_back() {
        let mut weights = [1.0f32];
        AdamW::new(1, 1.0).step(&mut weights, &[1.0], 0.1, 0.0);
        assert!((weights[0] - 0.95).abs() < 1e-5, "{}", weights[0]);
    }

    #[test]
    fn weights_decay_beside_the_gradient() {
        let mut weights = [2.0f32];
        AdamW::new(1, 1e-8).step(&mut weights, &[0.0], 0.1, 0.5);
        assert!((weights[0] - 1.9).abs() < 1e-6, "{}", weights[0]);
    }

    #[test]
    fn finds_the_minimum_of_a_parabola() {
        let mut weights = [5.0f32];
        let mut adam = AdamW::new(1, 1e-10);
        for _ in 0..2000 {
            let gradient = [2.0 * (weights[0] - 3.0)];
            adam.step(&mut weights, &gradient, 0.05, 0.0);
        }
        assert!((weights[0] - 3.0).abs() < 1e-2, "{}", weights[0]);
    }
}

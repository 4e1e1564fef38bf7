//! AdamW (Loshchilov and Hutter).

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// The moments of every parameter.
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

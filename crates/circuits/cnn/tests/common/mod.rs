//! A client with its keys, and pseudorandom networks and images for the tests.

use unspoken_ckks::{Ciphertext, CkksParameters, Complex64, Encoder, Preset};
use unspoken_digits_model::{Image, Network, PIXELS, Shape, TrainingRecord};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

pub const PRESET: &str = "insecure_n11_real_depth17_scale30";

pub struct Client {
    pub encoder: Encoder,
    secret: SecretKey,
    rng: SecretRng,
}

impl Client {
    pub fn new(preset: &str, seed: u64) -> Self {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(seed);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        Client { encoder: Encoder::new(&parameters), secret, rng }
    }

    pub fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    pub fn keys(&mut self, plan: &KeyPlan) -> EvaluationKeys {
        EvaluationKeys::generate(&self.secret, plan, &mut self.rng).unwrap()
    }

    pub fn encrypt_at(&mut self, slots: &[Complex64], level: usize, scale: f64) -> Ciphertext {
        let plaintext = self.encoder.encode(slots, level, scale).unwrap();
        self.encoder.encrypt(&plaintext, &self.secret, &mut self.rng).unwrap().expand(self.encoder.parameters())
    }

    pub fn encrypt(&mut self, vectors: &[Vec<Complex64>], level: usize) -> Vec<Ciphertext> {
        let scale = self.parameters().scale();
        vectors.iter().map(|slots| self.encrypt_at(slots, level, scale)).collect()
    }

    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Vec<Complex64> {
        self.encoder.decrypt(ciphertext, &self.secret).unwrap().to_vec()
    }
}

/// A pseudorandom number in `[-1, 1)`, determined by `i`.
fn mixed(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A network whose intermediate values are near 1.
pub fn network(shape: Shape) -> Network {
    let sizes = [(shape.channels * 49, 0.3), (shape.channels, 0.5), (shape.hidden * shape.features(), 0.1)];
    let sizes = sizes.into_iter().chain([(shape.hidden, 0.5), (10 * shape.hidden, 0.5), (10, 0.5)]);
    let widths = sizes.flat_map(|(count, width)| std::iter::repeat_n(width, count));
    let parameters = widths.enumerate().map(|(i, width)| width * mixed(i)).collect();
    Network::new(shape, parameters, TrainingRecord::default()).unwrap()
}

/// Images of noise, including the borders.
pub fn images(count: usize) -> Vec<Image> {
    let pixel = |i: usize| (127.5 * (1.0 + mixed(1000 + i))) as u8;
    let image = |i: usize| Image::new(&(0..PIXELS).map(|p| pixel(i * PIXELS + p)).collect::<Vec<u8>>()).unwrap();
    (0..count).map(image).collect()
}

/// The largest absolute difference of two lists of scores.
pub fn worst(found: &[[f64; 10]], exact: &[[f64; 10]]) -> f64 {
    assert_eq!(found.len(), exact.len());
    let pairs = found.iter().flatten().zip(exact.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

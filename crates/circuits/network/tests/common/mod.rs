//! A client with its keys, and pseudorandom networks and rows for the tests.

#![allow(dead_code)] // Each test binary uses a part.

use ndarray::{Array2, ArrayView2};
use unspoken_ckks::{Ciphertext, CkksParameters, Encoder, Evaluator, Preset};
use unspoken_network::{Answer, Design, Function, Network, NetworkBuilder, Options, Program, Ranges, SparseMatrix};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

pub struct Client {
    pub encoder: Encoder,
    secret: SecretKey,
    rng: SecretRng,
}

impl Client {
    pub fn new(preset: &str) -> Self {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        Client { encoder: Encoder::new(&parameters), secret, rng }
    }

    pub fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    pub fn keys(&mut self, program: &Program) -> EvaluationKeys {
        EvaluationKeys::generate(&self.secret, program.key_plan(), &mut self.rng).unwrap()
    }

    pub fn encrypt(&mut self, program: &Program, rows: &[ArrayView2<f64>]) -> Vec<Vec<Ciphertext>> {
        let (level, scale) = (program.input_level(), program.scale());
        let mut inputs = Vec::new();
        for (port, rows) in program.inputs().iter().zip(rows) {
            let encrypt = |slots: &Vec<_>| {
                let plaintext = self.encoder.encode(slots, level, scale).unwrap();
                let seeded = self.encoder.encrypt(&plaintext, &self.secret, &mut self.rng).unwrap();
                seeded.expand(self.encoder.parameters())
            };
            inputs.push(port.arrange(*rows).unwrap().iter().map(encrypt).collect());
        }
        inputs
    }

    pub fn decrypt(&self, program: &Program, answers: &[Vec<Ciphertext>], count: usize) -> Vec<Answer> {
        let read = |(port, vectors): (&unspoken_network::Port, &Vec<Ciphertext>)| {
            let slots: Vec<_> = vectors.iter().map(|v| self.encoder.decrypt(v, &self.secret).unwrap()).collect();
            port.read(&slots, count).unwrap()
        };
        program.outputs().iter().zip(answers).map(read).collect()
    }

    /// Runs rows encrypted: the outputs.
    pub fn run(&mut self, program: &Program, rows: &[ArrayView2<f64>]) -> Vec<Answer> {
        let keys = self.keys(program);
        let inputs = self.encrypt(program, rows);
        let answers = program.evaluate(&Evaluator::new(&self.encoder, &keys), &inputs).unwrap();
        assert!(answers.iter().flatten().all(|vector| vector.level() == 0));
        self.decrypt(program, &answers, rows[0].nrows())
    }
}

/// A number in `[-1, 1)`, determined by `i`.
pub fn mixed(i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A dense matrix of weights that keep the size of values.
pub fn weights(rows: usize, columns: usize, seed: usize) -> SparseMatrix {
    let width = (3.0 / columns as f64).sqrt();
    SparseMatrix::dense((rows, columns), |r, c| width * mixed(seed + r * columns + c)).unwrap()
}

pub fn bias(size: usize, seed: usize) -> Vec<f64> {
    (0..size).map(|i| 0.2 * mixed(seed + i)).collect()
}

pub fn rows(count: usize, size: usize, seed: usize) -> Array2<f64> {
    Array2::from_shape_fn((count, size), |(row, i)| mixed(seed + row * size + i))
}

/// A network of dense layers with a function between them.
pub fn mlp(sizes: &[usize], function: Function) -> Network {
    let mut builder = NetworkBuilder::new();
    let mut value = builder.input("x", sizes[0]).unwrap();
    for (layer, pair) in sizes.windows(2).enumerate() {
        if layer > 0 {
            value = builder.function(value, function).unwrap();
        }
        let terms = vec![(value, weights(pair[1], pair[0], 1000 * layer))];
        value = builder.affine(terms, bias(pair[1], 77 * layer)).unwrap();
    }
    builder.finish(&[("y", value)]).unwrap()
}

pub fn design(network: &Network, calibration: &[ArrayView2<f64>], options: &Options) -> Design {
    Design::new(network, &Ranges::of(network, calibration).unwrap(), options).unwrap()
}

//! A client and random matrices for the tests.

#![allow(dead_code)] // Each test binary uses a part.

use ndarray::Array2;
use unspoken_ckks::{
    Arithmetic, Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, Preset, Simulated, Simulator,
};
use unspoken_encrypted_matrix::{EncryptedMatrix, EncryptedMatrixError, Layout, decode_tiles, encode_tiles};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

pub const REAL: &str = "insecure_n11_real_depth9_scale50";
pub const COMPLEX: &str = "insecure_n11_depth9_scale50";
pub const LEVEL: usize = 5;

pub type Matrices = Vec<Array2<f64>>;

pub struct Client {
    pub encoder: Encoder,
    pub secret: SecretKey,
    pub rng: SecretRng,
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

    pub fn keys(&mut self, plan: &KeyPlan) -> EvaluationKeys {
        EvaluationKeys::generate(&self.secret, plan, &mut self.rng).unwrap()
    }

    pub fn encrypt(&mut self, layout: Layout, matrices: &Matrices, level: usize) -> EncryptedMatrix<Ciphertext> {
        let seeded = EncryptedMatrix::encrypt(&self.encoder, &self.secret, layout, matrices, level, &mut self.rng);
        seeded.unwrap().expand(self.encoder.parameters())
    }

    pub fn decrypt(&self, matrix: &EncryptedMatrix<Ciphertext>) -> Matrices {
        matrix.decrypt(&self.encoder, &self.secret).unwrap()
    }

    /// The slots of a tile.
    pub fn open(&self, tile: &Ciphertext) -> Result<Vec<f64>, EncryptedMatrixError> {
        Ok(self.encoder.decrypt(tile, &self.secret)?.iter().map(|z| z.re).collect())
    }

    /// The slots of every tile.
    pub fn slots(&self, matrix: &EncryptedMatrix<Ciphertext>) -> Vec<Vec<f64>> {
        matrix.tiles().iter().map(|tile| self.open(tile).unwrap()).collect()
    }

    pub fn counting(&self, layout: Layout, matrices: &[&Matrices], level: usize) -> Counting {
        let simulator = Simulator::counting(&self.encoder);
        let inputs = matrices.iter().map(|m| simulated(&simulator, layout, m, level)).collect();
        Counting { simulator, inputs }
    }

    /// Counts a circuit, generates exactly its keys, runs it encrypted from `level`, and decrypts the result.
    pub fn run(
        &mut self,
        layout: Layout,
        inputs: &[&Matrices],
        level: usize,
        circuit: &dyn Circuit,
    ) -> Result<Run, EncryptedMatrixError> {
        let Counting { simulator, inputs: counted } = self.counting(layout, inputs, level);
        let counted = circuit.simulated(&simulator, &counted)?;
        let keys = self.keys(&simulator.key_plan());
        let encrypted: Vec<_> = inputs.iter().map(|m| self.encrypt(layout, m, level)).collect();
        let result = circuit.encrypted(&Evaluator::new(&self.encoder, &keys), &encrypted)?;
        let (level, scale) = result.level_and_scale(&Evaluator::new(&self.encoder, &keys))?;
        assert_eq!(
            (level, scale),
            counted.level_and_scale(&simulator)?,
            "the counted run has the same level and scale"
        );
        assert_eq!((result.shape(), result.is_clean()), (counted.shape(), counted.is_clean()));
        Ok(Run {
            matrices: self.decrypt(&result),
            slots: self.slots(&result),
            result,
            level,
            scale,
            plan: simulator.key_plan(),
        })
    }
}

pub struct Counting {
    pub simulator: Simulator,
    pub inputs: Vec<EncryptedMatrix<Simulated>>,
}

pub struct Run {
    pub matrices: Matrices,
    pub slots: Vec<Vec<f64>>,
    pub result: EncryptedMatrix<Ciphertext>,
    pub level: usize,
    pub scale: f64,
    pub plan: KeyPlan,
}

pub fn simulated(
    simulator: &Simulator,
    layout: Layout,
    matrices: &Matrices,
    level: usize,
) -> EncryptedMatrix<Simulated> {
    let scale = simulator.parameters().scale();
    encode_tiles(layout, matrices).unwrap().try_map(|slots| simulator.encrypt(slots, level, scale)).unwrap()
}

/// The matrices of a simulated result: with noise, and exact.
pub fn opened(matrix: &EncryptedMatrix<Simulated>) -> [Matrices; 2] {
    let open = |pick: fn(&Simulated) -> &[Complex64]| {
        decode_tiles(&matrix.try_map(|tile| Ok::<_, EncryptedMatrixError>(pick(tile).to_vec())).unwrap())
    };
    [open(Simulated::noisy), open(Simulated::exact)]
}

/// The result of a circuit.
pub type Product<V> = Result<EncryptedMatrix<V>, EncryptedMatrixError>;

/// A circuit that runs on the simulator and on the evaluator.
pub trait Circuit {
    fn run<A: Arithmetic>(
        &self,
        arithmetic: &A,
        inputs: &[EncryptedMatrix<A::Vector>],
    ) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError>
    where
        Self: Sized;

    fn simulated(
        &self,
        a: &Simulator,
        i: &[EncryptedMatrix<Simulated>],
    ) -> Result<EncryptedMatrix<Simulated>, EncryptedMatrixError>;

    fn encrypted(
        &self,
        a: &Evaluator<'_>,
        i: &[EncryptedMatrix<Ciphertext>],
    ) -> Result<EncryptedMatrix<Ciphertext>, EncryptedMatrixError>;
}

/// Defines a circuit as a type with these fields and this body.
#[macro_export]
macro_rules! circuit {
    ($name:ident($($field:ident: $type:ty),*), |$this:ident, $a:ident, $inputs:ident| $body:expr) => {
        struct $name { $($field: $type),* }
        impl $crate::common::Circuit for $name {
            fn run<A: unspoken_ckks::Arithmetic>(
                &self,
                $a: &A,
                $inputs: &[unspoken_encrypted_matrix::EncryptedMatrix<A::Vector>],
            ) -> $crate::common::Product<A::Vector> {
                let $this = self;
                $body
            }
            fn simulated(
                &self,
                a: &unspoken_ckks::Simulator,
                i: &[unspoken_encrypted_matrix::EncryptedMatrix<unspoken_ckks::Simulated>],
            ) -> $crate::common::Product<unspoken_ckks::Simulated> {
                $crate::common::Circuit::run(self, a, i)
            }
            fn encrypted(
                &self,
                a: &unspoken_ckks::Evaluator<'_>,
                i: &[unspoken_encrypted_matrix::EncryptedMatrix<unspoken_ckks::Ciphertext>],
            ) -> $crate::common::Product<unspoken_ckks::Ciphertext> {
                $crate::common::Circuit::run(self, a, i)
            }
        }
    };
}

/// Matrices with entries in [-1, 1), determined by the seed.
pub fn random(shape: (usize, usize), batch: usize, seed: usize) -> Matrices {
    let entry = |p: usize, (i, j): (usize, usize)| {
        let mixed = (i * 7919 + j * 104_729 + p * 1_299_709 + seed * 15_485_863).wrapping_mul(2_654_435_761) >> 7;
        (mixed % 2000) as f64 / 1000.0 - 1.0
    };
    (0..batch).map(|p| Array2::from_shape_fn(shape, |cell| entry(p, cell))).collect()
}

/// The largest absolute difference of two batches.
pub fn worst(found: &Matrices, expected: &Matrices) -> f64 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(f, e)| {
        assert_eq!(f.dim(), e.dim());
        (f - e).iter().fold(0.0f64, |worst, x| worst.max(x.abs()))
    });
    differences.fold(0.0, f64::max)
}

//! The circuit in the clear.

use ndarray::Array3;
use unspoken_llama_model::{KvCache, Model};

use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::float::{FloatArithmetic, Steps};
use crate::place::Place;
use crate::tensor::Tensor;

/// Sees the values of a circuit in the clear, on the thread that runs it.
pub trait Watch {
    /// Called with each result.
    fn see(&mut self, place: Place, tensor: &Tensor);
}

/// Sees nothing.
impl Watch for () {
    fn see(&mut self, _: Place, _: &Tensor) {}
}

/// The circuit in 32-bit floating point, with the functions themselves. Its shifts of scores are 0.
pub type Clear<'a, W> = FloatArithmetic<'a, Exact<W>>;

/// The functions themselves, and what sees the values.
pub struct Exact<W> {
    rounds: u8,
    watch: W,
}

impl<'a, W: Watch> FloatArithmetic<'a, Exact<W>> {
    /// Arithmetic for a model without gains in its norms ([`fold_norms`](unspoken_llama_model::fold_norms)), after the
    /// public prefix in a cache.
    pub fn new(model: &'a Model, public: &'a KvCache, circuit: &Circuit, watch: W) -> Self {
        FloatArithmetic { model, public, steps: Exact { rounds: circuit.rounds(), watch } }
    }

    /// What watched the values.
    pub fn into_watch(self) -> W {
        self.steps.watch
    }
}

impl<W: Watch> Steps for Exact<W> {
    fn function(&mut self, function: Function, input: &Tensor, _: Place) -> Result<Array3<f32>, CircuitError> {
        let divisor = f32::from(1u16 << self.rounds);
        let mut values = input.0.clone();
        match function {
            Function::InverseSqrt => values.par_mapv_inplace(|x| x.sqrt().recip()),
            Function::Exponential => values.par_mapv_inplace(|x| (x / divisor).exp()),
            Function::Silu => values.par_mapv_inplace(|x| x / (1.0 + (-x).exp())),
        }
        Ok(values)
    }

    fn result(&mut self, values: Array3<f32>, place: Place) -> Result<Tensor, CircuitError> {
        let tensor = Tensor(values);
        self.watch.see(place, &tensor);
        Ok(tensor)
    }
}

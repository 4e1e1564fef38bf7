//! A model prepared for encrypted passes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::Array1;
use unspoken_ckks::{Bootstrap, CoefficientMatrix, Encoder, LinearTransform};
use unspoken_llama::{Circuit, Design, Place, Quantity, head_gains, linear_bias};
use unspoken_llama_model::{Attention, Config, Model};
use unspoken_placement::Move;
use unspoken_rlwe::SmallRing;

use crate::error::PassError;
use crate::layout::Layout;
use crate::linear::{LinearMap, LinearPlaces, width_of};
use crate::units::Units;

/// A model prepared for encrypted passes: its circuit, the layout of its vectors, units, polynomials and weights. One
/// serves all clients.
pub struct PassProgram {
    pub(crate) circuit: Circuit,
    /// The weights; none of a program that only counts.
    pub(crate) model: Option<Arc<Model>>,
    pub(crate) layout: Layout,
    pub(crate) units: Units,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) small: SmallRing,
    /// What each step of a pass does; `None` before it is decided.
    pub(crate) placement: Option<Vec<Move>>,
    transforms: Mutex<HashMap<TransformKey, Arc<LinearTransform>>>,
    matrices: Mutex<HashMap<MatrixKey, Arc<CoefficientMatrix>>>,
}

/// The activations that a pass returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassResult {
    /// Which they are: [`Quantity::Logits`] or [`Quantity::LastNorm`].
    pub quantity: Quantity,
    /// Values for each token.
    pub width: usize,
    /// The number by which decrypted values are multiplied.
    pub unit: f64,
}

/// A linear transformation that passes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TransformKey {
    pub what: TransformKind,
    pub vector: usize,
    pub level: usize,
    /// Bits of the scale of the input.
    pub scale: u64,
}

/// The places of linear maps of one tensor, and some vectors of their outputs.
pub(crate) type MatrixKey = (Vec<Place>, Range<usize>);

/// What a shared linear transformation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TransformKind {
    /// Linear maps of a tensor; the first of the places.
    Linear(Place),
    /// Skews keys or values: each column has another token.
    Skew,
}

/// Vectors of logits, for each part, that a service computes at most.
const MAX_LOGIT_VECTORS: usize = 8;

/// Bits of the weights of products on coefficients.
pub const WEIGHT_BITS: u32 = 18;

impl PassProgram {
    /// Prepares a rotated model for chunks of `tokens` tokens, with the polynomials of a design, and the bootstraps of
    /// a plan that [`Bootstrap::for_products`] made. `small_degree` is the degree of the ring for products on
    /// coefficients.
    ///
    /// # Errors
    /// If the design belongs to another model, or chunks do not fit the parameters.
    pub fn new(
        circuit: &Circuit,
        model: Arc<Model>,
        design: &Design,
        bootstrap: Bootstrap,
        (tokens, small_degree): (usize, usize),
    ) -> Result<Self, PassError> {
        if circuit.config() != &model.config {
            let found = "a circuit of other dimensions than the model".into();
            return Err(PassError::Session { found, needed: "that of the model".into() });
        }
        let units = Units::new(circuit, design, Some(&model))?;
        Self::with(circuit, Some(model), units, bootstrap, (tokens, small_degree))
    }

    /// Prepares the dimensions of a circuit, without weights: its passes can be counted, and not run.
    ///
    /// # Errors
    /// As for [`PassProgram::new`].
    pub(crate) fn counted(
        circuit: &Circuit,
        design: &Design,
        bootstrap: Bootstrap,
        sizes: (usize, usize),
    ) -> Result<Self, PassError> {
        Self::with(circuit, None, Units::new(circuit, design, None)?, bootstrap, sizes)
    }

    fn with(
        circuit: &Circuit,
        model: Option<Arc<Model>>,
        units: Units,
        bootstrap: Bootstrap,
        (tokens, small_degree): (usize, usize),
    ) -> Result<Self, PassError> {
        let layout = Layout::new(circuit.config(), bootstrap.parameters().slots(), tokens)?;
        let small = bootstrap.small_ring(small_degree, layout.tokens)?;
        let (transforms, matrices) = Default::default();
        let (circuit, placement) = (circuit.clone(), None);
        let program = PassProgram { circuit, model, layout, units, bootstrap, small, placement, transforms, matrices };
        program.check_levels()?;
        Ok(program)
    }

    /// The circuit.
    pub fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// Dimensions of the model.
    pub(crate) fn config(&self) -> &Config {
        self.circuit.config()
    }

    /// Bytes of the transformations and matrices that passes have prepared so far; [`PassProgram::requirements`]
    /// prepares all of them. The weights are not among them.
    pub fn prepared_bytes(&self) -> u64 {
        let lock = self.transforms.lock().unwrap_or_else(PoisonError::into_inner);
        let transforms: u64 = lock.values().map(|transform| transform.prepared_bytes()).sum();
        drop(lock);
        let matrices = self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        transforms + matrices.values().map(|matrix| matrix.bytes()).sum::<u64>()
    }

    /// Encodes the transformations that passes have planned so far, so that no pass waits for it. After
    /// [`PassProgram::requirements`] these are all.
    ///
    /// # Errors
    /// If a value does not fit its modulus.
    pub fn encode(&self, encoder: &Encoder) -> Result<(), PassError> {
        let lock = self.transforms.lock().unwrap_or_else(PoisonError::into_inner);
        let planned: Vec<Arc<LinearTransform>> = lock.values().map(Arc::clone).collect();
        drop(lock);
        Ok(planned.iter().try_for_each(|transform| transform.encode(encoder))?)
    }

    /// The layout of its vectors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The plan of its bootstraps.
    pub fn bootstrap(&self) -> &Bootstrap {
        &self.bootstrap
    }

    /// The ring of its products on coefficients.
    pub fn small_ring(&self) -> &SmallRing {
        &self.small
    }

    /// The number by which values of the input are divided before they are encrypted.
    pub fn input_unit(&self) -> f64 {
        self.units.residual
    }

    /// What a pass returns: logits, if the logits of a chunk fit few vectors. Otherwise it is the output of the last
    /// norm, and the client multiplies by the head.
    pub fn result(&self) -> PassResult {
        let config = self.config();
        match self.layout.activation_vectors(config.vocabulary) {
            0..=MAX_LOGIT_VECTORS => {
                PassResult { quantity: Quantity::Logits, width: config.vocabulary, unit: self.units.logits }
            }
            _ => PassResult { quantity: Quantity::LastNorm, width: config.width, unit: self.units.last_norm.output },
        }
    }

    pub(crate) fn linear_map(&self, places: &[Place]) -> Result<LinearMap, PassError> {
        Ok(LinearMap::new((self.config(), self.model.as_deref()), &self.layout, &self.units, places)?)
    }

    /// The bias of the linear map of a place, in the unit of its result; ones if it is not known.
    pub(crate) fn bias(&self, place: Place) -> Option<Vec<f64>> {
        let Some(model) = &self.model else {
            let Attention { input_biases, output_bias, .. } = self.config().attention;
            let has = match place.quantity {
                Quantity::Query | Quantity::Key | Quantity::Value => input_biases,
                Quantity::AttentionOutput => output_bias,
                _ => false,
            };
            return has.then(|| vec![1.0; width_of(self.config(), place.quantity)]);
        };
        let bias = linear_bias(model, place)?;
        let value = |(row, value): (usize, &f32)| f64::from(*value) / self.units.of_output(place, row);
        Some(bias.iter().enumerate().map(value).collect())
    }

    /// The gains of the norm of each head of a place; `None` if it has none, or they are not known.
    pub(crate) fn head_gains(&self, place: Place) -> Option<&Array1<f32>> {
        head_gains(self.model.as_deref()?, place)
    }

    /// Forgets the transformations of earlier passes.
    pub(crate) fn forget_transforms(&mut self) {
        self.transforms.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The transformation of a key, which `make` makes on first use.
    pub(crate) fn transform(
        &self,
        key: TransformKey,
        make: impl FnOnce() -> Result<LinearTransform, PassError>,
    ) -> Result<Arc<LinearTransform>, PassError> {
        let lock = || self.transforms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(lock().entry(key).or_insert(made)))
    }

    /// The matrix of linear maps for products on coefficients.
    pub(crate) fn matrix(&self, places: &[Place]) -> Result<Arc<CoefficientMatrix>, PassError> {
        self.matrix_of(places, 0..self.output_vectors(places))
    }

    /// Vectors of the outputs of linear maps on coefficients, for each part.
    pub(crate) fn output_vectors(&self, places: &[Place]) -> usize {
        LinearPlaces::new(self.config(), &self.layout, places).on_coefficients()
    }

    /// The matrix of some vectors of the outputs of linear maps.
    pub(crate) fn matrix_of(
        &self,
        places: &[Place],
        outputs: Range<usize>,
    ) -> Result<Arc<CoefficientMatrix>, PassError> {
        let all = self.output_vectors(places);
        if places.is_empty() || outputs.is_empty() || outputs.end > all {
            let found = format!("{} linear maps, and vectors {outputs:?} of their outputs", places.len());
            return Err(PassError::Session { found, needed: format!("one or more, and vectors below {all}") });
        }
        let key = (places.to_vec(), outputs.clone());
        let lock = || self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(self.linear_map(places)?.on_coefficients(&self.bootstrap, &self.small, outputs)?);
        Ok(Arc::clone(lock().entry(key).or_insert(made)))
    }

    /// The matrices that are prepared.
    pub(crate) fn prepared_matrices(&self) -> HashSet<MatrixKey> {
        self.matrices.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Forgets all other matrices.
    pub(crate) fn retain_matrices(&self, kept: &HashSet<MatrixKey>) {
        self.matrices.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| kept.contains(key));
    }

    /// Whether a place is the logits, whose linear map ends the pass.
    pub(crate) fn is_last(place: Place) -> bool {
        place.quantity == Quantity::Logits
    }
}

//! The pass of `unspoken-llama` on vectors: places of bootstraps and algorithms are decided here, operations are run by
//! [`Context`].

use std::cell::RefCell;
use std::rc::Rc;

use unspoken_ckks::{Arithmetic, CkksError};
use unspoken_llama::{Function, Place, Quantity, Shape, TensorArithmetic};
use unspoken_llama_model::KvCache;

use crate::error::PassError;
use crate::layout::Columns;
use crate::machine::Machine;
use crate::ops::{Context, Role};
use crate::program::Program;
use crate::session::Session;

/// A tensor of encrypted or simulated vectors.
#[derive(Clone, Debug)]
pub struct Tensor<V> {
    /// A bootstrap replaces the vectors for all users of the tensor.
    vectors: Rc<RefCell<Vec<V>>>,
    shape: Shape,
}

impl<V> Tensor<V> {
    fn new(vectors: Vec<V>, shape: Shape) -> Self {
        Tensor { vectors: Rc::new(RefCell::new(vectors)), shape }
    }

    /// A copy of its vectors.
    pub fn vectors(&self) -> Vec<V>
    where
        V: Clone,
    {
        self.vectors.borrow().clone()
    }

    /// Its vectors.
    pub fn into_vectors(self) -> Vec<V>
    where
        V: Clone,
    {
        Rc::try_unwrap(self.vectors).map_or_else(|shared| shared.borrow().clone(), RefCell::into_inner)
    }
}

/// Runs the pass of one chunk of a session.
pub struct PassArithmetic<'a, M: Machine> {
    context: Context<'a, M>,
    public: &'a KvCache,
    session: &'a mut Session<M::Vector>,
    bootstraps: usize,
    watch: Option<&'a mut dyn FnMut(Place, usize)>,
}

impl<'a, M> PassArithmetic<'a, M>
where
    M: Machine + Sync,
    M::Arithmetic: Sync,
{
    /// Prepares a pass behind the public tokens in a cache. `next` says whether the pass begins a new chunk, or runs
    /// the last one again with other tokens. The session has room for `chunks` chunks.
    ///
    /// # Errors
    /// If the session has no room for another chunk, or the tokens do not fit the context of the model.
    pub fn new(
        machine: &'a M,
        program: &'a Program,
        public: &'a KvCache,
        session: &'a mut Session<M::Vector>,
        (next, chunks): (bool, usize),
    ) -> Result<Self, PassError> {
        let layout = program.layout();
        let columns = Columns::new(layout, public.len(), chunks);
        let mut context = Context { machine, program, columns, chunk: session.chunk };
        if next {
            session.advance(&context)?;
            context.chunk = session.chunk;
        }
        let (last, most) = (public.len() + (session.chunk + 1) * layout.chunk(), program.model.config.context);
        if session.chunk >= chunks || last > most {
            let found =
                format!("chunk {} of {} tokens behind {} public ones", session.chunk + 1, layout.chunk(), public.len());
            let needed = format!("at most {chunks} chunks, and a context of {most} tokens");
            return Err(PassError::Session { found, needed });
        }
        Ok(PassArithmetic { context, public, session, bootstraps: 0, watch: None })
    }

    /// Calls `watch` after each operation, with the place and the level of its result.
    pub fn with_watch(self, watch: &'a mut dyn FnMut(Place, usize)) -> Self {
        PassArithmetic { watch: Some(watch), ..self }
    }

    /// The input of a pass: vectors of the embeddings, divided by [`Program::input_unit`].
    pub fn input(&self, vectors: Vec<M::Vector>) -> Tensor<M::Vector> {
        let (layout, width) = (self.context.program.layout(), self.context.program.model.config.width);
        Tensor::new(vectors, Shape { tokens: layout.chunk(), groups: 1, width })
    }

    /// Vectors that were bootstrapped so far.
    pub fn bootstraps(&self) -> usize {
        self.bootstraps
    }

    fn arithmetic(&self) -> &M::Arithmetic {
        self.context.machine.arithmetic()
    }

    fn level(&self, tensor: &Tensor<M::Vector>) -> usize {
        let vectors = tensor.vectors.borrow();
        vectors.iter().map(|vector| self.arithmetic().level(vector)).min().unwrap_or(0)
    }

    fn refresh(&mut self, place: Place, tensor: &Tensor<M::Vector>) -> Result<(), PassError> {
        let mut vectors = tensor.vectors.borrow_mut();
        let inputs: Vec<&M::Vector> = vectors.iter().collect();
        let fresh = self.context.machine.refresh(&inputs).map_err(|error| PassError::Arithmetic { place, error })?;
        self.bootstraps += fresh.len();
        *vectors = fresh;
        Ok(())
    }

    /// Bootstraps inputs until an operation that takes `spent` levels leaves a result that can be bootstrapped.
    fn prepare(&mut self, place: Place, inputs: &[&Tensor<M::Vector>], spent: usize) -> Result<(), PassError> {
        let entry = self.context.machine.bootstrap().input_level();
        let top = self.context.machine.bootstrap().output_level();
        let reserve = if Program::is_last(place) { 0 } else { entry };
        if top < spent + reserve {
            return Err(PassError::Levels { place, found: top - entry, needed: spent });
        }
        for input in inputs {
            if self.level(input) < spent + reserve {
                self.refresh(place, input)?;
            }
        }
        Ok(())
    }

    fn run(
        &mut self,
        place: Place,
        shape: Shape,
        result: Result<Vec<M::Vector>, CkksError>,
    ) -> Result<Tensor<M::Vector>, PassError> {
        let vectors = result.map_err(|error| PassError::Arithmetic { place, error })?;
        Ok(self.seen(place, Tensor::new(vectors, shape)))
    }

    /// Tells the watch of a result.
    fn seen(&mut self, place: Place, tensor: Tensor<M::Vector>) -> Tensor<M::Vector> {
        let level = self.level(&tensor);
        if let Some(watch) = &mut self.watch {
            watch(place, level);
        }
        tensor
    }
}

impl<M> TensorArithmetic for PassArithmetic<'_, M>
where
    M: Machine + Sync,
    M::Arithmetic: Sync,
{
    type Tensor = Tensor<M::Vector>;
    /// The layer.
    type Cache = usize;
    type Error = PassError;

    fn public_tokens(&self) -> usize {
        self.public.len() + self.context.chunk * self.context.program.layout().chunk()
    }

    fn shape(&self, tensor: &Self::Tensor) -> Shape {
        tensor.shape
    }

    fn cache(&mut self, layer: usize) -> Result<usize, PassError> {
        Ok(layer)
    }

    fn append(&mut self, cache: &mut usize, keys: Self::Tensor, values: Self::Tensor) -> Result<(), PassError> {
        let place = Place::new(*cache, Quantity::RotatedKey);
        self.prepare(place, &[&keys, &values], 2)?;
        let keys = self.context.arrange(&keys.vectors.borrow(), Role::Keys)?;
        let values = self.context.arrange(&values.vectors.borrow(), Role::Values)?;
        self.session.layers[*cache].replace(keys, values);
        if let Some(watch) = &mut self.watch {
            watch(place, 0);
        }
        Ok(())
    }

    fn linear(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        Ok(self.linears(input, &[place])?.remove(0))
    }

    fn linears(&mut self, input: &Self::Tensor, places: &[Place]) -> Result<Vec<Self::Tensor>, PassError> {
        let map = self.context.program.linear_map(places)?;
        let entry = self.context.machine.bootstrap().input_level();
        let on_slots = map.fits_slots(self.context.program.layout())
            && !matches!(places[0].quantity, Quantity::AttentionOutput | Quantity::FfnOutput);
        let vectors = if on_slots {
            self.prepare(places[0], &[input], 1)?;
            self.context.linear_on_slots(&input.vectors.borrow(), places)?
        } else {
            if self.level(input) < entry {
                self.refresh(places[0], input)?;
            }
            let outputs = self.context.linear_on_coefficients(&input.vectors.borrow(), places)?;
            self.bootstraps += outputs.len();
            outputs
        };
        let mut vectors = vectors.into_iter();
        let program = self.context.program;
        let config = &program.model.config;
        let mut tensors = Vec::with_capacity(places.len());
        for (place, count) in places.iter().zip(&map.vectors) {
            let width = match place.quantity {
                Quantity::Query => config.query_width(),
                Quantity::Key | Quantity::Value => config.kv_width(),
                quantity => crate::linear::width_of(config, quantity),
            };
            let parts = program.layout().parts;
            let tensor = Tensor::new(vectors.by_ref().take(count * parts).collect(), Shape { width, ..input.shape });
            tensors.push(self.seen(*place, tensor));
        }
        Ok(tensors)
    }

    fn rope(&mut self, input: &Self::Tensor, position: usize, place: Place) -> Result<Self::Tensor, PassError> {
        self.prepare(place, &[input], 1)?;
        let program = self.context.program;
        let units = &program.units.layers[place.layer];
        let root = (program.model.config.head_width as f64).sqrt();
        let factor = |head: usize| match place.quantity {
            Quantity::RotatedQuery => units.query * units.key / (root * units.score[head].0),
            _ => 1.0,
        };
        let result = self.context.rope(&input.vectors.borrow(), position, factor);
        self.run(place, input.shape, result)
    }

    fn scores(&mut self, queries: &Self::Tensor, cache: &usize, place: Place) -> Result<Self::Tensor, PassError> {
        self.prepare(place, &[queries], 1)?;
        let rows = self.session.layers[*cache].seen(&self.context, Role::Keys)?;
        let scores = self.context.scores(&queries.vectors.borrow(), &rows, (self.public, *cache))?;
        let shape = Shape { groups: self.context.program.layout().heads, ..queries.shape };
        let width = self.public.len() + (self.context.chunk + 1) * self.context.program.layout().chunk();
        Ok(self.seen(place, Tensor::new(scores, Shape { width, ..shape })))
    }

    fn attend(&mut self, weights: &Self::Tensor, cache: &usize, place: Place) -> Result<Self::Tensor, PassError> {
        self.prepare(place, &[weights], 1)?;
        let rows = self.session.layers[*cache].seen(&self.context, Role::Values)?;
        let sums = self.context.attend(&weights.vectors.borrow(), &rows, (self.public, *cache))?;
        let width = self.context.program.model.config.query_width();
        Ok(self.seen(place, Tensor::new(sums, Shape { groups: 1, width, ..weights.shape })))
    }

    fn function(&mut self, function: Function, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let units = &self.context.program.units;
        let levels = |polynomials: &[unspoken_ckks::Polynomial]| {
            polynomials.iter().map(unspoken_ckks::Polynomial::depth).max().unwrap_or(0)
        };
        let norm = units.norm(place);
        let polynomials = match (function, place.quantity) {
            (Function::Exponential, _) => &units.layers[place.layer].exponential,
            (Function::Silu, _) => &units.layers[place.layer].silu,
            (_, Quantity::SoftmaxFactor(round)) => &units.layers[place.layer].rounds[usize::from(round)].polynomials,
            _ => std::slice::from_ref(&norm.polynomial),
        };
        self.prepare(place, &[input], levels(polynomials))?;
        let vectors = input.vectors.borrow();
        let result = match (function, place.quantity) {
            (Function::Exponential, _) => self.context.exponentials(&vectors, polynomials),
            (Function::Silu, _) => self.context.coordinate_polynomials(&vectors, polynomials),
            (_, Quantity::SoftmaxFactor(_)) => self.context.head_polynomials(&vectors, polynomials),
            _ => self.context.polynomial(&vectors, &norm.polynomial),
        };
        self.run(place, input.shape, result)
    }

    fn sum_squares(&mut self, input: &Self::Tensor, _: f64, _: f64, place: Place) -> Result<Self::Tensor, PassError> {
        let program = self.context.program;
        let shape = Shape { width: 1, ..input.shape };
        if let Quantity::SoftmaxSquare(round) = place.quantity {
            self.prepare(place, &[input], 1)?;
            let offsets = &program.units.layers[place.layer].rounds[usize::from(round)].offsets;
            let result = self.context.column_squares(&input.vectors.borrow(), offsets);
            return self.run(place, shape, result);
        }
        self.prepare(place, &[input], 2)?;
        let period = program.layout().period(program.model.config.width);
        let result = self.context.norm_square(&input.vectors.borrow(), period, program.units.norm(place));
        self.run(place, shape, result)
    }

    fn scale(&mut self, input: &Self::Tensor, factors: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        self.prepare(place, &[input, factors], 1)?;
        let result = self.context.scale(&input.vectors.borrow(), &factors.vectors.borrow());
        self.run(place, input.shape, result)
    }

    fn multiply(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        self.prepare(place, &[a, b], 1)?;
        let result = self.context.multiply(&a.vectors.borrow(), &b.vectors.borrow());
        self.run(place, a.shape, result)
    }

    fn square(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        self.prepare(place, &[input], 1)?;
        let vectors = input.vectors.borrow();
        let result = self.context.multiply(&vectors, &vectors);
        self.run(place, input.shape, result)
    }

    fn add(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let result = self.context.add(&a.vectors.borrow(), &b.vectors.borrow());
        self.run(place, a.shape, result)
    }
}

//! The pass of `unspoken-llama` on vectors: places of bootstraps and algorithms are decided here, operations are run by
//! [`Context`].

use std::cell::RefCell;
use std::rc::Rc;

use unspoken_ckks::{Arithmetic, CkksError, Polynomial};
use unspoken_llama::{Circuit, Function, Place, Quantity, Shape, TensorArithmetic};
use unspoken_placement::Move;

use crate::check::Check;
use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::layout::{Blocks, Columns};
use crate::linear::{LinearPlaces, width_of};
use crate::ops::{Context, Role};
use crate::program::PassProgram;
use crate::public::Public;
use crate::session::{SeenRows, Session};

/// A tensor of encrypted or simulated vectors.
#[derive(Clone, Debug)]
pub struct Tensor<V> {
    /// A bootstrap replaces the vectors for all users of the tensor.
    vectors: Rc<RefCell<Vec<V>>>,
    shape: Shape,
    /// Its number among the tensors of the pass.
    number: usize,
    place: Place,
}

impl<V> Tensor<V> {
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

/// How a step can be run: where it computes (as in [`Work`](crate::Work)) and the levels it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// At any level. The number counts the levels from the input down to the result.
    Slots(usize),
    /// One level below. The result cannot be bootstrapped before its rows and their products; each of these two steps
    /// takes a level.
    Cache,
    /// Between the halves of a bootstrap. The number counts the levels from the bootstrap's level down to the result.
    Coefficients(usize),
}

/// A step that was run.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub place: Place,
    /// The places of its results, if they are linear maps.
    pub places: Vec<Place>,
    /// Numbers of the tensors that it took and made.
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
    pub methods: Vec<Method>,
    /// What was done.
    pub choice: Move,
    /// Vectors of each input.
    pub vectors: Vec<usize>,
    /// Vectors that are bootstrapped as its results.
    pub fresh: usize,
    /// The level and the scale of each vector of its results.
    pub results: Vec<(usize, f64)>,
}

/// How a step is run, and the vectors of each of its inputs at the working level.
type Prepared<V> = (Method, Vec<Vec<V>>);

/// The vectors of an input, and the rows of keys or values that they are multiplied by.
type CacheProduct<V> = (Vec<V>, SeenRows<V>);

/// Called after each step, with the place and the level of its result.
pub type Watch<'a> = dyn FnMut(Place, usize) + 'a;

/// Runs the pass of one chunk of a session. Bootstraps are where the program's placement has them
/// ([`PassProgram::place`]); without one, inputs are bootstrapped when a step has too few levels.
pub struct PassArithmetic<'a, M: PassEvaluator> {
    pub(crate) context: Context<'a, M>,
    pub(crate) session: &'a mut Session<M::Vector>,
    bootstraps: usize,
    watch: Option<&'a mut Watch<'a>>,
    /// Steps of the pass that others run.
    elsewhere: usize,
    steps: Vec<Step>,
    tensors: usize,
    /// The numbers of the arranged keys and values of each layer.
    caches: Vec<[usize; 2]>,
    /// Whether arguments of polynomials were in their intervals.
    pub(crate) check: Check<M::Vector>,
}

impl<'a, M> PassArithmetic<'a, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    /// Prepares a pass after the public tokens in a cache. `next` says whether the pass begins a new chunk, or runs the
    /// last chunk again with other tokens. The session has room for `chunks` chunks.
    ///
    /// # Errors
    /// If the session has no room for another chunk, or the tokens do not fit the context of the model.
    pub fn new(
        evaluator: &'a M,
        program: &'a PassProgram,
        public: impl Into<Public<'a>>,
        session: &'a mut Session<M::Vector>,
        (next, chunks): (bool, usize),
    ) -> Result<Self, PassError> {
        let layout = program.layout();
        let public = public.into();
        let columns = Columns::new(layout, public.len(), chunks);
        let (chunk, blocks) = (session.chunk, Blocks::all(layout));
        let mut context = Context { evaluator, program, public, columns, chunk, blocks };
        if next {
            session.advance(&context)?;
            context.chunk = session.chunk;
        }
        let (last, most) = (public.len() + (session.chunk + 1) * layout.chunk(), program.config().context);
        if session.chunk >= chunks || last > most {
            let found =
                format!("chunk {} of {} tokens after {} public ones", session.chunk + 1, layout.chunk(), public.len());
            let needed = format!("at most {chunks} chunks, and a context of {most} tokens");
            return Err(PassError::Session { found, needed });
        }
        Ok(PassArithmetic::from_step(context, session, 0))
    }

    /// A pass of which others run the steps before `step`.
    pub(crate) fn from_step(context: Context<'a, M>, session: &'a mut Session<M::Vector>, step: usize) -> Self {
        let caches = vec![[0; 2]; context.program.config().layers];
        let (steps, tensors, check) = (Vec::new(), 0, Check::new());
        PassArithmetic { context, session, bootstraps: 0, watch: None, elsewhere: step, steps, tensors, caches, check }
    }

    /// The number of the next step.
    pub(crate) fn step(&self) -> usize {
        self.elsewhere + self.steps.len()
    }

    /// Leaves out steps that others have run.
    pub(crate) fn skip(&mut self, steps: usize) {
        self.elsewhere += steps;
    }

    /// Queries of the blocks of heads of this pass.
    pub(crate) fn queries(&mut self, layer: usize, vectors: Vec<M::Vector>) -> Tensor<M::Vector> {
        let program = self.context.program;
        let shape = Shape { tokens: program.layout.chunk(), groups: 1, width: program.config().query_width() };
        self.tensor(Place::new(layer, Quantity::RotatedQuery), vectors, shape)
    }

    /// Calls `watch` after each step.
    pub fn with_watch(self, watch: &'a mut Watch<'a>) -> Self {
        PassArithmetic { watch: Some(watch), ..self }
    }

    /// The input of a pass: vectors of the embeddings, divided by [`PassProgram::input_unit`].
    pub fn input(&mut self, vectors: Vec<M::Vector>) -> Tensor<M::Vector> {
        let (layout, width) = (self.context.program.layout(), self.context.program.config().width);
        let place = Place::new(0, Quantity::Residual);
        self.tensor(place, vectors, Shape { tokens: layout.chunk(), groups: 1, width })
    }

    /// The steps that were run.
    pub(crate) fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    fn number(&mut self) -> usize {
        self.tensors += 1;
        self.tensors - 1
    }

    fn tensor(&mut self, place: Place, vectors: Vec<M::Vector>, shape: Shape) -> Tensor<M::Vector> {
        Tensor { vectors: Rc::new(RefCell::new(vectors)), shape, number: self.number(), place }
    }

    /// Runs the whole pass on the vectors of its input, and returns the vectors of its [`PassProgram::result`] with the
    /// [check](PassArithmetic::checked).
    ///
    /// # Errors
    /// If a step cannot run, or was cancelled.
    pub fn run(&mut self, input: Vec<M::Vector>) -> Result<Vec<M::Vector>, PassError> {
        let (input, program) = (self.input(input), self.context.program);
        let mut session = program.circuit.session(self)?;
        let normed = program.circuit.pass(self, &mut session, input)?;
        let result = match program.result().quantity {
            Quantity::Logits => program.circuit.logits(self, &normed)?,
            _ => normed,
        };
        self.checked(result.into_vectors())
    }

    /// Vectors of a result of this pass, with its check: imaginary parts beyond [`RESULT_BOUND`](crate::RESULT_BOUND)
    /// say that an argument of a polynomial was outside its interval, so that the result may be wrong.
    ///
    /// # Errors
    /// If the evaluator was cancelled.
    pub fn checked(&self, result: Vec<M::Vector>) -> Result<Vec<M::Vector>, PassError> {
        Ok(self.context.checked(result, &self.check)?)
    }

    /// Arguments of polynomials that the check sums in each slot: at most so much if all are in their intervals.
    pub fn check_terms(&self) -> usize {
        self.check.terms()
    }

    /// What the check of a slot may not exceed: imaginary parts of results are [`RESULT_BOUND`](crate::RESULT_BOUND)
    /// there.
    pub fn check_limit(&self) -> f64 {
        self.check.limit()
    }

    /// The check so far.
    pub(crate) fn into_check(self) -> Check<M::Vector> {
        self.check
    }

    /// Vectors that this process bootstrapped so far. Heads that other processes ran do not count.
    pub fn bootstraps(&self) -> usize {
        self.bootstraps
    }

    fn arithmetic(&self) -> &M::Arithmetic {
        self.context.evaluator.arithmetic()
    }

    fn level(&self, tensor: &Tensor<M::Vector>) -> usize {
        let vectors = tensor.vectors.borrow();
        vectors.iter().map(|vector| self.arithmetic().level(vector)).min().unwrap_or(0)
    }

    fn refresh(&mut self, place: Place, tensor: &Tensor<M::Vector>) -> Result<(), PassError> {
        let mut vectors = tensor.vectors.borrow_mut();
        let fresh = self.context.refresh(&vectors).map_err(|error| error.at(place))?;
        self.bootstraps += fresh.len();
        *vectors = fresh;
        Ok(())
    }

    /// Decides how a step is run, bootstraps its inputs, and returns its method and the inputs at the working level.
    /// `cache` is the number and the level of keys or values, whose rows are one level below.
    fn prepare(
        &mut self,
        place: Place,
        inputs: &[&Tensor<M::Vector>],
        cache: Option<(usize, usize)>,
        methods: &[Method],
    ) -> Result<Prepared<M::Vector>, PassError> {
        let levels: Vec<usize> = inputs.iter().map(|input| self.level(input)).collect();
        let choice = match &self.context.program.placement {
            Some(moves) => moves.get(self.step()).cloned().ok_or(PassError::Placement { place })?,
            None => {
                let choice = self.greedy(place, &levels, cache, methods)?;
                let units = &self.context.program.units;
                let flags = inputs.iter().zip(&choice.refreshed);
                let mut fixed = flags.filter(|(input, refreshed)| **refreshed && !units.can_refresh(input.place));
                if let Some((input, _)) = fixed.next() {
                    let (found, needed) = (self.level(input), choice.level);
                    return Err(PassError::Levels { place, found, needed });
                }
                choice
            }
        };
        for (input, refreshed) in inputs.iter().zip(&choice.refreshed) {
            if *refreshed {
                self.refresh(place, input)?;
            }
        }
        let a = self.arithmetic();
        let at_level = |input: &&Tensor<M::Vector>| -> Result<Vec<M::Vector>, PassError> {
            let vectors = input.vectors.borrow();
            let lowered = vectors.iter().map(|vector| match a.level(vector) > choice.level {
                true => a.drop_to(vector, choice.level),
                false => Ok(vector.clone()),
            });
            lowered.collect::<Result<_, _>>().map_err(|error| PassError::Arithmetic { place, error })
        };
        let vectors = inputs.iter().map(at_level).collect::<Result<Vec<_>, _>>()?;
        let method = *methods.get(choice.way).ok_or(PassError::Placement { place })?;
        let numbers = inputs.iter().map(|input| input.number).chain(cache.map(|cache| cache.0)).collect();
        let counts = vectors.iter().map(Vec::len).collect();
        let (inputs, methods, places, results) = (numbers, methods.to_vec(), vec![place], Vec::new());
        let (outputs, fresh) = (Vec::new(), 0);
        self.steps.push(Step { place, places, inputs, outputs, methods, choice, vectors: counts, fresh, results });
        Ok((method, vectors))
    }

    /// The first method, with inputs bootstrapped if its result could not be.
    fn greedy(
        &self,
        place: Place,
        levels: &[usize],
        cache: Option<(usize, usize)>,
        methods: &[Method],
    ) -> Result<Move, PassError> {
        let bootstrap = self.context.evaluator.bootstrap();
        let (entry, top) = (bootstrap.input_level(), bootstrap.output_level());
        let needed = match methods[0] {
            Method::Slots(spent) if PassProgram::is_last(place) => spent,
            Method::Cache => entry + 3,
            Method::Slots(spent) => spent + entry + self.context.program.units.levels_to_refresh(place),
            Method::Coefficients(_) => entry,
        };
        if top < needed {
            return Err(PassError::Levels { place, found: top - entry, needed: needed - entry });
        }
        let refreshed: Vec<bool> = levels.iter().map(|level| *level < needed).collect();
        let after = levels.iter().zip(&refreshed).map(|(level, refreshed)| if *refreshed { top } else { *level });
        let rows = cache.map(|(_, level)| level.saturating_sub(1));
        Ok(Move { way: 0, level: after.chain(rows).min().unwrap_or(top), refreshed })
    }

    /// The result of a step.
    fn finish(
        &mut self,
        place: Place,
        shape: Shape,
        result: Result<Vec<M::Vector>, CkksError>,
    ) -> Result<Tensor<M::Vector>, PassError> {
        let vectors = result.map_err(|error| PassError::Arithmetic { place, error })?;
        Ok(self.finished(place, shape, vectors))
    }

    fn finished(&mut self, place: Place, shape: Shape, vectors: Vec<M::Vector>) -> Tensor<M::Vector> {
        let number = self.number();
        self.made(place, number, &vectors);
        Tensor { vectors: Rc::new(RefCell::new(vectors)), shape, number, place }
    }

    /// Notes a result of the last step.
    fn made(&mut self, place: Place, number: usize, vectors: &[M::Vector]) {
        let a = self.context.evaluator.arithmetic();
        let results: Vec<(usize, f64)> = vectors.iter().map(|vector| (a.level(vector), a.scale(vector))).collect();
        let level = results.iter().map(|result| result.0).min().unwrap_or(0);
        if let Some(step) = self.steps.last_mut() {
            step.outputs.push(number);
            step.results.extend(results);
        }
        if let Some(watch) = &mut self.watch {
            watch(place, level);
        }
    }

    /// Skews keys or values and puts them into the cache.
    fn skew(&mut self, layer: usize, input: &Tensor<M::Vector>, role: Role) -> Result<(), PassError> {
        let quantity = if role == Role::Keys { Quantity::RotatedKey } else { Quantity::Value };
        let place = Place::new(layer, quantity);
        let (_, inputs) = self.prepare(place, &[input], None, &[Method::Cache])?;
        let skewed = self.context.skew(&inputs[0])?;
        let number = self.number();
        self.caches[layer][usize::from(role == Role::Values)] = number;
        self.made(place, number, &skewed);
        self.session.layers[layer].replace(role, skewed);
        Ok(())
    }

    /// Prepares a product with the cache of a layer: the vectors of the input, and the rows.
    fn with_cache(
        &mut self,
        place: Place,
        input: &Tensor<M::Vector>,
        (layer, role): (usize, Role),
    ) -> Result<CacheProduct<M::Vector>, PassError> {
        let skewed = self.session.layers[layer].last(role);
        let level = skewed.iter().map(|vector| self.arithmetic().level(vector)).min().unwrap_or(0);
        let cache = (self.caches[layer][usize::from(role == Role::Values)], level);
        let (_, mut inputs) = self.prepare(place, &[input], Some(cache), &[Method::Slots(1)])?;
        let level = self.steps.last().map_or(0, |step| step.choice.level);
        let rows = self.session.layers[layer].seen(&self.context, role, level)?;
        Ok((inputs.remove(0), rows))
    }
}

impl<M> TensorArithmetic for PassArithmetic<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    type Tensor = Tensor<M::Vector>;
    /// The layer.
    type Cache = usize;
    type Error = PassError;

    fn public_tokens(&self) -> usize {
        self.context.public.len() + self.context.chunk * self.context.program.layout().chunk()
    }

    fn shape(&self, tensor: &Self::Tensor) -> Shape {
        tensor.shape
    }

    fn cache(&mut self, layer: usize) -> Result<usize, PassError> {
        Ok(layer)
    }

    fn append(&mut self, cache: &mut usize, keys: Self::Tensor, values: Self::Tensor) -> Result<(), PassError> {
        self.skew(*cache, &keys, Role::Keys)?;
        self.skew(*cache, &values, Role::Values)
    }

    fn linear(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        Ok(self.linears(input, &[place])?.remove(0))
    }

    fn linears(&mut self, input: &Self::Tensor, places: &[Place]) -> Result<Vec<Self::Tensor>, PassError> {
        let program = self.context.program;
        let map = LinearPlaces::new(program.config(), program.layout(), places);
        let on_coefficients = Method::Coefficients(usize::from(map.side_by_side.is_some()));
        let methods: &[Method] = match map.fit_slots(program.layout()) {
            // Results of long maps have a bootstrap before them or after them in any case.
            true if places.len() > 1 || PassProgram::is_last(places[0]) => &[Method::Slots(1), on_coefficients],
            true => &[on_coefficients, Method::Slots(1)],
            false => &[on_coefficients],
        };
        let (method, inputs) = self.prepare(places[0], &[input], None, methods)?;
        if let Some(step) = self.steps.last_mut() {
            step.places = places.to_vec();
        }
        let vectors = match method {
            Method::Slots(_) | Method::Cache => self.context.linear_on_slots(&inputs[0], places)?,
            Method::Coefficients(_) => {
                let fresh = map.on_coefficients() * program.layout.parts;
                self.bootstraps += fresh;
                if let Some(step) = self.steps.last_mut() {
                    step.fresh = fresh;
                }
                self.context.linear_on_coefficients(&inputs[0], places)?
            }
        };
        let (mut vectors, config) = (vectors.into_iter(), program.config());
        let mut tensors = Vec::with_capacity(places.len());
        for (place, count) in places.iter().zip(&map.vectors) {
            let width = width_of(config, place.quantity);
            let vectors = vectors.by_ref().take(count * program.layout().parts).collect();
            let vectors = self.context.plus_bias(*place, vectors)?;
            tensors.push(self.finished(*place, Shape { width, ..input.shape }, vectors));
        }
        Ok(tensors)
    }

    fn rope(&mut self, input: &Self::Tensor, position: usize, place: Place) -> Result<Self::Tensor, PassError> {
        let (_, inputs) = self.prepare(place, &[input], None, &[Method::Slots(1)])?;
        let program = self.context.program;
        let units = &program.units.layers[place.layer];
        let root = (program.config().head_width as f64).sqrt();
        let normed = units.head_norms.as_ref();
        let factor = |head: usize| match place.quantity {
            Quantity::RotatedQuery => {
                normed.map_or(units.query, |norms| norms[0].output) * units.key / (root * units.score[head].0)
            }
            _ => normed.map_or(1.0, |norms| norms[1].output / units.key),
        };
        let gains = program.head_gains(place);
        let gain = |coordinate: usize| gains.map_or(1.0, |gains| f64::from(gains[coordinate]));
        let result = self.context.rope(&inputs[0], (place.layer, position), (factor, gain));
        self.finish(place, input.shape, result)
    }

    fn scores(&mut self, queries: &Self::Tensor, cache: &usize, place: Place) -> Result<Self::Tensor, PassError> {
        let (queries_now, rows) = self.with_cache(place, queries, (*cache, Role::Keys))?;
        let scores = self.context.scores(&queries_now, &rows, *cache)?;
        let layout = self.context.program.layout();
        let width = self.context.public.len() + (self.context.chunk + 1) * layout.chunk();
        let shape = Shape { groups: layout.heads, width, ..queries.shape };
        Ok(self.finished(place, shape, scores))
    }

    fn attend(&mut self, weights: &Self::Tensor, cache: &usize, place: Place) -> Result<Self::Tensor, PassError> {
        let (weights_now, rows) = self.with_cache(place, weights, (*cache, Role::Values))?;
        let sums = self.context.attend(&weights_now, &rows, *cache)?;
        let width = self.context.program.config().query_width();
        Ok(self.finished(place, Shape { groups: 1, width, ..weights.shape }, sums))
    }

    fn heads(
        &mut self,
        circuit: &Circuit,
        layer: usize,
        queries: &Self::Tensor,
        cache: &usize,
    ) -> Result<Self::Tensor, PassError> {
        let Some(sums) = self.heads_apart(layer, queries)? else {
            return circuit.heads(self, layer, queries, cache);
        };
        Ok(self.finished(Place::new(layer, Quantity::Attention), queries.shape, sums))
    }

    fn function(&mut self, _: Function, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let polynomials = self.context.program.units.polynomials(place).unwrap_or_default();
        let levels = polynomials.iter().map(Polynomial::depth).max().unwrap_or(0);
        let (_, inputs) = self.prepare(place, &[input], None, &[Method::Slots(levels)])?;
        let found = self.context.functions(place, &inputs[0]).map_err(|error| error.at(place))?;
        let checked = self.context.check(&mut self.check, &found.doubled);
        checked.map_err(|error| PassError::Arithmetic { place, error })?;
        Ok(self.finished(place, input.shape, found.values))
    }

    fn sum_squares(&mut self, input: &Self::Tensor, _: f64, _: f64, place: Place) -> Result<Self::Tensor, PassError> {
        let program = self.context.program;
        let shape = Shape { width: 1, ..input.shape };
        if let Quantity::SoftmaxSquare(round) = place.quantity {
            let (_, inputs) = self.prepare(place, &[input], None, &[Method::Slots(1)])?;
            let offsets = &program.units.layers[place.layer].rounds[usize::from(round)].offsets;
            let result = self.context.column_squares(&inputs[0], offsets);
            return self.finish(place, shape, result);
        }
        let (_, inputs) = self.prepare(place, &[input], None, &[Method::Slots(2)])?;
        if let Some(norm) = program.units.head_norm(place) {
            let result = self.context.head_squares(&inputs[0], norm);
            return self.finish(place, Shape { groups: norm.polynomials.len(), ..shape }, result);
        }
        let period = program.layout().period(program.config().width);
        let result = self.context.norm_square(&inputs[0], period, program.units.norm(place));
        self.finish(place, shape, result)
    }

    fn scale(&mut self, input: &Self::Tensor, factors: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let (_, inputs) = self.prepare(place, &[input, factors], None, &[Method::Slots(1)])?;
        let result = self.context.scale(&inputs[0], &inputs[1]);
        self.finish(place, input.shape, result)
    }

    fn multiply(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let (_, inputs) = self.prepare(place, &[a, b], None, &[Method::Slots(1)])?;
        let result = self.context.multiply(&inputs[0], &inputs[1]);
        self.finish(place, a.shape, result)
    }

    fn square(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let (_, inputs) = self.prepare(place, &[input], None, &[Method::Slots(1)])?;
        let result = self.context.multiply(&inputs[0], &inputs[0]);
        self.finish(place, input.shape, result)
    }

    fn add(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let (_, inputs) = self.prepare(place, &[a, b], None, &[Method::Slots(0)])?;
        let result = self.context.add(&inputs[0], &inputs[1]);
        self.finish(place, a.shape, result)
    }
}

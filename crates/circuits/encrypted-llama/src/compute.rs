//! The computation of parts of a pass, here or on other processes.

use unspoken_ckks::{Arithmetic, CkksError, SCALE_TOLERANCE};
use unspoken_llama::{Place, Quantity};

use crate::arithmetic::{PassArithmetic, Tensor};
use crate::check::Evaluated;
use crate::error::PassError;
use crate::evaluator::PassEvaluator;
use crate::layout::{Blocks, Columns};
use crate::ops::Context;
use crate::part::{Part, PartTask, PassPlace};
use crate::session::{LayerCache, Session};

impl PassPlace<'_> {
    /// Computes a part by an evaluator that has its keys.
    ///
    /// # Errors
    /// If the part is not one of a pass of this program at this place, or was cancelled.
    pub fn compute<M>(&self, evaluator: &M, part: &Part<M::Vector>) -> Result<Vec<M::Vector>, PassError>
    where
        M: PassEvaluator + Sync,
        M::Arithmetic: Sync,
    {
        let vectors: Vec<&M::Vector> = part.vectors.iter().collect();
        let in_one_bootstrap = || match vectors.len() {
            1 | 2 => Ok(()),
            found => Err(refused(format!("{found} vectors in one bootstrap"), "one or two")),
        };
        match &part.task {
            PartTask::Refresh => {
                in_one_bootstrap()?;
                Ok(evaluator.refresh(&vectors)?)
            }
            PartTask::Coefficients => {
                in_one_bootstrap()?;
                Ok(vec![evaluator.coefficients(&vectors)?])
            }
            PartTask::Product { places, outputs, scale } => {
                let matrix = self.program.matrix_of(places, outputs.clone())?;
                Ok(evaluator.product(&matrix, (self.program.layout.parts, *scale), &part.vectors)?)
            }
            PartTask::Function { place, index } => {
                if part.vectors.len() != 1 {
                    return Err(refused(format!("{} vectors of a function", part.vectors.len()), "one"));
                }
                let all = Blocks::all(&self.program.layout);
                let Evaluated { values, doubled } =
                    self.context(evaluator, all)?.function(*place, *index, &part.vectors)?;
                Ok([values, doubled].concat())
            }
            PartTask::Heads { layer, block, step } => self.heads(evaluator, (*layer, *block, *step), &part.vectors),
        }
    }

    fn context<'a, M: PassEvaluator>(&'a self, evaluator: &'a M, blocks: Blocks) -> Result<Context<'a, M>, PassError> {
        let (program, public, chunk) = (self.program, self.public, self.chunk);
        let most = program.config().context;
        let room = most.saturating_sub(public.len()) / program.layout.chunk();
        if chunk >= self.chunks || self.chunks > room {
            let found = format!("chunk {chunk} of {} after {} public tokens", self.chunks, public.len());
            return Err(refused(found, &format!("a smaller one, and chunks for a context of {most} tokens")));
        }
        let columns = Columns::new(&program.layout, public.len(), self.chunks);
        Ok(Context { evaluator, program, public, columns, chunk, blocks })
    }

    fn heads<M>(
        &self,
        evaluator: &M,
        (layer, block, step): (usize, usize, usize),
        vectors: &[M::Vector],
    ) -> Result<Vec<M::Vector>, PassError>
    where
        M: PassEvaluator + Sync,
        M::Arithmetic: Sync,
    {
        let (program, layout) = (self.program, &self.program.layout);
        let circuit = &program.circuit;
        if layer >= program.config().layers || block >= layout.blocks {
            let needed = format!("{} layers with {} blocks", program.config().layers, layout.blocks);
            return Err(refused(format!("heads of layer {layer}, block {block}"), &needed));
        }
        let blocks = Blocks { first: block, count: 1 };
        let context = self.context(evaluator, blocks)?;
        let mut rest = vectors.iter();
        let mut next = || {
            let found = || refused(format!("{} vectors", vectors.len()), "those of queries, keys and values");
            rest.next().cloned().ok_or_else(found)
        };
        let queries = (0..layout.parts).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
        let mut session = Session::empty(program.config().layers, layout.width);
        session.layers[layer] = LayerCache::restore((layout, &context.columns, blocks), self.chunk, &mut next, false)?;
        if rest.next().is_some() {
            return Err(refused(format!("{} vectors", vectors.len()), "those of queries, keys and values alone"));
        }
        session.chunk = self.chunk;
        let mut pass = PassArithmetic::from_step(context, &mut session, step);
        let queries = pass.queries(layer, queries);
        let sums = circuit.heads(&mut pass, layer, &queries, &layer)?.into_vectors();
        Ok([sums, pass.into_check().into_sums()].concat())
    }
}

fn refused(found: String, needed: &str) -> PassError {
    PassError::Session { found, needed: needed.into() }
}

impl<M> PassArithmetic<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    /// What heads attend to, in several processes, if there are several of them and several blocks of heads.
    pub(crate) fn heads_apart(
        &mut self,
        layer: usize,
        queries: &Tensor<M::Vector>,
    ) -> Result<Option<Vec<M::Vector>>, PassError> {
        let context = self.context;
        let (program, layout) = (context.program, &context.program.layout);
        let apart = context.evaluator.processes() > 1 && context.blocks.count > 1;
        let Some(moves) = program.placement.as_ref().filter(|_| apart) else { return Ok(None) };
        let (step, operations) = (self.step(), program.circuit.head_operations());
        let place = Place::new(layer, Quantity::Score);
        let wrong = || PassError::Placement { place };
        let (first, last) = (moves.get(step).ok_or_else(wrong)?, moves.get(step + operations - 1).ok_or_else(wrong)?);
        let entry = context.evaluator.bootstrap().input_level();
        let level = if first.refreshed.first() == Some(&true) { entry } else { first.level };
        // No higher than they are needed, because they are sent.
        let queries = context.lowered(&queries.vectors(), level)?;
        let cache = &self.session.layers[layer];
        let parts = (0..context.blocks.count).map(|block| {
            let levels = [first.level + 1, last.level + 1];
            let queries = &queries[block * layout.parts..][..layout.parts];
            let vectors = [queries.to_vec(), cache.of_block(&context, block, levels)?].concat();
            Ok(Part { task: PartTask::Heads { layer, block: context.blocks.first + block, step }, vectors })
        });
        let parts = parts.collect::<Result<Vec<_>, PassError>>()?;
        let mut results = context.spread(parts)?;
        let sums = results.iter_mut().map(|result| result.split_off(layout.parts)).collect();
        context.check_of_heads(&mut self.check, sums)?;
        self.skip(operations);
        Ok(Some(results.concat()))
    }
}

impl<M> Context<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    /// The place of its pass.
    fn place(&self) -> PassPlace<'_> {
        let Context { program, public, chunk, columns, .. } = *self;
        PassPlace { program, public, chunk, chunks: columns.chunks }
    }

    /// The results of parts, in their order, from all processes.
    pub fn spread(&self, parts: Vec<Part<M::Vector>>) -> Result<Vec<Vec<M::Vector>>, PassError> {
        self.evaluator.spread(&self.place(), parts)
    }

    /// Bootstraps vectors, two at a time, in several processes if there are several of them.
    pub fn refresh(&self, inputs: &[M::Vector]) -> Result<Vec<M::Vector>, PassError> {
        if self.evaluator.processes() == 1 || inputs.len() <= 2 {
            return Ok(self.evaluator.refresh(&inputs.iter().collect::<Vec<_>>())?);
        }
        let inputs = self.lowered(inputs, self.evaluator.bootstrap().input_level())?;
        let parts = inputs.chunks(2).map(|pair| Part { task: PartTask::Refresh, vectors: pair.to_vec() });
        Ok(self.spread(parts.collect())?.concat())
    }

    /// Products on coefficients between the halves of bootstraps, in several processes if there are several of them.
    pub fn refresh_product(&self, input: &[M::Vector], places: &[Place]) -> Result<Vec<M::Vector>, PassError> {
        let real = self.program.layout.parts;
        let outputs = self.program.output_vectors(places);
        // Vectors that one bootstrap makes.
        let together = if real == 1 { 2 } else { 1 };
        let (before, after) = (input.len() / real, outputs.div_ceil(together));
        if self.evaluator.processes() == 1 || (before == 1 && after == 1) {
            let matrix = self.program.matrix(places)?;
            return Ok(self.evaluator.refresh_product(&matrix, real, &input.iter().collect::<Vec<_>>())?);
        }
        let mut scales = input.iter().map(|vector| self.evaluator.arithmetic().scale(vector));
        let scale = scales.next().unwrap_or(1.0);
        if let Some(found) = scales.find(|other| (*other / scale - 1.0).abs() > SCALE_TOLERANCE) {
            return Err(
                CkksError::Scale { operation: "multiply coefficients by a matrix", found, needed: scale }.into()
            );
        }
        let inputs = self.lowered(input, self.evaluator.bootstrap().input_level())?;
        let halves = inputs.chunks(real).map(|parts| Part { task: PartTask::Coefficients, vectors: parts.to_vec() });
        let halves: Vec<_> = halves.collect();
        let vectors = if before > 1 { self.spread(halves)?.concat() } else { self.compute_here(&halves[0])? };
        // One bootstrap to a part, whatever the number of processes: each block has a matrix that stays.
        let blocks = (0..after).map(|block| {
            let (first, end) = (block * together, ((block + 1) * together).min(outputs));
            Part {
                task: PartTask::Product { places: places.to_vec(), outputs: first..end, scale },
                vectors: vectors.clone(),
            }
        });
        let blocks: Vec<_> = blocks.collect();
        if after == 1 { self.compute_here(&blocks[0]) } else { Ok(self.spread(blocks)?.concat()) }
    }

    fn compute_here(&self, part: &Part<M::Vector>) -> Result<Vec<M::Vector>, PassError> {
        self.place().compute(self.evaluator, part)
    }

    /// A function of each vector, in several processes if there are several of them.
    pub fn functions(&self, place: Place, input: &[M::Vector]) -> Result<Evaluated<M::Vector>, PassError> {
        if self.evaluator.processes() == 1 || input.len() == 1 {
            return self.function(place, 0, input);
        }
        let first = self.blocks.first * input.len() / self.blocks.count;
        let parts = input.iter().enumerate().map(|(index, vector)| Part {
            task: PartTask::Function { place, index: first + index },
            vectors: vec![vector.clone()],
        });
        let results = self.spread(parts.collect())?;
        let [values, doubled] = [0, 1].map(|which| results.iter().map(|result| result[which].clone()).collect());
        Ok(Evaluated { values, doubled })
    }
}

//! Networks in the clear.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, concatenate, s};
use rayon::prelude::*;

use crate::error::NetworkError;
use crate::function::Function;
use crate::matrix::{LANES, SparseMatrix};

/// Rows that are computed together by one thread.
const CHUNK: usize = 64;

const MAKE: &str = "make a network";
const RUN: &str = "run a network";

/// A value of a network: an input or the result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub(crate) usize);

impl ValueId {
    /// Its number in the order of [`Network::steps`].
    pub fn index(self) -> usize {
        self.0
    }
}

/// How a value comes to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A part of a row, which the client sends.
    Input {
        /// Its name.
        name: String,
    },
    /// The sum of matrices times values, and of a bias. With several terms it adds or joins values.
    Affine {
        /// Values and their matrices. The matrices have as many rows as the bias has elements.
        terms: Vec<(ValueId, SparseMatrix)>,
        /// What is added to each element.
        bias: Vec<f64>,
    },
    /// A function of each element.
    Function {
        /// The argument.
        input: ValueId,
        /// The function.
        function: Function,
    },
    /// The products of the elements of two values.
    Product(ValueId, ValueId),
}

impl Step {
    /// The values it uses.
    pub fn arguments(&self) -> Vec<ValueId> {
        match self {
            Step::Input { .. } => Vec::new(),
            Step::Affine { terms, .. } => terms.iter().map(|(value, _)| *value).collect(),
            Step::Function { input, .. } => vec![*input],
            Step::Product(a, b) => vec![*a, *b],
        }
    }

    /// The value of the step for some rows, from those of the steps before. That of an input has no rows.
    pub(crate) fn of(&self, values: &[Array2<f64>]) -> Array2<f64> {
        match self {
            Step::Input { .. } => Array2::default((0, 0)),
            Step::Affine { terms, bias } => affine(terms, bias, values),
            Step::Function { input, function } => values[input.0].mapv(|x| function.value(x)),
            Step::Product(a, b) => &values[a.0] * &values[b.0],
        }
    }
}

/// A network in the clear. Each value is a tensor flattened to `size` elements for each row.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) steps: Vec<Step>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) outputs: Vec<(String, ValueId)>,
}

/// Makes a [`Network`] step by step. Every step is checked when it is added.
#[derive(Clone, Debug, Default)]
pub struct NetworkBuilder {
    steps: Vec<Step>,
    sizes: Vec<usize>,
}

impl NetworkBuilder {
    /// A network without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input of `size` elements.
    ///
    /// # Errors
    /// If the size is 0 or the name is taken.
    pub fn input(&mut self, name: &str, size: usize) -> Result<ValueId, NetworkError> {
        let is_taken = |step: &Step| matches!(step, Step::Input { name: other } if other == name);
        if size == 0 || self.steps.iter().any(is_taken) {
            let found = format!("input '{name}' of {size} elements");
            return Err(NetworkError::mismatch(MAKE, found, "one or more elements, and a name of its own"));
        }
        Ok(self.push(Step::Input { name: name.into() }, size))
    }

    /// Adds `sum matrix * value + bias`.
    ///
    /// # Errors
    /// If there are no terms, a value does not exist, shapes do not fit, or a bias is not finite.
    pub fn affine(&mut self, terms: Vec<(ValueId, SparseMatrix)>, bias: Vec<f64>) -> Result<ValueId, NetworkError> {
        let size = bias.len();
        if terms.is_empty() {
            return Err(NetworkError::mismatch(MAKE, "an affine map of no values", "at least one term"));
        }
        for (value, matrix) in &terms {
            let columns = self.size(*value)?;
            if (matrix.rows(), matrix.columns()) != (size, columns) {
                let found = format!("a matrix of {} x {}", matrix.rows(), matrix.columns());
                let needed = format!("{size} rows as the bias, and {columns} columns as value {}", value.0);
                return Err(NetworkError::mismatch(MAKE, found, needed));
            }
        }
        if let Some(index) = bias.iter().position(|b| !b.is_finite()) {
            return Err(NetworkError::mismatch(MAKE, format!("bias {index} of {}", bias[index]), "finite numbers"));
        }
        Ok(self.push(Step::Affine { terms, bias }, size))
    }

    /// Adds a function of each element of a value.
    ///
    /// # Errors
    /// If the value does not exist, or the function has parameters that it cannot have.
    pub fn function(&mut self, input: ValueId, function: Function) -> Result<ValueId, NetworkError> {
        let size = self.size(input)?;
        function.check().map_err(|needed| NetworkError::mismatch(MAKE, format!("{function:?}"), needed))?;
        Ok(self.push(Step::Function { input, function }, size))
    }

    /// Adds the products of the elements of two values.
    ///
    /// # Errors
    /// If a value does not exist, or the sizes differ.
    pub fn product(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, NetworkError> {
        let (size, other) = (self.size(a)?, self.size(b)?);
        if size != other {
            return Err(NetworkError::mismatch(MAKE, format!("factors of {size} and {other} elements"), "equal sizes"));
        }
        Ok(self.push(Step::Product(a, b), size))
    }

    /// The network with these outputs.
    ///
    /// # Errors
    /// If there are no outputs, or one is not the result of a step.
    pub fn finish(self, outputs: &[(&str, ValueId)]) -> Result<Network, NetworkError> {
        if outputs.is_empty() {
            return Err(NetworkError::mismatch(MAKE, "no outputs", "at least one"));
        }
        for (name, value) in outputs {
            self.size(*value)?;
            if matches!(self.steps[value.0], Step::Input { .. }) {
                let needed = "the result of a step: the client has the input already";
                return Err(NetworkError::mismatch(MAKE, format!("output '{name}', which is an input"), needed));
            }
        }
        let outputs = outputs.iter().map(|&(name, value)| (name.to_string(), value)).collect();
        Ok(Network { steps: self.steps, sizes: self.sizes, outputs })
    }

    /// Number of elements of a value so far.
    ///
    /// # Errors
    /// If the value does not exist.
    pub fn size(&self, value: ValueId) -> Result<usize, NetworkError> {
        self.sizes.get(value.0).copied().ok_or_else(|| {
            let needed = format!("one of the {} values so far", self.sizes.len());
            NetworkError::mismatch(MAKE, format!("value {}", value.0), needed)
        })
    }

    fn push(&mut self, step: Step, size: usize) -> ValueId {
        self.steps.push(step);
        self.sizes.push(size);
        ValueId(self.steps.len() - 1)
    }
}

impl Network {
    /// The steps, each after the steps it uses.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Number of elements of a value.
    ///
    /// # Panics
    /// If the value belongs to another network.
    pub fn size(&self, value: ValueId) -> usize {
        self.sizes[value.0]
    }

    /// Number of elements of all values, in the order of [`Network::steps`].
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Names and values of the inputs.
    pub fn inputs(&self) -> Vec<(&str, ValueId)> {
        let named = self.steps.iter().enumerate().filter_map(|(index, step)| match step {
            Step::Input { name } => Some((name.as_str(), ValueId(index))),
            _ => None,
        });
        named.collect()
    }

    /// Names and values of the outputs.
    pub fn outputs(&self) -> Vec<(&str, ValueId)> {
        self.outputs.iter().map(|(name, value)| (name.as_str(), *value)).collect()
    }

    /// How often each value is used, as an output too.
    pub(crate) fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.steps.len()];
        self.steps.iter().flat_map(Step::arguments).for_each(|value| uses[value.0] += 1);
        self.outputs.iter().for_each(|(_, value)| uses[value.0] += 1);
        uses
    }

    /// The outputs for rows: one table (rows x elements) for each input, and for each output. Rows are computed in
    /// parallel.
    ///
    /// # Errors
    /// If the number of tables, of their rows or of their columns does not fit.
    pub fn run(&self, inputs: &[ArrayView2<'_, f64>]) -> Result<Vec<Array2<f64>>, NetworkError> {
        self.run_by(inputs, |index, values| self.steps[index].of(values))
    }

    /// The same with steps that `of` computes from the values before; it is not asked for inputs.
    pub(crate) fn run_by(
        &self,
        inputs: &[ArrayView2<'_, f64>],
        of: impl Fn(usize, &[Array2<f64>]) -> Array2<f64> + Sync,
    ) -> Result<Vec<Array2<f64>>, NetworkError> {
        let of_chunk = |_: usize, part: &[ArrayView2<'_, f64>]| {
            let values = self.values(part, &of);
            self.outputs.iter().map(|(_, value)| values[value.0].clone()).collect::<Vec<_>>()
        };
        let chunks = self.in_chunks(inputs, of_chunk)?;
        let join = |(index, (name, _)): (usize, &(String, ValueId))| {
            let parts: Vec<ArrayView2<'_, f64>> = chunks.iter().map(|chunk| chunk[index].view()).collect();
            concatenate(Axis(0), &parts)
                .map_err(|error| NetworkError::mismatch(RUN, format!("{name}: {error}"), "rows"))
        };
        self.outputs.iter().enumerate().map(join).collect()
    }

    /// Shows all values of all rows, some rows at a time: the number of the first of these rows, and one table (rows x
    /// elements) for each value. Returns what the observer makes of them, in the order of rows.
    ///
    /// # Errors
    /// As for [`Network::run`].
    pub fn observe<T: Send>(
        &self,
        inputs: &[ArrayView2<'_, f64>],
        observer: impl Fn(usize, &[Array2<f64>]) -> T + Sync,
    ) -> Result<Vec<T>, NetworkError> {
        let of = |index: usize, values: &[Array2<f64>]| self.steps[index].of(values);
        self.in_chunks(inputs, |first, part| observer(first, &self.values(part, of)))
    }

    /// Calls `work` with some rows at a time, in parallel, and with the number of the first of them.
    fn in_chunks<T: Send>(
        &self,
        inputs: &[ArrayView2<'_, f64>],
        work: impl Fn(usize, &[ArrayView2<'_, f64>]) -> T + Sync,
    ) -> Result<Vec<T>, NetworkError> {
        let rows = self.check_rows(inputs)?;
        let chunk = |start: usize| {
            let range = start..rows.min(start + CHUNK);
            let part: Vec<ArrayView2<'_, f64>> =
                inputs.iter().map(|table| table.slice(s![range.clone(), ..])).collect();
            work(start, &part)
        };
        Ok((0..rows).into_par_iter().step_by(CHUNK).map(chunk).collect())
    }

    /// The number of rows, after a check of the tables.
    pub(crate) fn check_rows(&self, inputs: &[ArrayView2<'_, f64>]) -> Result<usize, NetworkError> {
        let own = self.inputs();
        let rows = inputs.first().map_or(0, |table| table.nrows());
        if inputs.len() != own.len() || rows == 0 {
            let needed = format!("a table with one or more rows for each of {} inputs", own.len());
            return Err(NetworkError::mismatch(RUN, format!("{} tables of {rows} rows", inputs.len()), needed));
        }
        for (table, (name, value)) in inputs.iter().zip(own) {
            if table.dim() != (rows, self.size(value)) {
                let found = format!("{} x {} for input '{name}'", table.nrows(), table.ncols());
                return Err(NetworkError::mismatch(RUN, found, format!("{rows} x {}", self.size(value))));
            }
        }
        Ok(rows)
    }

    /// All values of some rows, whose steps `of` computes.
    fn values(
        &self,
        inputs: &[ArrayView2<'_, f64>],
        of: impl Fn(usize, &[Array2<f64>]) -> Array2<f64>,
    ) -> Vec<Array2<f64>> {
        let mut values: Vec<Array2<f64>> = Vec::with_capacity(self.steps.len());
        let mut inputs = inputs.iter();
        for (index, step) in self.steps.iter().enumerate() {
            let value = match step {
                // Checked: there is a table for each input.
                Step::Input { .. } => inputs.next().map(ArrayView2::to_owned).unwrap_or_default(),
                _ => of(index, &values),
            };
            values.push(value);
        }
        values
    }
}

fn affine(terms: &[(ValueId, SparseMatrix)], bias: &[f64], values: &[Array2<f64>]) -> Array2<f64> {
    let rows = terms.first().map_or(0, |(value, _)| values[value.0].nrows());
    let mut results = vec![0.0; rows * bias.len()];
    results.par_chunks_mut(LANES * bias.len()).enumerate().for_each(|(block, own)| {
        let mut sums: Vec<[f64; LANES]> = bias.iter().map(|bias| [*bias; LANES]).collect();
        for (value, matrix) in terms {
            let first = block * LANES;
            let arguments = values[value.0].slice(s![first..rows.min(first + LANES), ..]);
            // Lanes without a row are 0.
            let lanes_of = |column: ArrayView1<'_, f64>| {
                let mut lanes = [0.0; LANES];
                lanes.iter_mut().zip(column).for_each(|(lane, value)| *lane = *value);
                lanes
            };
            matrix.add_products(&arguments.columns().into_iter().map(lanes_of).collect::<Vec<_>>(), &mut sums);
        }
        for (lane, row) in own.chunks_exact_mut(bias.len()).enumerate() {
            row.iter_mut().zip(&sums).for_each(|(result, sums)| *result = sums[lane]);
        }
    });
    // As many results as rows and elements.
    Array2::from_shape_vec((rows, bias.len()), results).unwrap_or_default()
}

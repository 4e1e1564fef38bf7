//! Designs: what a network becomes before a layout and parameters are chosen.

use serde::{Deserialize, Serialize};
use unspoken_ckks::Polynomial;

use crate::approximate::Wanted;
use crate::encoding::Encoding;
use crate::error::NetworkError;
use crate::function::Function;
use crate::matrix::SparseMatrix;
use crate::network::{Network, Step, ValueId};
use crate::ranges::{Interval, Ranges};
use crate::refit::Refit;

const OPERATION: &str = "design a program";

/// Largest slot of an input for which bounds of results are stated: four times the range of its element.
pub const MOST_INPUT: f64 = 4.0;

/// Largest slot of a result: larger results get a larger radius. Every preset has room for more at level 0.
const MOST_OUTPUT: f64 = 128.0;

/// Largest number of elements that may have polynomials of their own.
const MOST_POLYNOMIALS: usize = 4096;

/// Largest degree that may be allowed.
const MOST_DEGREE: usize = 1023;

/// What is wanted of a design.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Factor by which ranges are wider than in the calibration rows, at least 1. Rows with values outside get wrong
    /// results.
    pub margin: f64,
    /// Root mean square error of polynomials for functions with a kink, such as ReLU, over the calibration rows; as a
    /// part of the largest magnitude of the function on the range.
    pub kink_error: f64,
    /// Largest error of polynomials for smooth functions; as a part of half the length of the function's range.
    pub smooth_error: f64,
    /// Largest degree.
    pub most_degree: usize,
    /// Whether [`Design::refitted`] changes weights.
    pub refit: bool,
}

impl Default for Options {
    /// A margin of 1.25, errors of 2^-8 (degree 31 for most layers with ReLU; 2^-7 has degree 15) and 2^-12, degrees up
    /// to 63, and maps that are fitted again.
    fn default() -> Self {
        Options { margin: 1.25, kink_error: 2f64.powi(-8), smooth_error: 2f64.powi(-12), most_degree: 63, refit: true }
    }
}

/// How a function is computed on slots.
#[derive(Clone, Debug)]
pub(crate) enum Activation {
    /// A power by products.
    Power(u32),
    /// One polynomial for all elements.
    Same(Polynomial),
    /// A polynomial for each element.
    Each(Vec<Polynomial>),
}

/// The polynomials of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Approximation {
    /// The result of the step.
    pub value: ValueId,
    /// The function.
    pub function: Function,
    /// The degree of the polynomials.
    pub degree: usize,
    /// Levels that the step uses.
    pub depth: usize,
    /// Whether each element has a polynomial of its own.
    pub per_element: bool,
    /// The largest error in the ranges; as a part of the radius of the result. 0 for powers.
    pub largest: f64,
    /// The root mean square error, over the calibration rows for functions with a kink; in the same unit.
    pub rms: f64,
}

/// A network with ranges in the slots, polynomials and levels. It does not depend on parameters or on a batch.
#[derive(Clone, Debug)]
pub struct Design {
    pub(crate) network: Network,
    pub(crate) encodings: Vec<Encoding>,
    pub(crate) activations: Vec<Option<Activation>>,
    pub(crate) levels: Vec<usize>,
    approximations: Vec<Approximation>,
    bound: f64,
    /// Before maps were fitted again.
    pub(crate) original: Option<Network>,
    pub(crate) refits: Vec<Refit>,
}

impl Design {
    /// Chooses ranges, polynomials and levels for a network.
    ///
    /// # Errors
    /// If the ranges are not those of this network, no output needs a step, an option is out of range, or no polynomial
    /// of the allowed degree is near enough to a function.
    pub fn new(network: &Network, ranges: &Ranges, options: &Options) -> Result<Self, NetworkError> {
        ranges.check(&network.sizes)?;
        options.check()?;
        if let Some(unused) = network.unused() {
            let needed = "steps that an output needs; Network::fused leaves the others out";
            return Err(NetworkError::mismatch(
                OPERATION,
                format!("value {}, which no output needs", unused.index()),
                needed,
            ));
        }
        let mut design = Design {
            network: network.clone(),
            encodings: Vec::with_capacity(network.steps.len()),
            activations: Vec::with_capacity(network.steps.len()),
            levels: Vec::new(),
            approximations: Vec::new(),
            bound: 0.0,
            original: None,
            refits: Vec::new(),
        };
        for index in 0..network.steps.len() {
            design.push(ValueId(index), ranges, options)?;
        }
        design.levels = design.levels();
        design.bound_outputs();
        Ok(design)
    }

    /// The network that is computed.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The network that the results should be near to: without the maps of [`Design::refits`].
    pub fn original(&self) -> &Network {
        self.original.as_ref().unwrap_or(&self.network)
    }

    /// The maps that [`Design::refitted`] has fitted again.
    pub fn refits(&self) -> &[Refit] {
        &self.refits
    }

    /// The slots of a value.
    ///
    /// # Panics
    /// If the value belongs to another network.
    pub fn encoding(&self, value: ValueId) -> &Encoding {
        &self.encodings[value.index()]
    }

    /// The polynomials, in the order of steps, with their errors.
    pub fn approximations(&self) -> &[Approximation] {
        &self.approximations
    }

    /// Number of levels: the level of the inputs, if the results are at level 0 and nothing is bootstrapped.
    pub fn depth(&self) -> usize {
        self.network.inputs().iter().map(|(_, value)| self.levels[value.index()]).max().unwrap_or(0)
    }

    /// Bound of the slots of results: for rows whose inputs are at most [`MOST_INPUT`] times as far from the middle of
    /// their ranges as the ends, and whose other values are in their ranges.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// The matrices and the bias of an affine map on slots: with the ranges of its arguments and of its result.
    pub(crate) fn of_slots(
        &self,
        value: ValueId,
        terms: &[(ValueId, SparseMatrix)],
        bias: &[f64],
    ) -> (Vec<SparseMatrix>, Vec<f64>) {
        let own = self.encoding(value);
        let mut bias: Vec<f64> = bias.iter().zip(&own.middle).map(|(bias, middle)| bias - middle).collect();
        let mut matrices = Vec::with_capacity(terms.len());
        for (argument, matrix) in terms {
            let encoding = self.encoding(*argument);
            matrix.add_product(&encoding.middle, &mut bias);
            matrices.push(matrix.rescaled(&own.radius, &encoding.radius));
        }
        bias.iter_mut().zip(&own.radius).for_each(|(bias, radius)| *bias /= radius);
        (matrices, bias)
    }

    fn push(&mut self, value: ValueId, ranges: &Ranges, options: &Options) -> Result<(), NetworkError> {
        let (encoding, activation) = match self.network.steps[value.index()].clone() {
            Step::Input { .. } | Step::Affine { .. } => (self.free_encoding(value, ranges, options)?, None),
            Step::Product(a, b) => (self.product_encoding(a, b)?, None),
            Step::Function { input, function } => {
                let (encoding, activation) = self.activation((input, value), function, ranges, options)?;
                (encoding, Some(activation))
            }
        };
        self.encodings.push(encoding);
        self.activations.push(activation);
        Ok(())
    }

    /// The functions of a value, and whether its ranges must be around 0.
    fn users(&self, value: ValueId) -> (Vec<Function>, bool) {
        let (mut functions, mut around_zero) = (Vec::new(), false);
        for step in &self.network.steps {
            match step {
                Step::Function { input, function } if *input == value => {
                    functions.push(*function);
                    around_zero |= function.is_homogeneous();
                }
                Step::Product(a, b) if [a, b].contains(&&value) => around_zero = true,
                _ => {}
            }
        }
        (functions, around_zero)
    }

    /// The encoding of an input, or of a result of an affine map, which includes the factors.
    fn free_encoding(&self, value: ValueId, ranges: &Ranges, options: &Options) -> Result<Encoding, NetworkError> {
        let (bounds, margin) = (ranges.of_value(value), options.margin);
        let (functions, around_zero) = self.users(value);
        // The elements of an input have units of their own, and so have results that no function gets.
        let is_input = matches!(self.network.steps[value.index()], Step::Input { .. });
        let are_alike = !is_input && !functions.is_empty();
        let positive = |own: Encoding| if are_alike { own.floored() } else { own.separate() };
        if functions.iter().all(|function| function.is_homogeneous()) {
            let reaches = || Encoding::symmetric(&ranges.reaches(value), margin);
            return Ok(positive(if around_zero { reaches() } else { Encoding::each(bounds, margin) }));
        }
        if let Some(function) = functions.iter().find(|function| function.is_of_positive()) {
            let all = Interval::of(bounds);
            if all.low <= 0.0 || around_zero {
                let found = format!("arguments from {} of {function:?} in value {}", all.low, value.index());
                return Err(NetworkError::mismatch(OPERATION, found, "positive ones, that are no factors"));
            }
            // The margin is a factor at both ends, so that the interval stays positive.
            let wide = Interval { low: all.low / margin, high: all.high * margin };
            return Ok(Encoding::common(wide, bounds.len(), 1.0, false));
        }
        let common = Encoding::common(Interval::of(bounds), bounds.len(), margin, around_zero);
        // An encoding for each element needs a polynomial for each: only if that saves a level.
        if let [function] = functions.as_slice()
            && !around_zero
            && bounds.len() <= MOST_POLYNOMIALS
        {
            let each = positive(Encoding::each(bounds, margin));
            let depth = |encoding: &Encoding| {
                let wanted = Wanted { function: *function, encoding, histograms: None, around_zero, options };
                Ok::<_, NetworkError>(wanted.fits()?.map_or(usize::MAX, |fits| fits.depth()))
            };
            if depth(&each)? < depth(&common)? {
                return Ok(each);
            }
        }
        Ok(common)
    }

    fn product_encoding(&self, a: ValueId, b: ValueId) -> Result<Encoding, NetworkError> {
        let (a, b) = (self.encoding(a), self.encoding(b));
        if !a.is_around_zero() || !b.is_around_zero() {
            return Err(NetworkError::mismatch(OPERATION, "a factor with another middle than 0", "ranges around 0"));
        }
        let radius = a.radius.iter().zip(&b.radius).map(|(a, b)| a * b).collect();
        Ok(Encoding { middle: a.middle.clone(), radius })
    }

    /// The encoding of a function's result and the way to compute it.
    fn activation(
        &mut self,
        (input, value): (ValueId, ValueId),
        function: Function,
        ranges: &Ranges,
        options: &Options,
    ) -> Result<(Encoding, Activation), NetworkError> {
        let encoding = self.encoding(input).clone();
        if let Function::Power(n) = function
            && encoding.is_around_zero()
        {
            let radius = encoding.radius.iter().map(|radius| radius.powi(n as i32)).collect();
            let (degree, depth) = (n as usize, n.next_power_of_two().trailing_zeros() as usize);
            let exact = Approximation { value, function, degree, depth, per_element: false, largest: 0.0, rms: 0.0 };
            self.approximations.push(exact);
            return Ok((Encoding { middle: encoding.middle, radius }, Activation::Power(n)));
        }
        let around_zero = self.users(value).1;
        let histograms = ranges.histograms(input);
        let wanted = Wanted { function, encoding: &encoding, histograms, around_zero, options };
        let Some(fits) = wanted.fits()? else {
            let wanted = if function.has_kink() { options.kink_error } else { options.smooth_error };
            let bits = wanted.log2();
            let found = format!("no polynomial of {function:?} within 2^{bits:.1} in value {}", input.index());
            let needed = format!("a degree above {}; allow a larger error or degree", options.most_degree);
            return Err(NetworkError::mismatch(OPERATION, found, needed));
        };
        let (degree, depth, per_element) = (fits.degree(), fits.depth(), fits.fits.len() > 1);
        let (largest, rms) = (fits.worst(|fit| fit.largest), fits.worst(|fit| fit.rms));
        self.approximations.push(Approximation { value, function, degree, depth, per_element, largest, rms });
        let output = fits.output.clone();
        let mut polynomials = fits.into_polynomials();
        let activation =
            if per_element { Activation::Each(polynomials) } else { Activation::Same(polynomials.swap_remove(0)) };
        Ok((output, activation))
    }

    /// Levels that each step uses.
    pub(crate) fn depths(&self) -> Vec<usize> {
        let depth = |(step, activation): (&Step, &Option<Activation>)| match activation {
            Some(Activation::Power(n)) => n.next_power_of_two().trailing_zeros() as usize,
            Some(Activation::Same(polynomial)) => polynomial.depth(),
            Some(Activation::Each(all)) => all.iter().map(Polynomial::depth).max().unwrap_or(0),
            None => usize::from(!matches!(step, Step::Input { .. })),
        };
        self.network.steps.iter().zip(&self.activations).map(depth).collect()
    }

    /// What a step computes, for people.
    pub(crate) fn described(&self, value: ValueId) -> String {
        let size = self.network.size(value);
        match &self.network.steps[value.index()] {
            Step::Input { name } => format!("input '{name}' of {size}"),
            Step::Affine { terms, .. } => {
                let from = terms.iter().map(|(value, _)| self.network.size(*value).to_string()).collect::<Vec<_>>();
                format!("map from {} to {size}", from.join(" and "))
            }
            Step::Function { function, .. } => {
                let own = self.approximations.iter().find(|approximation| approximation.value == value);
                format!("{function:?} of degree {}", own.map_or(0, |approximation| approximation.degree))
            }
            Step::Product(..) => format!("product of {size}"),
        }
    }

    /// The level of each value, from the results at level 0 backwards.
    fn levels(&self) -> Vec<usize> {
        let (mut levels, depths) = (vec![0; self.network.steps.len()], self.depths());
        for (index, step) in self.network.steps.iter().enumerate().rev() {
            for value in step.arguments() {
                levels[value.index()] = levels[value.index()].max(levels[index] + depths[index]);
            }
        }
        levels
    }

    /// Widens the ranges of results that could become too large for level 0, and states the bound.
    fn bound_outputs(&mut self) {
        let uses = self.network.uses();
        // Polynomials may exceed the ranges of functions by their errors, and a product has two factors.
        let error = self.approximations.iter().map(|step| step.largest).fold(0.0, f64::max);
        let most = (1.0 + error).powi(2);
        self.bound = most;
        for (_, value) in self.network.outputs.clone() {
            let Step::Affine { terms, bias } = &self.network.steps[value.index()] else { continue };
            let is_input = |value: &ValueId| matches!(self.network.steps[value.index()], Step::Input { .. });
            let reach = |value: &ValueId| if is_input(value) { MOST_INPUT } else { most };
            let mut widest = 0.0f64;
            let (matrices, bias) = self.of_slots(value, terms, bias);
            let mut radii = self.encoding(value).radius.clone();
            for (row, radius) in radii.iter_mut().enumerate() {
                let far = |(matrix, (argument, _)): (&SparseMatrix, &(ValueId, _))| {
                    matrix.row(row).map(|(_, weight)| weight.abs()).sum::<f64>() * reach(argument)
                };
                let far = bias[row].abs() + matrices.iter().zip(terms).map(far).sum::<f64>();
                // Other steps rely on the range of a value that they use.
                let wider = if uses[value.index()] == 1 { (far / MOST_OUTPUT).max(1.0) } else { 1.0 };
                *radius *= wider;
                widest = widest.max(far / wider);
            }
            self.encodings[value.index()].radius = radii;
            self.bound = self.bound.max(widest);
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), NetworkError> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let errors = positive(self.kink_error) && positive(self.smooth_error);
        if self.margin >= 1.0 && self.margin.is_finite() && errors && self.most_degree <= MOST_DEGREE {
            return Ok(());
        }
        let needed = format!("a margin of 1 or more, positive errors, and degrees up to {MOST_DEGREE}");
        Err(NetworkError::mismatch(OPERATION, format!("{self:?}"), needed))
    }
}

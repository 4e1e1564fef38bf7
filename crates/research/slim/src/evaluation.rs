//! Algorithm 1 of the paper: slim evaluation of a polynomial.
//!
//! The values are repeated through all slots. Each slot computes one leaf of one value; then each level squares, adds a
//! rotation and subtracts `m`. The keys are the relinearisation key and one rotation key for each level of squares.
//!
//! Degree `2^k` takes `k + 1` levels, the affine map of the interval included: one less than `evaluate` at the same
//! degree, and the same number as `evaluate` at degree `2^k - 1`. `apply_mapped` takes `k` levels and an argument that
//! the caller has mapped, with `affine_map`: one factor and one offset for each leaf and value. No level is spent on
//! leading coefficients: leaves are evaluated in Dickson polynomials `D_k(y) = 2 r^k T_k(u)` of `y = 2 r u`, with an
//! `r` that makes the leading coefficient 1, and `r` is part of the factor. So both variants of the paper are here,
//! with `k + 1` and with `k` levels.
//!
//! Each value may have its own polynomial and interval, if degree, depth and sign of the leading coefficient agree: the
//! coefficients are plaintext vectors anyway. A constant is the product of such a vector with a vector of ones, so that
//! the encoding is kept.

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, Cost, CostModel, Encoder, PreparedVector, Simulator,
};
use unspoken_rlwe::KeyPlan;

use crate::dickson::Dickson;
use crate::error::{SlimError, shape};
use crate::program::{Program, ones};
use crate::tree::SquareTree;

const OPERATION: &str = "evaluate a slim polynomial";

/// Polynomials as sums of squares, prepared for one parameter set, number of values, level and scale.
///
/// The input has `values` real values, a power of two, repeated through all slots. The output has the same form. With
/// trees of depth `j` the evaluation uses `2^j values` slots, so the vector must have at least this number: slots `i
/// values .. (i + 1) values` compute leaf `i`. Each level squares once and adds one rotation.
///
/// Plaintext vectors are encoded at their first encrypted use and kept.
pub struct SlimEvaluation {
    level: usize,
    scale: f64,
    values: usize,
    depth: usize,
    negative: bool,
    map: AffineMap,
    program: Program,
    /// For each level of squares, the last first, half the negative shifts.
    shifts: Vec<PreparedVector>,
    counted: Counted,
}

/// The map of inputs to the arguments of the leaves: slot `s` of the argument is
/// `factors[s] input[s] + offsets[s]`, with indices modulo their length.
pub struct AffineMap {
    /// The factors, one for each value and leaf.
    pub factors: Vec<Complex64>,
    /// The offsets.
    pub offsets: Vec<Complex64>,
    /// The level of the argument.
    pub level: usize,
    /// The scale of the argument.
    pub scale: f64,
    factor: PreparedVector,
    offset: PreparedVector,
}

/// What a run takes.
struct Counted {
    keys: KeyPlan,
    cost: Cost,
    prepared_bytes: u64,
    working_bytes: u64,
}

impl SlimEvaluation {
    /// Prepares trees for inputs of scale `scale` and results at `level`, of the same scale. Value `v` gets the
    /// polynomial `trees[v % trees.len()]`, so intervals and polynomials may differ by value.
    ///
    /// # Errors
    /// [`SlimError::Shape`] if there are no trees, their number does not divide `values`, `values` is not a power of
    /// two, the slots are fewer than `values` times the leaves, or the trees differ in degree, depth, or sign of the
    /// leading coefficient. [`CkksError::Level`] if the parameters have fewer levels than `level` and
    /// [`SlimEvaluation::levels`], [`CkksError::Value`] if the scale is not a positive number.
    pub fn new(
        parameters: &CkksParameters,
        trees: &[&SquareTree],
        values: usize,
        level: usize,
        scale: f64,
    ) -> Result<Self, SlimError> {
        let first = check_shapes(parameters, trees, values)?;
        let levels = first.degree().trailing_zeros() as usize + 1;
        if level + levels > parameters.max_level() {
            let (found, needed) = (parameters.max_level(), level + levels);
            return Err(CkksError::Level { operation: OPERATION, found, needed }.into());
        }
        let encoder = Encoder::new(parameters);
        let model = CostModel::nominal(parameters);
        let mut cheapest: Option<(f64, usize)> = None;
        for babies in (0..=first.leaf_degree().ilog2()).map(|log2| 1 << log2) {
            // The cost does not depend on the values.
            let short = Self::build(parameters, trees, (values, 1), (level, scale), babies)?;
            let seconds = model.seconds(&short.count(&encoder)?.cost);
            if cheapest.is_none_or(|(least, _)| seconds < least) {
                cheapest = Some((seconds, babies));
            }
        }
        let babies = cheapest.map_or(1, |(_, babies)| babies);
        let mut slim = Self::build(parameters, trees, (values, values), (level, scale), babies)?;
        slim.counted = slim.count(&encoder)?;
        Ok(slim)
    }

    /// Builds the program with vectors for `encoded` of the values.
    fn build(
        parameters: &CkksParameters,
        trees: &[&SquareTree],
        (values, encoded): (usize, usize),
        (level, scale): (usize, f64),
        babies: usize,
    ) -> Result<Self, SlimError> {
        let (degree, depth, negative) = (trees[0].degree(), trees[0].depth(), trees[0].negative);
        let leaves: Vec<Dickson> = (0..1 << depth)
            .flat_map(|leaf| trees.iter().map(move |tree| Dickson::new(&tree.leaves[leaf])))
            .map(|leaf| leaf.ok_or_else(|| shape(OPERATION, "a leaf without leading coefficient", "a tree")))
            .collect::<Result<_, _>>()?;
        // One number for each leaf (or pair of squares) and tree, to one for each leaf and value.
        let spread = |numbers: &[f64]| -> Vec<Complex64> {
            let blocks = numbers.chunks(trees.len());
            blocks.flat_map(|block| (0..encoded).map(|v| Complex64::from(block[v % block.len()]))).collect()
        };
        let encode = |numbers: &[f64], level: usize, scale: f64| PreparedVector::new(spread(numbers), level, scale);
        let argument = level + degree.trailing_zeros() as usize;
        // The scale of the result is the scale of the argument to the power of the degree, divided by moduli.
        let trial = parameters.scale();
        let result = result_scale(
            parameters,
            &Program::new(parameters, &leaves, babies, (argument, trial), &encode)?,
            depth,
            level,
        );
        let argument_scale = trial * (scale / result).powf(1.0 / degree as f64);
        let program = Program::new(parameters, &leaves, babies, (argument, argument_scale), &encode)?;
        let mut shifts = Vec::with_capacity(depth);
        let mut current = program.scale(parameters);
        for l in (0..depth).rev() {
            let at = level + l + 1;
            let halves = (0..1 << l).flat_map(|i| trees.iter().map(move |tree| -tree.shifts[l][i] / 2.0));
            shifts.push(encode(&halves.collect::<Vec<_>>(), at, current * current)?);
            current = current * current / parameters.level_modulus(at);
        }
        let map = AffineMap::new(parameters, trees, &leaves, (argument, argument_scale), scale, &spread)?;
        let counted = Counted { keys: KeyPlan::new(), cost: Cost::default(), prepared_bytes: 0, working_bytes: 0 };
        Ok(SlimEvaluation { level, scale, values, depth, negative, map, program, shifts, counted })
    }

    /// Counts a run on a simulator without values.
    fn count(&self, encoder: &Encoder) -> Result<Counted, SlimError> {
        let simulator = Simulator::counting(encoder);
        let input = simulator.encrypt(&[], self.input_level(), self.scale)?;
        let working_bytes = simulator.working_bytes(|simulator| self.run(simulator, &input))?;
        let mut vectors = self.program.vectors();
        vectors.extend(&self.shifts);
        vectors.extend([&self.map.factor, &self.map.offset]);
        let prepared_bytes = vectors.iter().map(|vector| vector.prepared_bytes(encoder.parameters())).sum();
        Ok(Counted { keys: simulator.key_plan(), cost: simulator.cost(), prepared_bytes, working_bytes })
    }

    /// The level of the results.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Levels that [`SlimEvaluation::apply`] uses: `k + 1` for degree `2^k`, one of them for the affine map.
    pub fn levels(&self) -> usize {
        self.map.level + 1 - self.level
    }

    /// The level that inputs are lowered to.
    pub fn input_level(&self) -> usize {
        self.map.level + 1
    }

    /// The map of inputs to arguments, for callers that fold it into an operation before.
    pub fn affine_map(&self) -> &AffineMap {
        &self.map
    }

    /// The keys that [`SlimEvaluation::apply`] needs: relinearisation, and one rotation for each level of squares.
    pub fn key_plan(&self) -> &KeyPlan {
        &self.counted.keys
    }

    /// The operations of [`SlimEvaluation::apply`], as counted by the simulator.
    pub fn cost(&self) -> &Cost {
        &self.counted.cost
    }

    /// Bytes of memory of the plaintext vectors. Vectors that are not yet encoded count as encoded.
    pub fn prepared_bytes(&self) -> u64 {
        self.counted.prepared_bytes
    }

    /// Peak memory of [`SlimEvaluation::apply`] in bytes. It includes the result, but not the input, the keys and
    /// [`SlimEvaluation::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.counted.working_bytes
    }

    /// Evaluates the polynomials on values that are repeated through all slots.
    ///
    /// # Errors
    /// If the input is below [`SlimEvaluation::input_level`], its scale is not the prepared one, or keys are missing.
    /// The error names all missing keys, before any computation starts.
    pub fn apply<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, SlimError> {
        arithmetic.require_keys(OPERATION, self.key_plan())?;
        let found = arithmetic.level(input);
        if found < self.input_level() {
            return Err(CkksError::Level { operation: OPERATION, found, needed: self.input_level() }.into());
        }
        Ok(self.run(arithmetic, input)?)
    }

    /// Evaluates the polynomials on arguments: the results of [`SlimEvaluation::affine_map`], at its scale, and at its
    /// level or a higher one (which is lowered). This saves the level of the affine map.
    ///
    /// # Errors
    /// If the argument has a lower level than the map or another scale, or keys are missing.
    pub fn apply_mapped<A: Arithmetic>(&self, arithmetic: &A, argument: &A::Vector) -> Result<A::Vector, SlimError> {
        arithmetic.require_keys(OPERATION, self.key_plan())?;
        let (found, needed) = (arithmetic.level(argument), self.map.level);
        if found < needed {
            return Err(CkksError::Level { operation: OPERATION, found, needed }.into());
        }
        Ok(self.run_mapped(arithmetic, &*arithmetic.lowered(argument, needed)?)?)
    }

    fn run<A: Arithmetic>(&self, arithmetic: &A, input: &A::Vector) -> Result<A::Vector, CkksError> {
        let one = ones(arithmetic, input)?;
        let pairs = [(input, &self.map.factor), (&one, &self.map.offset)];
        let argument = arithmetic.rescale(&arithmetic.sum_products(&pairs)?)?;
        self.run_mapped(arithmetic, &argument)
    }

    fn run_mapped<A: Arithmetic>(&self, arithmetic: &A, argument: &A::Vector) -> Result<A::Vector, CkksError> {
        let mut vector = self.program.run(arithmetic, argument)?;
        for (shift, l) in self.shifts.iter().zip((0..self.depth).rev()) {
            let one = ones(arithmetic, &vector)?;
            let square = arithmetic.tensor(&vector, &vector)?;
            let shifted = arithmetic.add(&square, &arithmetic.mul_prepared(&one, shift)?)?;
            let square = arithmetic.relinearise_rescale(&shifted)?;
            vector = arithmetic.sum_rotations(&square, &[0, (self.values << l) as i64])?;
        }
        if self.negative {
            vector = arithmetic.mul_constant(&vector, Complex64::from(-1.0), arithmetic.scale(&vector))?;
        }
        Ok(vector)
    }
}

/// The scale of the result of a program and `depth` squares that end at `level`.
fn result_scale(parameters: &CkksParameters, program: &Program, depth: usize, level: usize) -> f64 {
    let squares = (0..depth).rev().map(|l| parameters.level_modulus(level + l + 1));
    squares.fold(program.scale(parameters), |scale, modulus| scale * scale / modulus)
}

impl AffineMap {
    fn new(
        parameters: &CkksParameters,
        trees: &[&SquareTree],
        leaves: &[Dickson],
        (level, scale): (usize, f64),
        input_scale: f64,
        spread: &dyn Fn(&[f64]) -> Vec<Complex64>,
    ) -> Result<Self, CkksError> {
        // y = 2 r u, with u = (2 x - low - high) / (high - low).
        let both = leaves.iter().zip(trees.iter().cycle());
        let factors: Vec<f64> = both.clone().map(|(leaf, tree)| 4.0 * leaf.ratio / (tree.high - tree.low)).collect();
        let offsets = both.map(|(leaf, tree)| -2.0 * leaf.ratio * (tree.low + tree.high) / (tree.high - tree.low));
        let (factors, offsets) = (spread(&factors), spread(&offsets.collect::<Vec<_>>()));
        let product = scale * parameters.level_modulus(level + 1);
        let factor = PreparedVector::new(factors.clone(), level + 1, product / input_scale)?;
        let offset = PreparedVector::new(offsets.clone(), level + 1, product)?;
        Ok(AffineMap { factors, offsets, level, scale, factor, offset })
    }
}

/// Checks that trees fit each other, the values and the slots. Returns the first.
fn check_shapes<'a>(
    parameters: &CkksParameters,
    trees: &[&'a SquareTree],
    values: usize,
) -> Result<&'a SquareTree, SlimError> {
    let first = *trees.first().ok_or_else(|| shape(OPERATION, "no trees", "at least one"))?;
    if !values.is_power_of_two() || !values.is_multiple_of(trees.len()) {
        let found = format!("{values} values and {} trees", trees.len());
        return Err(shape(OPERATION, found, "values that are a power of two and a multiple of the trees"));
    }
    let slots = parameters.slots();
    if values > slots >> first.depth() {
        let found = format!("{slots} slots");
        let needed = format!("a slot for each of {values} values and {} leaves", 1 << first.depth());
        return Err(shape(OPERATION, found, format!("{needed}; choose fewer values or a smaller depth")));
    }
    let form = |tree: &SquareTree| (tree.degree(), tree.depth(), tree.negative);
    if let Some(other) = trees.iter().find(|tree| form(tree) != form(first)) {
        let describe = |tree: &SquareTree| {
            let sign = if tree.negative { "negative" } else { "positive" };
            format!("a {sign} tree of degree {} and depth {}", tree.degree(), tree.depth())
        };
        return Err(shape(OPERATION, describe(other), format!("{} like the first", describe(first))));
    }
    Ok(first)
}

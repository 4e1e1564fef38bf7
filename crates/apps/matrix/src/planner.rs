//! Choice of parameters, layout and level for a graph.
//!
//! Without options, `Program::plan` tries the tile that holds the largest matrix, and up to 4 times smaller ones that
//! need less padding, with every number of blocks. It plans each at the lowest level that suffices, and selects the
//! plan with the shortest predicted time for the whole batch. The preset is the first of `n15_real_depth11_scale50` and
//! `n15_real_depth17_scale30` that is deep enough and has room. A batch that does not fit in a vector runs in groups.
//! Expressions without products and without sums along one axis need no rows and columns: their matrices are stored as
//! rows of their entries (`Graph::flattened`), in tiles of one row. A reshape then costs nothing, and transposes,
//! selections and `a.ravel()[order]` become permutations of entries, for which the planner of `unspoken-permute` has
//! networks: 4096 entries of a 64 x 64 matrix need about a hundredth of the key switches of square tiles (`cargo run
//! --release -p unspoken-matrix --example permutation -- 64 64`).

use unspoken_ckks::{CkksParameters, NoiseModel};
use unspoken_encrypted_matrix::{
    Budget, EncryptedMatrixError, Graph, Layout, OperationKind, PlanCache, StepOverflow, ValueBounds, plan,
};

use crate::error::MatrixError;
use crate::preset::BuiltPreset;
use crate::shape::{MAX_BATCH, fits_tiles, is_flat};

/// Presets tried in this order if none is named: the first that is deep enough is chosen.
const PRESETS: [&str; 2] = ["n15_real_depth11_scale50", "n15_real_depth17_scale30"];

/// Bits that a result may need above its scale: if the modulus at the lowest level has less room, results stay one
/// level higher.
const HEADROOM_BITS: f64 = 20.0;

/// How many times smaller than the largest matrix a tile may be. Smaller tiles are more in number, but need less
/// padding.
const SMALLEST_TILE: usize = 4;

/// Largest entry of the inputs if none is declared.
const LARGEST: f64 = 1.0;

/// A result must be larger than this many times the noise of one rounding: [`Precision::error`] is at least that.
///
/// [`Precision::error`]: crate::Precision::error
const MIN_DEVIATIONS: f64 = 16.0;

/// Options of the planner. What is left out is chosen for the shortest time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Name of the parameter set.
    pub preset: Option<String>,
    /// Number of matrices in the batch; one if the graph has no batch.
    pub batch: usize,
    /// Maximum number of rotation keys for a product of two matrices.
    pub most_keys: Option<usize>,
    /// Columns of a tile, a power of two; also its rows, unless `one_row` is true.
    pub tile: Option<usize>,
    /// Blocks of the encoding space, a power of two up to the tile.
    pub blocks: Option<usize>,
    /// Whether matrices are stored as rows of their entries, in tiles of one row. This is possible for expressions
    /// without products and without sums along one of two axes, and chosen for them if `tile` and `blocks` are left
    /// out; otherwise tiles are square.
    pub one_row: Option<bool>,
    /// Largest absolute value of an input's entry; 1 if it is left out. The level and the parameter set have room for
    /// all values of a run with such inputs, and others are refused at encryption.
    pub largest: Option<f64>,
    /// Keeps the plans of permutations, which take seconds. It does not change the program.
    pub cache: Option<PlanCache>,
}

impl Options {
    /// Largest absolute value of an input's entry.
    pub(crate) fn largest(&self) -> f64 {
        self.largest.unwrap_or(LARGEST)
    }
}

/// The plan of a graph, for its last node, and the preset.
pub(crate) struct Choice {
    pub(crate) preset: BuiltPreset,
    pub(crate) inner: unspoken_encrypted_matrix::MatrixProgram,
    /// Bound of the absolute value of the result's entries, a power of two.
    pub(crate) magnitude: f64,
}

/// Plans for the first preset with enough levels and room.
pub(crate) fn choose(graph: &Graph, options: &Options) -> Result<Choice, MatrixError> {
    const OPERATION: &str = "plan an expression";
    if graph.nodes().is_empty() {
        return Err(MatrixError::mismatch(OPERATION, "nothing to compute", "an expression of encrypted inputs"));
    }
    if graph.inputs().next().is_none() {
        return Err(MatrixError::mismatch(OPERATION, "no encrypted input", "at least one: numpy does the others"));
    }
    if !(1..=MAX_BATCH).contains(&options.batch) {
        let found = format!("a batch of {}", options.batch);
        return Err(MatrixError::mismatch(OPERATION, found, format!("1 to {MAX_BATCH} matrices")));
    }
    let largest = options.largest();
    if !(largest > 0.0 && largest.is_finite()) {
        let found = format!("largest = {largest}");
        return Err(MatrixError::mismatch(
            OPERATION,
            found,
            "a positive finite number: the largest entry of the inputs",
        ));
    }
    if let Some(name) = &options.preset {
        return with_preset(graph, options, name);
    }
    let (mut too_deep, mut too_large) = (None, None);
    for name in PRESETS {
        match with_preset(graph, options, name) {
            Err(error @ MatrixError::Matrix(EncryptedMatrixError::Depth { .. })) => too_deep = Some(error),
            // The first preset has the most room.
            Err(error @ MatrixError::Magnitude { .. }) => too_large = too_large.or(Some(error)),
            done => return done,
        }
    }
    let none = || MatrixError::mismatch(OPERATION, "no preset", "at least one");
    Err(too_large.or(too_deep).unwrap_or_else(none))
}

/// Plans at the lowest output level at which all values fit.
fn with_preset(graph: &Graph, options: &Options, name: &str) -> Result<Choice, MatrixError> {
    let preset = BuiltPreset::find(name)?;
    let parameters = preset.parameters();
    let room = parameters.log2_modulus(0) - parameters.scale().log2();
    let mut floor = usize::from(room < HEADROOM_BITS);
    let mut overflow = None;
    loop {
        let inner = match cheapest(&preset, graph, options, floor) {
            Err(MatrixError::Matrix(EncryptedMatrixError::Depth { .. })) if overflow.is_some() => {
                return Err(too_large(parameters, options, overflow.as_ref()));
            }
            planned => planned?,
        };
        let batch = options.batch.min(inner.layout().parallel());
        let ValueBounds { output, overflow: found, excess_bits } =
            inner.bounds(parameters, options.largest(), batch)?;
        let Some(found) = found else {
            check_left(&preset, options, &inner, output)?;
            // Clients see it: a power of two says less about constants.
            let magnitude = if output > 0.0 { output.log2().ceil().exp2() } else { 0.0 };
            return Ok(Choice { preset, inner, magnitude });
        };
        // Every level has room for about one scale more.
        let levels = (excess_bits / parameters.scale().log2()).ceil();
        if levels > parameters.max_level() as f64 {
            return Err(too_large(parameters, options, Some(&found)));
        }
        floor += (levels as usize).max(1);
        overflow = Some(found);
    }
}

/// The error of values that do not fit.
fn too_large(parameters: &CkksParameters, options: &Options, overflow: Option<&StepOverflow>) -> MatrixError {
    let (name, largest) = (parameters.name(), options.largest());
    let found = overflow.map_or_else(String::new, |StepOverflow { step, largest: values, excess_bits, level }| {
        format!(
            "step '{step}' with values up to {values:.2e} for inputs up to {largest:e}, too large for preset '{name}' \
             at level {level} by a factor of 2^{excess_bits:.1}"
        )
    });
    let needed = "smaller values: declare the largest entry of the inputs (largest=), or scale inputs or weights down; \
                  or a preset with more levels";
    MatrixError::Magnitude { operation: "plan an expression", found, needed: needed.into() }
}

/// Refuses a result whose entries are below the noise of one rounding.
fn check_left(
    preset: &BuiltPreset,
    options: &Options,
    inner: &unspoken_encrypted_matrix::MatrixProgram,
    magnitude: f64,
) -> Result<(), MatrixError> {
    let parameters = preset.parameters();
    let noise = NoiseModel::new(parameters);
    let rounded = inner.output_level() < inner.level();
    let deviation = if rounded { noise.rounding(2) } else { noise.encryption() } / parameters.scale();
    let least = MIN_DEVIATIONS * deviation;
    // A result of zeros is exact.
    if magnitude == 0.0 || magnitude > least {
        return Ok(());
    }
    let (name, largest) = (parameters.name(), options.largest());
    let found = format!(
        "a result with entries up to {magnitude:.2e} for inputs up to {largest:e}, below the error of preset '{name}'"
    );
    let needed = format!(
        "more than {least:.1e}: scale the inputs or the weights up, and the result down after decryption; or declare \
         the largest entry of the inputs (largest=) if it is larger"
    );
    Err(MatrixError::Magnitude { operation: "plan an expression", found, needed })
}

/// Plans for each layout, and selects the plan with the shortest predicted time for the whole batch. What can be
/// computed on rows of entries that fit a ciphertext is: see [`Graph::flattened`].
fn cheapest(
    preset: &BuiltPreset,
    graph: &Graph,
    options: &Options,
    floor: usize,
) -> Result<unspoken_encrypted_matrix::MatrixProgram, MatrixError> {
    let budget = Budget { most_keys: options.most_keys, cache: options.cache.as_ref() };
    let flat = flattened(graph, options)?;
    let plan_flat = |flat: &Graph| {
        let layout = flat_layout(preset.parameters(), flat, options)?;
        plan_low(preset, flat, layout, (budget, floor))
    };
    // Matrices of several ciphertexts are planned in square tiles first: a search for a permutation of all entries
    // takes seconds for each ciphertext. Rows stay rows.
    let (first, last) = match flat {
        Some(flat) if options.one_row.is_some() || of_rows(graph) || !is_long(&flat, preset.parameters()) => {
            (Some(flat), None)
        }
        flat => (None, flat),
    };
    let mut refused = None;
    if let Some(flat) = first {
        match plan_flat(&flat) {
            Err(error) if options.one_row.is_none() => refused = Some(error),
            done => return done,
        }
    }
    let mut best: Option<(f64, unspoken_encrypted_matrix::MatrixProgram)> = None;
    for layout in layouts(preset.parameters(), graph, options)? {
        match plan_low(preset, graph, layout, (budget, floor)) {
            Ok(program) => {
                let seconds = program.seconds() * options.batch.div_ceil(layout.parallel()) as f64;
                if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                    best = Some((seconds, program));
                }
            }
            // The first layout is the simplest: its error is reported.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match (best, last, refused) {
        (Some((_, program)), ..) => Ok(program),
        (None, Some(flat), _) => plan_flat(&flat),
        (None, None, Some(error)) => Err(error),
        (None, None, None) => {
            let (name, slots) = (preset.parameters().name(), preset.parameters().slots());
            let found = format!("too many tiles for preset '{name}' with {slots} slots");
            Err(MatrixError::mismatch("lay out matrices", found, "larger tiles, or smaller matrices"))
        }
    }
}

/// Plans at the lowest level that suffices for an output level of `floor`: lower levels have smaller keys and faster
/// operations.
fn plan_low(
    preset: &BuiltPreset,
    graph: &Graph,
    layout: Layout,
    (budget, floor): (Budget<'_>, usize),
) -> Result<unspoken_encrypted_matrix::MatrixProgram, MatrixError> {
    let parameters = preset.parameters();
    let mut level = parameters.max_level().min(parameters.circuit_level());
    let mut program = plan(preset.encoder(), graph, layout, level, budget)?;
    // With fewer levels, only methods that need even fewer may remain.
    while program.output_level() > floor {
        level -= program.output_level() - floor;
        match plan(preset.encoder(), graph, layout, level, budget) {
            Ok(lower) => program = lower,
            Err(EncryptedMatrixError::Depth { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if program.output_level() < floor {
        let needed = level + floor - program.output_level();
        let remedy = "use a preset with more levels, or with a smaller scale".to_owned();
        return Err(EncryptedMatrixError::Depth { operation: "the expression", found: level, needed, remedy }.into());
    }
    Ok(program)
}

/// The graph on rows of entries, if it is wanted and possible.
fn flattened(graph: &Graph, options: &Options) -> Result<Option<Graph>, MatrixError> {
    let wanted = options.one_row.unwrap_or(options.tile.is_none() && options.blocks.is_none());
    // Single entries are the same in square tiles.
    let several = |flat: &Graph| flat.nodes().iter().any(|node| node.shape().1 > 1);
    let flat = if wanted { graph.flattened().filter(several) } else { None };
    match options.one_row {
        Some(true) if flat.is_none() => Err(MatrixError::mismatch(
            "plan an expression",
            "an operation that needs rows and columns, in tiles of one row",
            "square tiles (one_row = false), or an expression without products and sums along one axis",
        )),
        _ => Ok(flat),
    }
}

/// Whether all values are rows.
fn of_rows(graph: &Graph) -> bool {
    graph.nodes().iter().all(|node| node.shape().0 == 1)
}

/// Whether a row needs several ciphertexts.
fn is_long(flat: &Graph, parameters: &CkksParameters) -> bool {
    flat.nodes().iter().any(|node| node.shape().1 > parameters.slots())
}

/// The layout of rows of entries.
fn flat_layout(parameters: &CkksParameters, flat: &Graph, options: &Options) -> Result<Layout, MatrixError> {
    let mut shapes = flat.nodes().iter().map(|node| node.shape());
    let longest = shapes.clone().map(|(_, columns)| columns).max().unwrap_or(1);
    let columns = options.tile.unwrap_or(longest.next_power_of_two().min(parameters.slots()));
    let layout = Layout::with_tile(parameters, (1, columns), options.blocks.unwrap_or(1))?;
    if !is_flat(layout) && longest > 1 {
        return Err(MatrixError::mismatch(
            "lay out matrices",
            "tiles of one entry as tiles of one row",
            "2 columns or more",
        ));
    }
    match shapes.find(|&shape| !fits_tiles(layout, shape)) {
        None => Ok(layout),
        Some((_, columns)) => {
            let found = format!("{} tiles for {columns} entries", layout.tiles((1, columns)));
            Err(MatrixError::mismatch("lay out matrices", found, "larger tiles, or smaller matrices"))
        }
    }
}

/// Candidate layouts in square tiles, simplest first.
fn layouts(parameters: &CkksParameters, graph: &Graph, options: &Options) -> Result<Vec<Layout>, MatrixError> {
    let shapes: Vec<_> = graph.nodes().iter().map(|node| node.shape()).collect();
    let tiles = options.tile.map_or_else(|| tiles(parameters, &shapes), |tile| vec![tile]);
    // Only products of two encrypted matrices can use slots besides the tile.
    let multiplies = graph.nodes().iter().any(|node| node.operation().kind() == OperationKind::MatMul);
    let blocks = |tile: usize| {
        let most =
            if multiplies { (parameters.slots() / tile.saturating_pow(2).max(1)).clamp(1, tile.max(1)) } else { 1 };
        options.blocks.map_or_else(|| powers(1, most).collect(), |blocks| vec![blocks])
    };
    let candidates = tiles.into_iter().flat_map(|tile| blocks(tile).into_iter().map(move |blocks| (tile, blocks)));
    let (mut layouts, mut refused) = (Vec::new(), None);
    for (tile, blocks) in candidates {
        match Layout::new(parameters, tile, blocks) {
            Ok(layout) if shapes.iter().all(|&shape| fits_tiles(layout, shape)) => layouts.push(layout),
            Ok(_) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if layouts.is_empty() => Err(error.into()),
        _ => Ok(layouts),
    }
}

/// The tile that holds the largest matrix, if one can, and smaller ones that need less padding.
fn tiles(parameters: &CkksParameters, shapes: &[(usize, usize)]) -> Vec<usize> {
    let extent = shapes.iter().map(|&(rows, columns)| rows.max(columns)).max().unwrap_or(1);
    let most = extent.next_power_of_two().min(1 << (parameters.slots().ilog2() / 2));
    let padded = |tile: usize| {
        let up = |extent: usize| extent.next_multiple_of(tile);
        shapes.iter().map(|&(rows, columns)| up(rows) * up(columns)).sum::<usize>()
    };
    let mut tiles: Vec<usize> = Vec::new();
    for tile in powers(most.div_ceil(SMALLEST_TILE), most).rev() {
        if tiles.last().is_none_or(|&last| padded(tile) < padded(last)) {
            tiles.push(tile);
        }
    }
    tiles
}

fn powers(from: usize, to: usize) -> impl DoubleEndedIterator<Item = usize> {
    let (from, to) = (from.next_power_of_two().ilog2(), to.max(1).ilog2());
    (from..=to).map(|log2| 1 << log2)
}

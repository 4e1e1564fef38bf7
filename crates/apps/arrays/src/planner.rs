//! Choice of parameters, layout and level for a graph.

use unspoken_ckks::CkksParameters;
use unspoken_matrix::{Budget, Graph, Layout, MatrixError, OperationKind, plan};

use crate::error::ArraysError;
use crate::preset::BuiltPreset;
use crate::shape::{MAX_BATCH, fits_tiles};

/// Presets tried in this order if none is named: the first that is deep enough is chosen.
const PRESETS: [&str; 2] = ["n15_real_depth11_scale50", "n15_real_depth17_scale30"];

/// Bits that a result may need above its scale: if the modulus at the lowest level has less room, results stay one
/// level higher.
const HEADROOM_BITS: f64 = 20.0;

/// How many times smaller than the largest matrix a tile may be. Smaller tiles are more in number, but need less
/// padding.
const SMALLEST_TILE: usize = 4;

/// Options of the planner. What is left out is chosen for the shortest time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Name of the parameter set.
    pub preset: Option<String>,
    /// Number of matrices in the batch; one if the graph has no batch.
    pub batch: usize,
    /// Maximum number of rotation keys for a product of two matrices.
    pub most_keys: Option<usize>,
    /// Rows and columns of a tile, a power of two.
    pub tile: Option<usize>,
    /// Blocks of the encoding space, a power of two up to the tile.
    pub blocks: Option<usize>,
}

/// The plan of a graph, for its last node, and the preset.
pub(crate) struct Choice {
    pub(crate) preset: BuiltPreset,
    pub(crate) inner: unspoken_matrix::Program,
}

/// Plans for each layout, and selects the plan with the shortest predicted time for the whole batch.
pub(crate) fn choose(graph: &Graph, options: &Options) -> Result<Choice, ArraysError> {
    const OPERATION: &str = "plan an expression";
    if graph.nodes().is_empty() {
        return Err(ArraysError::mismatch(OPERATION, "nothing to compute", "an expression of encrypted inputs"));
    }
    if graph.inputs().next().is_none() {
        return Err(ArraysError::mismatch(OPERATION, "no encrypted input", "at least one: numpy does the others"));
    }
    if !(1..=MAX_BATCH).contains(&options.batch) {
        let found = format!("a batch of {}", options.batch);
        return Err(ArraysError::mismatch(OPERATION, found, format!("1 to {MAX_BATCH} matrices")));
    }
    if let Some(name) = &options.preset {
        return with_preset(graph, options, name);
    }
    let mut last = None;
    for name in PRESETS {
        match with_preset(graph, options, name) {
            Err(error @ ArraysError::Matrix(MatrixError::Depth { .. })) => last = Some(error),
            done => return done,
        }
    }
    Err(last.unwrap_or_else(|| ArraysError::mismatch(OPERATION, "no preset", "at least one")))
}

fn with_preset(graph: &Graph, options: &Options, name: &str) -> Result<Choice, ArraysError> {
    let preset = BuiltPreset::find(name)?;
    let budget = Budget { most_keys: options.most_keys };
    let mut best: Option<(f64, unspoken_matrix::Program)> = None;
    let mut refused = None;
    for layout in layouts(preset.parameters(), graph, options)? {
        match plan_low(&preset, graph, layout, budget) {
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
    match (best, refused) {
        (Some((_, inner)), _) => Ok(Choice { preset, inner }),
        (None, Some(error)) => Err(error),
        (None, None) => {
            let found = format!("too many tiles for preset '{name}' with {} slots", preset.parameters().slots());
            Err(ArraysError::mismatch("lay out matrices", found, "larger tiles, or smaller matrices"))
        }
    }
}

/// Plans at the lowest level that suffices: lower levels have smaller keys and faster operations.
fn plan_low(
    preset: &BuiltPreset,
    graph: &Graph,
    layout: Layout,
    budget: Budget,
) -> Result<unspoken_matrix::Program, ArraysError> {
    let parameters = preset.parameters();
    let room = parameters.log2_modulus(0) - parameters.scale().log2();
    let floor = usize::from(room < HEADROOM_BITS);
    let mut level = parameters.max_level().min(parameters.circuit_level());
    let mut program = plan(preset.encoder(), graph, layout, level, budget)?;
    // With fewer levels, only methods that need even fewer may remain.
    while program.output_level() > floor {
        level -= program.output_level() - floor;
        match plan(preset.encoder(), graph, layout, level, budget) {
            Ok(lower) => program = lower,
            Err(MatrixError::Depth { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if program.output_level() < floor {
        let needed = level + floor - program.output_level();
        let remedy = "use a preset with more levels, or with a smaller scale".to_owned();
        return Err(MatrixError::Depth { operation: "the expression", found: level, needed, remedy }.into());
    }
    Ok(program)
}

/// Candidate layouts, simplest first.
fn layouts(parameters: &CkksParameters, graph: &Graph, options: &Options) -> Result<Vec<Layout>, ArraysError> {
    let shapes: Vec<_> = graph.nodes().iter().map(|node| node.shape()).collect();
    let tiles = options.tile.map_or_else(|| tiles(parameters, &shapes), |tile| vec![tile]);
    // Only products of two encrypted matrices can use slots besides the tile.
    let multiplies = graph.nodes().iter().any(|node| node.operation().kind() == OperationKind::MatMul);
    let (mut layouts, mut refused) = (Vec::new(), None);
    for tile in tiles {
        let most =
            if multiplies { (parameters.slots() / tile.saturating_pow(2).max(1)).clamp(1, tile.max(1)) } else { 1 };
        let blocks = options.blocks.map_or_else(|| powers(1, most).collect(), |blocks| vec![blocks]);
        for blocks in blocks {
            match Layout::new(parameters, tile, blocks) {
                Ok(layout) if shapes.iter().all(|&shape| fits_tiles(layout, shape)) => layouts.push(layout),
                Ok(_) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
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

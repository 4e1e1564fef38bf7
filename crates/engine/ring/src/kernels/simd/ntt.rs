//! The number-theoretic transform as passes over strips.
//!
//! A limb of `n` residues is a matrix in row-major order. The first stages combine rows: they run on tiles of [`TILE`]
//! columns at a time, which stay in the first-level cache. The stages inside a row run on whole vectors while
//! butterflies span at least one vector, and then on transposed squares. So each residue moves between the second-level
//! and the first-level cache twice. Lazy butterflies (Harvey) keep values in `[0, 4q)` forward and in `[0, 2q)`
//! backward.

use std::mem::MaybeUninit;

use zeroize::optimization_barrier;

use super::vector::{Factor, Prime, Vector};
use crate::modular::{Modulus, Shoup};
use crate::ntt::{LaneRoots, NttTable};

/// Columns of a tile: the words of a cache line.
const TILE: usize = 16;

/// Most rows of a limb, so that a tile is 16 KiB.
const MAX_ROWS: usize = 256;

/// Columns of a limb with several rows, if that gives at most [`MAX_ROWS`] rows.
const COLUMNS: usize = 256;

/// A limb up to this degree is a single row.
const SINGLE_ROW: usize = 4096;

/// The columns of a limb of `degree` residues.
fn columns_of(degree: usize) -> usize {
    if degree <= SINGLE_ROW { degree } else { COLUMNS.max(degree / MAX_ROWS) }
}

/// Most vectors that one network combines in registers: with 16, compilers spill even on 32 registers.
const MAX_RADIX: usize = 8;

/// Memory for the tiles of a limb. The limb may be secret, so the memory is wiped when it is dropped.
#[repr(C, align(64))]
struct TileBuffer {
    words: [MaybeUninit<u32>; TILE * MAX_ROWS],
    rows: usize,
}

impl TileBuffer {
    /// A buffer for tiles of `rows` rows, at most [`MAX_ROWS`]. It is not initialised: the first pass over a tile
    /// writes all of it.
    #[inline(always)]
    fn new(rows: usize) -> Self {
        assert!(rows <= MAX_ROWS);
        TileBuffer { words: [MaybeUninit::uninit(); TILE * MAX_ROWS], rows }
    }

    #[inline(always)]
    fn strip(&mut self) -> Strip {
        Strip { first: self.words.as_mut_ptr().cast(), stride: TILE, rows: self.rows, width: TILE }
    }
}

impl Drop for TileBuffer {
    fn drop(&mut self) {
        self.words[..self.rows * TILE].fill(MaybeUninit::new(0));
        optimization_barrier(&self.words);
    }
}

/// Forward transform of limbs under one prime. Each row is processed for all limbs, so that its roots are read once.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn forward<V: Vector>(table: &NttTable, limbs: &mut [&mut [u32]]) {
    limbs.iter().for_each(|limb| check_shape::<V>(table, limb));
    let columns = columns_of(table.degree);
    let rows = table.degree / columns;
    // SAFETY: the caller vouches for the instruction set. By `check_shape` a limb is `rows * columns` words long, both
    // powers of two, with `columns` a multiple of `TILE` and of a square. The buffer has `rows` rows of `TILE` words,
    // and passes write what they read later.
    unsafe {
        let prime = Prime::<V>::new(&table.modulus);
        if rows > 1 {
            let mut buffer = TileBuffer::new(rows);
            for limb in limbs.iter_mut() {
                for column in (0..columns).step_by(TILE) {
                    let strip = Strip { first: limb.as_mut_ptr().add(column), stride: columns, rows, width: TILE };
                    forward_stages(&prime, &table.forward, 1, strip, buffer.strip());
                }
            }
        }
        for row in 0..rows {
            for limb in limbs.iter_mut() {
                let residues = &mut limb[row * columns..][..columns];
                let strip = Strip::of_vectors::<V>(residues);
                forward_stages(&prime, &table.forward, rows + row, strip, strip);
                forward_squares(&prime, &table.forward_tail, row, residues);
            }
        }
    }
}

/// Inverse transform times `scale`, in place; or of `source` into `limb`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn inverse<V: Vector>(table: &NttTable, source: Option<&[u32]>, limb: &mut [u32], scale: Shoup) {
    check_shape::<V>(table, limb);
    source.iter().for_each(|source| check_shape::<V>(table, source));
    let columns = columns_of(table.degree);
    let rows = table.degree / columns;
    // SAFETY: as for `forward`.
    unsafe {
        let prime = Prime::<V>::new(&table.modulus);
        let last = Scaled::new(&table.modulus, table.inverse[1], scale);
        for row in 0..rows {
            let residues = &mut limb[row * columns..][..columns];
            let source = source.map(|source| &source[row * columns..][..columns]);
            inverse_squares(&prime, &table.inverse_tail, row, source, residues);
            let strip = Strip::of_vectors::<V>(residues);
            inverse_stages(&prime, &table.inverse, rows + row, strip, strip, (rows == 1).then_some(last));
        }
        if rows > 1 {
            let mut buffer = TileBuffer::new(rows);
            for column in (0..columns).step_by(TILE) {
                let strip = Strip { first: limb.as_mut_ptr().add(column), stride: columns, rows, width: TILE };
                inverse_stages(&prime, &table.inverse, 1, strip, buffer.strip(), Some(last));
            }
        }
    }
}

/// Checks every condition that the memory safety of the transforms relies on.
fn check_shape<V: Vector>(table: &NttTable, limb: &[u32]) {
    let (degree, lanes) = (table.degree, V::LANES);
    assert!(degree.is_power_of_two() && degree >= 2 * lanes * lanes && table.lanes == lanes && limb.len() == degree);
    let tail = degree / (lanes * lanes) * LaneRoots::words_per_group(lanes);
    for (roots, lane_roots) in [(&table.forward, &table.forward_tail), (&table.inverse, &table.inverse_tail)] {
        assert!(roots.len() == degree / lanes && lane_roots.words().len() == tail);
    }
}

/// `rows` rows of `width` words, each `stride` words after the one before. The transform runs down the rows, on all
/// columns at once.
///
/// Functions that take strips require that they are valid for reads and writes, that `rows` is a power of two, and
/// that `width` is a multiple of the lanes.
#[derive(Clone, Copy)]
struct Strip {
    first: *mut u32,
    stride: usize,
    rows: usize,
    width: usize,
}

impl Strip {
    /// A strip with one vector per row.
    fn of_vectors<V: Vector>(residues: &mut [u32]) -> Strip {
        let (stride, rows) = (V::LANES, residues.len() / V::LANES);
        Strip { first: residues.as_mut_ptr(), stride, rows, width: stride }
    }

    /// # Safety
    /// `row` and `column` are inside the strip (checked in debug builds).
    #[inline(always)]
    unsafe fn at(&self, row: usize, column: usize) -> *mut u32 {
        debug_assert!(row < self.rows && column < self.width);
        // SAFETY: the caller vouches for the position; strips are valid memory.
        unsafe { self.first.add(row * self.stride + column) }
    }
}

/// The radices for `rows` rows: the least number of passes, each of at most [`MAX_RADIX`] rows and of about equal
/// radix. Returns the radix of the pass over the longest distances and the radix of the pass over the shortest
/// distances. The second radix is the larger one, because its pass has more blocks to set up.
fn radices(rows: usize) -> (usize, usize) {
    let stages = rows.ilog2();
    let passes = stages.div_ceil(MAX_RADIX.ilog2());
    (1 << (stages / passes), 1 << stages.div_ceil(passes))
}

/// All forward stages down the rows of a block with root number `root`. The first pass reads `strip` and the last
/// writes it; between the passes the data is in `work`, which may be `strip`.
///
/// # Safety
/// See [`Strip`].
#[inline(always)]
unsafe fn forward_stages<V: Vector>(prime: &Prime<V>, roots: &[Shoup], root: usize, strip: Strip, work: Strip) {
    let mut blocks = 1;
    while blocks < strip.rows {
        let (radix, _) = radices(strip.rows / blocks);
        let from = if blocks == 1 { strip } else { work };
        let to = if blocks * radix == strip.rows { strip } else { work };
        // SAFETY: the caller vouches for the strips.
        unsafe {
            match radix {
                8 => pass::<V, 8>(prime, Forward, roots, root * blocks, blocks, from, to),
                4 => pass::<V, 4>(prime, Forward, roots, root * blocks, blocks, from, to),
                _ => pass::<V, 2>(prime, Forward, roots, root * blocks, blocks, from, to),
            }
        }
        blocks *= radix;
    }
}

/// The inverse of [`forward_stages`]. With `last`, the block is the whole limb and its last pass multiplies by the
/// scale.
///
/// # Safety
/// As for [`forward_stages`].
#[inline(always)]
unsafe fn inverse_stages<V: Vector>(
    prime: &Prime<V>,
    roots: &[Shoup],
    root: usize,
    strip: Strip,
    work: Strip,
    last: Option<Scaled<V>>,
) {
    let mut blocks = strip.rows;
    while blocks > 1 {
        let (_, radix) = radices(blocks);
        let from = if blocks == strip.rows { strip } else { work };
        blocks /= radix;
        let to = if blocks == 1 { strip } else { work };
        // SAFETY: the caller vouches for the strips.
        unsafe {
            match (radix, last.filter(|_| blocks == 1)) {
                (8, None) => pass::<V, 8>(prime, Inverse, roots, root * blocks, blocks, from, to),
                (4, None) => pass::<V, 4>(prime, Inverse, roots, root * blocks, blocks, from, to),
                (_, None) => pass::<V, 2>(prime, Inverse, roots, root * blocks, blocks, from, to),
                (8, Some(last)) => pass::<V, 8>(prime, last, roots, root, 1, from, to),
                (4, Some(last)) => pass::<V, 4>(prime, last, roots, root, 1, from, to),
                (_, Some(last)) => pass::<V, 2>(prime, last, roots, root, 1, from, to),
            }
        }
    }
}

/// `log2 K` stages on each of `blocks` blocks, whose root numbers start at `root`.
///
/// # Safety
/// See [`Strip`]; both strips have the same shape; `blocks * K` divides the rows.
#[inline(always)]
unsafe fn pass<V: Vector, const K: usize>(
    prime: &Prime<V>,
    network: impl Network<V>,
    roots: &[Shoup],
    root: usize,
    blocks: usize,
    from: Strip,
    to: Strip,
) {
    let distance = from.rows / (blocks * K);
    for (block, roots) in SharedRoots::<K>::of_blocks(roots, root, blocks).enumerate() {
        for row in block * K * distance..(block * K + 1) * distance {
            for column in (0..from.width).step_by(V::LANES) {
                let mut x = [prime.q; K];
                for (k, x) in x.iter_mut().enumerate() {
                    // SAFETY: `row + k * distance` is inside the block.
                    *x = unsafe { V::load_from(from.at(row + k * distance, column)) };
                }
                network.run(prime, roots, &mut x);
                for (k, x) in x.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { x.store_to(to.at(row + k * distance, column)) };
                }
            }
        }
    }
}

/// The last stages of a row, inside blocks of `LANES` residues. Inputs are in `[0, 4q)`, results are canonical.
///
/// # Safety
/// `residues` is a whole number of squares, and `roots` covers rows `0..=row` of its length.
#[inline(always)]
unsafe fn forward_squares<V: Vector>(prime: &Prime<V>, roots: &LaneRoots, row: usize, residues: &mut [u32]) {
    let squares = residues.len() / (V::LANES * V::LANES);
    for (i, square) in residues.chunks_exact_mut(V::LANES * V::LANES).enumerate() {
        // SAFETY: the square has its length, and the caller vouches for the roots.
        unsafe {
            let mut x = load_square(prime, square);
            V::transpose(&mut x);
            Forward.run(prime, PerLane::of_group(roots, row * squares + i, prime), x.as_mut());
            for x in x.as_mut() {
                *x = prime.canonical_from_4q(*x);
            }
            V::transpose(&mut x);
            store_square::<V>(&x, square);
        }
    }
}

/// The first stages of an inverse row, inside blocks of `LANES` residues, in place or of `source`. Results are in
/// `[0, 2q)`.
///
/// # Safety
/// As for [`forward_squares`].
#[inline(always)]
unsafe fn inverse_squares<V: Vector>(
    prime: &Prime<V>,
    roots: &LaneRoots,
    row: usize,
    source: Option<&[u32]>,
    residues: &mut [u32],
) {
    let size = V::LANES * V::LANES;
    let squares = residues.len() / size;
    for (i, square) in residues.chunks_exact_mut(size).enumerate() {
        let from = source.map_or(&*square, |source| &source[i * size..][..size]);
        // SAFETY: the squares have their length, and the caller vouches for the roots.
        unsafe {
            let mut x = load_square(prime, from);
            V::transpose(&mut x);
            Inverse.run(prime, PerLane::of_group(roots, row * squares + i, prime), x.as_mut());
            V::transpose(&mut x);
            store_square::<V>(&x, square);
        }
    }
}

/// # Safety
/// `words` holds `LANES * LANES` words.
#[inline(always)]
unsafe fn load_square<V: Vector>(prime: &Prime<V>, words: &[u32]) -> V::Square {
    let mut x = prime.q.square();
    for (i, x) in x.as_mut().iter_mut().enumerate() {
        // SAFETY: the caller vouches for the length, `prime` for the instruction set.
        *x = unsafe { V::load(words, i * V::LANES) };
    }
    x
}

/// # Safety
/// `words` holds `LANES * LANES` words.
#[inline(always)]
unsafe fn store_square<V: Vector>(x: &V::Square, words: &mut [u32]) {
    for (i, x) in x.as_ref().iter().enumerate() {
        // SAFETY: the caller vouches for the length.
        unsafe { x.store(words, i * V::LANES) };
    }
}

/// A source of the roots of a network.
trait Roots<V: Vector>: Copy {
    /// The root of part `part` of the `2^stage` parts of the block. Panics if there is no such root; in a network both
    /// arguments are constants, so the check is done at compile time.
    fn root(self, stage: u32, part: usize) -> Factor<V>;
}

/// Roots that all lanes share, for a network on `K` vectors: root number `root` and its descendants in the tree of
/// `log2 K` stages. All their numbers are below `roots.len()`.
#[derive(Clone, Copy)]
struct SharedRoots<'a, const K: usize> {
    roots: &'a [Shoup],
    root: usize,
}

impl<'a, const K: usize> SharedRoots<'a, K> {
    /// The roots of each of `blocks` blocks, from number `root` on. Checks that the roots of the last stage, whose
    /// numbers are the largest, exist.
    #[inline(always)]
    fn of_blocks(roots: &'a [Shoup], root: usize, blocks: usize) -> impl Iterator<Item = Self> {
        let end = root.saturating_add(blocks);
        assert!(end.saturating_mul(K / 2) <= roots.len());
        (root..end).map(move |root| SharedRoots { roots, root })
    }
}

impl<V: Vector, const K: usize> Roots<V> for SharedRoots<'_, K> {
    #[inline(always)]
    fn root(self, stage: u32, part: usize) -> Factor<V> {
        assert!(stage < K.ilog2() && part < 1 << stage);
        // SAFETY: networks run on values of `V`. The number is below `(root + 1) * 2^stage`, and `2^stage` is at most
        // `K / 2`: `of_blocks` has checked the length.
        unsafe { Factor::splat(*self.roots.get_unchecked((self.root << stage) + part)) }
    }
}

/// Roots that differ per lane: each lane has the roots of its own block.
#[derive(Clone, Copy)]
struct PerLane<'a> {
    words: &'a [u32],
}

impl<'a> PerLane<'a> {
    #[inline(always)]
    fn of_group<V: Vector>(roots: &'a LaneRoots, group: usize, _: &Prime<V>) -> Self {
        let length = LaneRoots::words_per_group(V::LANES);
        PerLane { words: &roots.words()[group * length..][..length] }
    }
}

impl<V: Vector> Roots<V> for PerLane<'_> {
    #[inline(always)]
    fn root(self, stage: u32, part: usize) -> Factor<V> {
        assert!(stage < V::LANES.ilog2() && part < 1 << stage);
        let entry = (1 << stage) - 1 + part;
        // SAFETY: networks run on values of `V`. `words` is a whole group, which holds the entries of `log2 LANES`
        // stages.
        unsafe { Factor::load(self.words, entry * 2 * V::LANES) }
    }
}

/// A butterfly network on 2, 4, 8 or (for a square) 16 vectors.
trait Network<V: Vector>: Copy {
    fn run(self, prime: &Prime<V>, roots: impl Roots<V>, x: &mut [V]);
}

/// The forward network. Values are in `[0, 4q)`.
#[derive(Clone, Copy)]
struct Forward;

/// The inverse network. Values are in `[0, 2q)`.
#[derive(Clone, Copy)]
struct Inverse;

/// [`Inverse`] whose last stage multiplies by a scale; results are canonical.
#[derive(Clone, Copy)]
struct Scaled<V: Vector> {
    scale: Factor<V>,
    scaled_root: Factor<V>,
}

impl<V: Vector> Scaled<V> {
    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn new(modulus: &Modulus, root: Shoup, scale: Shoup) -> Self {
        let scaled_root = modulus.shoup(modulus.mul(root.value, scale.value));
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Scaled { scale: Factor::splat(scale), scaled_root: Factor::splat(scaled_root) } }
    }
}

impl<V: Vector> Network<V> for Forward {
    #[inline(always)]
    fn run(self, prime: &Prime<V>, roots: impl Roots<V>, x: &mut [V]) {
        let stages = x.len().ilog2();
        if stages >= 4 {
            forward_stage::<V, 8>(prime, roots, stages - 4, x);
        }
        if stages >= 3 {
            forward_stage::<V, 4>(prime, roots, stages - 3, x);
        }
        if stages >= 2 {
            forward_stage::<V, 2>(prime, roots, stages - 2, x);
        }
        forward_stage::<V, 1>(prime, roots, stages - 1, x);
    }
}

impl<V: Vector> Network<V> for Inverse {
    #[inline(always)]
    fn run(self, prime: &Prime<V>, roots: impl Roots<V>, x: &mut [V]) {
        let stages = x.len().ilog2();
        inverse_stage::<V, 1>(prime, roots, stages - 1, x);
        if stages >= 2 {
            inverse_stage::<V, 2>(prime, roots, stages - 2, x);
        }
        if stages >= 3 {
            inverse_stage::<V, 4>(prime, roots, stages - 3, x);
        }
        if stages >= 4 {
            inverse_stage::<V, 8>(prime, roots, stages - 4, x);
        }
    }
}

impl<V: Vector> Network<V> for Scaled<V> {
    #[inline(always)]
    fn run(self, prime: &Prime<V>, roots: impl Roots<V>, x: &mut [V]) {
        let stages = x.len().ilog2();
        if stages >= 2 {
            inverse_stage::<V, 1>(prime, roots, stages - 1, x);
        }
        if stages >= 3 {
            inverse_stage::<V, 2>(prime, roots, stages - 2, x);
        }
        if stages >= 4 {
            inverse_stage::<V, 4>(prime, roots, stages - 3, x);
        }
        let half = x.len() / 2;
        for i in 0..half {
            let (u, v) = (x[i], x[i + half]);
            x[i] = prime.mul(u.add(v), self.scale);
            x[i + half] = prime.mul(u.add(prime.twice).sub(v), self.scaled_root);
        }
    }
}

/// The stage of butterflies at distance `HALF`.
#[inline(always)]
fn forward_stage<V: Vector, const HALF: usize>(prime: &Prime<V>, roots: impl Roots<V>, stage: u32, x: &mut [V]) {
    for (part, x) in x.chunks_exact_mut(2 * HALF).enumerate() {
        let root = roots.root(stage, part);
        for i in 0..HALF {
            (x[i], x[i + HALF]) = prime.forward(x[i], x[i + HALF], root);
        }
    }
}

/// The inverse of [`forward_stage`].
#[inline(always)]
fn inverse_stage<V: Vector, const HALF: usize>(prime: &Prime<V>, roots: impl Roots<V>, stage: u32, x: &mut [V]) {
    for (part, x) in x.chunks_exact_mut(2 * HALF).enumerate() {
        let root = roots.root(stage, part);
        for i in 0..HALF {
            (x[i], x[i + HALF]) = prime.inverse(x[i], x[i + HALF], root);
        }
    }
}

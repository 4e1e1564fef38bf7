//! Sums over tables, and over images of keys.

use unspoken_device::kernel::{
    self, BYTE_TILE, ByteArgs, ChangeArgs, GatherItem, OrbitArgs, RaiseArgs, TABLE_COLUMNS, TableArgs, WINDOW_QUERIES,
    WindowArgs,
};

use super::ring::DeviceRing;
use super::transform::several;
use crate::basis::Basis;
use crate::byte_table::{ByteChanges, ByteFactors};
use crate::error::RingError;
use crate::kernels::TABLE_BLOCK;
use crate::memory::Words;
use crate::orbit::{OrbitShape, OrbitTable};
use crate::poly::Poly;
use crate::ring::Ring;
use crate::stored::Stored;
use crate::table::{TableFactors, TableShape};

impl DeviceRing {
    /// The limbs of factors, `[prime][row][component]`.
    pub(crate) fn table_factors(&self, ring: &Ring, chain: usize, factors: &[[&Poly; 2]]) -> Result<Words, RingError> {
        let item = |poly: &Poly| Ok(GatherItem { plus: self.limbs(poly)?.words, minus: 0, galois: 1, unused: 0 });
        let items = factors.iter().flatten().copied().map(item).collect::<Result<Vec<_>, RingError>>()?;
        self.gathered(ring, Basis::chain(chain), &items)
    }

    /// Both components of the sums of some columns of a table.
    pub(crate) fn table_sums(
        &self,
        ring: &Ring,
        (shape, words): (TableShape, Stored<'_, u32>),
        columns: std::ops::Range<usize>,
        factors: &TableFactors,
    ) -> Result<Vec<[Poly; 2]>, RingError> {
        let out = self.blanks(ring, Basis::chain(shape.chain), 2 * columns.len())?;
        let list = self.addresses(&out)?;
        let arguments = TableArgs {
            ring: self.ring,
            table: words.on(&self.device)?.address(),
            factors: factors.words.on(&self.device)?.address(),
            out: list.address(),
            rows: shape.rows as u32,
            columns: shape.columns as u32,
            first: columns.start as u32,
            count: columns.len() as u32,
        };
        let blocks = [columns.len().div_ceil(TABLE_COLUMNS), ring.degree() / TABLE_BLOCK, shape.chain];
        self.launch(kernel::TABLE_SUMS, blocks, &arguments)?;
        let mut out = out.into_iter();
        Ok(std::iter::from_fn(|| Some([out.next()?, out.next()?])).collect())
    }

    /// For each query the sums over the rows of a table of bytes, as polynomials over all primes of the chain.
    pub(crate) fn byte_sums(
        &self,
        ring: &Ring,
        bytes: Stored<'_, u8>,
        factors: &ByteFactors,
        (changes, modulus): (&ByteChanges, u64),
    ) -> Result<Vec<Poly>, RingError> {
        let (n, queries, primes) = (ring.degree(), factors.queries(), ring.chain().len());
        let mut sums = self.device.buffer(queries * n)?;
        sums.clear()?;
        let words = factors.words.on(&self.device)?.address();
        let arguments = ByteArgs {
            bytes: bytes.on(&self.device)?.address(),
            factors: words,
            sums: sums.address(),
            rows: factors.rows() as u32,
            columns: n as u32,
            queries: queries as u32,
            stride: factors.stride() as u32,
        };
        let [columns, rows, together] = BYTE_TILE;
        let blocks = [n.div_ceil(columns), factors.rows().div_ceil(rows), queries.div_ceil(together)];
        self.launch(kernel::BYTE_SUMS, blocks, &arguments)?;
        let changed = changes.places().len();
        if changed > 0 {
            let places = self.device.upload(changes.places())?;
            let differences = self.device.upload(changes.differences())?;
            let arguments = ChangeArgs {
                places: places.address(),
                differences: differences.address(),
                changes: changed as u32,
                length: changes.length() as u32,
                step: changes.step() as u32,
                factors: words,
                sums: sums.address(),
                columns: n as u32,
                stride: factors.stride() as u32,
            };
            let blocks = (changed * changes.length()).div_ceil(kernel::THREADS);
            self.launch(kernel::BYTE_CHANGES, [blocks, queries, 1], &arguments)?;
        }
        let basis = Basis::chain(primes);
        let raised = self.words(ring, primes * queries)?;
        let place = raised.on(&self.device)?.address();
        let arguments = RaiseArgs {
            ring: self.ring,
            sums: sums.address(),
            out: place,
            primes: primes as u32,
            queries: queries as u32,
            modulus,
        };
        self.launch(kernel::RAISE_SUMS, self.blocks(ring, kernel::THREADS, queries), &arguments)?;
        self.forward(ring, &several(self.basis(basis), queries), primes * queries, place, false)?;
        self.scattered(ring, basis, &raised, queries)
    }

    /// The values of a key over chain primes in orbit order, each half twice.
    pub(crate) fn orbit_table(&self, ring: &Ring, key: &Poly) -> Result<Words, RingError> {
        let (n, primes) = (ring.degree(), key.basis.chain);
        let words = self.memory(ring, 2 * n * primes)?;
        let arguments =
            OrbitArgs { ring: self.ring, source: self.limbs(key)?.words, out: words.on(&self.device)?.address() };
        self.launch(kernel::ORBIT_KEY, [(2 * n).div_ceil(kernel::THREADS), primes, 1], &arguments)?;
        Ok(words)
    }

    /// For each query the sum over lists of factors times images of the list's key.
    pub(crate) fn orbit_sums(
        &self,
        ring: &Ring,
        (shape, words): (OrbitShape, Stored<'_, u32>),
        keys: &[&[OrbitTable]],
    ) -> Result<Vec<Poly>, RingError> {
        let queries = keys.first().map_or(0, |keys| keys.len());
        let out = self.blanks(ring, Basis::chain(shape.chain), queries)?;
        let sources = keys.iter().copied().flatten().map(|key| Ok(key.words.on(&self.device)?.address()));
        let targets = out.iter().map(|poly| Ok(self.limbs(poly)?.words));
        let vectors = self.device.upload(&sources.chain(targets).collect::<Result<Vec<_>, RingError>>()?)?;
        let arguments = WindowArgs {
            ring: self.ring,
            factors: words.on(&self.device)?.address(),
            vectors: vectors.address(),
            lists: keys.len() as u32,
            count: shape.factors as u32,
            primes: shape.chain as u32,
            queries: queries as u32,
        };
        let blocks = [ring.degree() / TABLE_BLOCK, shape.chain, queries.div_ceil(WINDOW_QUERIES)];
        self.launch(kernel::WINDOW_SUMS, blocks, &arguments)?;
        Ok(out)
    }
}

//! The sums over the rows of a table, compared with the same code without vector instructions.

use unspoken_ring::{Backend, DeviceCopy, Poly, Ring, RingError, RingKind, RingLiteral, SecretRng, Stored};

use super::Size;
use super::table::Table;
use crate::clock::{TimedOperation, alternate};
use crate::error::wrong;
use crate::harness::Harness;
use crate::row::{Metric, params};

const ROW_SUMS: Metric = Metric::less("row_sums", "s");

/// Number of columns whose sums are compared: the coefficients of all columns of a large table would need a GB.
const COMPARED: usize = 64;

/// Number of columns summed at once, as in an answer.
const AT_ONCE: usize = 512;

/// Measures on one thread. All backends read the same words and must find the same sums, which are compared for the
/// first columns.
pub(super) fn run(harness: &mut Harness<'_>, size: Size, table: &Table) -> anyhow::Result<()> {
    harness.progress(format!("{}: sums over rows", size.name));
    let ring: &Ring = table.parameters.ring();
    let literal = RingLiteral {
        degree: ring.degree(),
        kind: RingKind::Standard,
        chain: ring.chain().to_vec(),
        terminal: vec![],
        special: vec![],
        digit_len: 1,
    };
    let available = Backend::ALL.into_iter().filter(|backend| backend.is_available());
    let rings: Vec<Ring> = available.map(|backend| Ring::new(literal.clone(), backend)).collect::<Result<_, _>>()?;
    let all: Vec<BackendInputs<'_>> = rings.iter().map(|ring| BackendInputs::new(ring, table)).collect();
    check(size, &all)?;
    let stopwatch = harness.stopwatch();
    let mut operations: Vec<TimedOperation<'_>> = Vec::new();
    for inputs in &all {
        operations.push(Box::new(move || stopwatch.seconds(|| inputs.sums())));
    }
    let samples = alternate(harness.slow_repetitions(), &mut operations)?;
    drop(operations);
    let (places, bytes) = (table.places(), size_of_val(table.words()));
    // The portable backend is the first one and always available.
    let portable = samples.first().map(|seconds| ("portable backend", seconds.as_slice()));
    for (inputs, seconds) in all.iter().zip(&samples).skip(1) {
        let backend = inputs.ring.backend().name();
        let params = params! {
            "backend": backend, "rows": places.rows, "columns": places.columns, "table_bytes": bytes,
        };
        harness.timing(ROW_SUMS, format!("{}, {backend}", size.name), seconds, portable, params);
    }
    Ok(())
}

/// Checks that all backends find the same sums.
fn check(size: Size, all: &[BackendInputs<'_>]) -> anyhow::Result<()> {
    let coefficients: Vec<Vec<f64>> = all.iter().map(BackendInputs::coefficients).collect::<Result<_, _>>()?;
    for pair in coefficients.windows(2) {
        let found = pair[0].iter().zip(&pair[1]).fold(0.0f64, |largest, (a, b)| largest.max((a - b).abs()));
        if found > 0.0 {
            let case = format!("{}, sums over rows of two backends", size.name);
            return Err(wrong(case, found, 0.0));
        }
    }
    Ok(())
}

/// The ring of one backend and the factors of the rows: every backend has the same residues.
struct BackendInputs<'a> {
    ring: &'a Ring,
    table: &'a Table,
    factors: Vec<[Poly; 2]>,
}

impl<'a> BackendInputs<'a> {
    fn new(ring: &'a Ring, table: &'a Table) -> Self {
        let seed = SecretRng::insecure_from_seed(1).seed();
        let basis = table.parameters.ring().basis();
        let factor = |row: u32| [2 * row, 2 * row + 1].map(|stream| ring.uniform(&seed, stream, basis));
        BackendInputs { ring, table, factors: (0..table.shape.rows as u32).map(factor).collect() }
    }

    fn sums(&self) -> Result<Vec<[Poly; 2]>, RingError> {
        let pairs: Vec<[&Poly; 2]> = self.factors.iter().map(|[a, b]| [a, b]).collect();
        let (places, words) = (self.table.places(), self.table.words());
        let (factors, copy) = (self.ring.table_factors(places.chain, &pairs)?, DeviceCopy::default());
        let mut sums = Vec::with_capacity(places.columns);
        for start in (0..places.columns).step_by(AT_ONCE) {
            let columns = start..places.columns.min(start + AT_ONCE);
            sums.extend(self.ring.table_sums(places, Stored::new(words, &copy), columns, &factors)?);
        }
        Ok(sums)
    }

    /// All coefficients of the first sums.
    fn coefficients(&self) -> Result<Vec<f64>, RingError> {
        let mut numbers = Vec::new();
        for mut sum in self.sums()?.into_iter().take(COMPARED).flatten() {
            self.ring.to_coefficients(&mut sum)?;
            numbers.extend_from_slice(&self.ring.to_f64(&sum)?);
        }
        Ok(numbers)
    }
}

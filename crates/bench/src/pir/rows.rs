//! The sums over the rows of a table, beside the same code without vector instructions.

use unspoken_ring::{Backend, Poly, Ring, RingError, RingKind, RingLiteral, SecretRng};

use super::Size;
use super::table::Table;
use crate::clock::{Contender, alternate};
use crate::error::BenchError;
use crate::row::{Metric, params};
use crate::session::Session;

const ROW_SUMS: Metric = Metric::less("row_sums", "s");

/// Columns whose sums are compared: coefficients of all of a large table would take a GB.
const COMPARED: usize = 64;

/// One thread; both backends read the same words and must find the same sums (those of the first columns are compared).
pub(super) fn run(session: &mut Session<'_>, size: Size, table: &Table) -> Result<(), BenchError> {
    session.note(format!("{}: sums over rows", size.name));
    let ring: &Ring = table.parameters.ring();
    let literal = RingLiteral {
        degree: ring.degree(),
        kind: RingKind::Standard,
        chain: ring.chain().to_vec(),
        special: vec![],
        digit_len: 1,
    };
    let portable = Ring::new(literal, Backend::Portable)?;
    let sides = [ring, &portable].map(|ring| Side::new(ring, table));
    let [ours, theirs] = sides.each_ref().map(Side::numbers);
    let found = ours?.iter().zip(&theirs?).fold(0.0f64, |largest, (a, b)| largest.max((a - b).abs()));
    if found > 0.0 {
        let case = format!("{}, sums over rows of two backends", size.name);
        return Err(BenchError::Wrong { case, found, needed: 0.0 });
    }
    let (clock, single, slow) = (session.clock(), &session.single, session.slow_effort());
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for side in &sides {
        contenders.push(Box::new(move || {
            let (sums, seconds) = clock.time_in(single, || side.sums());
            sums?;
            Ok(seconds)
        }));
    }
    let samples = alternate(slow, &mut contenders)?;
    drop(contenders);
    let (backend, places) = (ring.backend(), table.places());
    let params = params! {
        "backend": backend.name(), "rows": places.rows, "columns": places.columns,
        "table_bytes": size_of_val(table.words()),
    };
    let baseline = (backend != Backend::Portable).then_some(("portable backend", samples[1].as_slice()));
    session.timing(ROW_SUMS, size.name, &samples[0], baseline, params);
    Ok(())
}

/// A ring with the factors of the rows: the same for every backend.
struct Side<'a> {
    ring: &'a Ring,
    table: &'a Table,
    factors: Vec<[Poly; 2]>,
}

impl<'a> Side<'a> {
    fn new(ring: &'a Ring, table: &'a Table) -> Self {
        let seed = SecretRng::insecure_from_seed(1).seed();
        let basis = table.parameters.ring().basis();
        let factor = |row: u32| [2 * row, 2 * row + 1].map(|stream| ring.uniform(&seed, stream, basis));
        Side { ring, table, factors: (0..table.shape.rows as u32).map(factor).collect() }
    }

    fn sums(&self) -> Result<Vec<[Poly; 2]>, RingError> {
        let pairs: Vec<[&Poly; 2]> = self.factors.iter().map(|[a, b]| [a, b]).collect();
        let places = self.table.places();
        self.ring.table_sums(places, self.table.words(), 0..places.columns, &pairs)
    }

    /// All coefficients of some of the sums.
    fn numbers(&self) -> Result<Vec<f64>, RingError> {
        let mut numbers = Vec::new();
        for mut sum in self.sums()?.into_iter().take(COMPARED).flatten() {
            self.ring.to_coefficients(&mut sum)?;
            numbers.extend(self.ring.to_f64(&sum)?);
        }
        Ok(numbers)
    }
}

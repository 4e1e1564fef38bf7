//! The integer matrix product of plaintext-ciphertext matrix multiplication (PCMM).

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Backend, Basis, Poly, Ring, RingKind, RingLiteral, RingMatrix, Seed};

use crate::clock::{TimedOperation, alternate};
use crate::harness::Harness;
use crate::row::{Metric, params};

const RATE: Metric = Metric::more("rate", "GMAC/s");

/// A matrix of `rows` x `columns` over polynomials of degree `2^log_n` and `primes` primes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) log_n: u32,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) primes: usize,
}

pub(super) const FULL: Shape = Shape { log_n: 16, rows: 64, columns: 256, primes: 2 };
pub(super) const QUICK: Shape = Shape { log_n: 13, rows: 64, columns: 256, primes: 2 };

/// One prepared product.
struct Product {
    ring: Ring,
    matrix: RingMatrix,
    inputs: Vec<Poly>,
}

/// One row per vector backend, with the portable one as baseline.
pub(super) fn run(harness: &mut Harness<'_>, shape: Shape) -> anyhow::Result<()> {
    harness.progress(format!("matrix product, {} x {}", shape.rows, shape.columns));
    let backends: Vec<Backend> = Backend::ALL.into_iter().filter(|backend| backend.is_available()).collect();
    let products: Vec<Product> = backends.iter().map(|&b| Product::new(shape, b)).collect::<Result<_, _>>()?;
    let stopwatch = harness.stopwatch();
    let macs = (shape.rows * shape.columns * shape.primes) as f64 * f64::from(shape.log_n).exp2();
    let mut operations: Vec<TimedOperation<'_>> = Vec::new();
    for Product { ring, matrix, inputs } in &products {
        let inputs: Vec<&Poly> = inputs.iter().collect();
        let rate = move || Ok(macs * 1e-9 / stopwatch.seconds(|| ring.matrix_product(matrix, &inputs))?);
        operations.push(Box::new(rate));
    }
    let rates = alternate(harness.repetitions(), &mut operations)?;
    drop(operations);
    let params = |backend: Backend| {
        params! {
            "n": 1usize << shape.log_n, "rows": shape.rows, "columns": shape.columns, "primes": shape.primes,
            "backend": backend.name(), "multiply-accumulate": "30-bit residues, reductions included",
        }
    };
    let case = |backend: Backend| format!("PCMM {} x {}, {}", shape.rows, shape.columns, backend.name());
    for (&backend, ours) in backends.iter().zip(&rates).skip(1) {
        let baseline = Some((Backend::Portable.name(), rates[0].as_slice()));
        harness.timing(RATE, case(backend), ours, baseline, params(backend));
    }
    if let [only] = backends[..] {
        harness.timing(RATE, case(only), &rates[0], None, params(only));
    }
    Ok(())
}

impl Product {
    fn new(shape: Shape, backend: Backend) -> anyhow::Result<Self> {
        let (degree, kind) = (1usize << shape.log_n, RingKind::Standard);
        let chain = primes_descending(1 << 16, 1 << 30, kind.prime_step(degree)).take(shape.primes).collect();
        let ring = Ring::new(
            RingLiteral { degree, kind, chain, terminal: vec![], special: Vec::new(), digit_len: 1 },
            backend,
        )?;
        let entry = |row: usize, column: usize| ((row * 31 + column * 17) % 2047) as i128 - 1023;
        let matrix = ring.real_matrix(Basis::chain(shape.primes), shape.rows, shape.columns, entry);
        let input = |column: usize| ring.uniform(&Seed([3; 32]), column as u32, Basis::chain(shape.primes));
        let inputs = (0..shape.columns).map(input).collect();
        Ok(Product { ring, matrix, inputs })
    }
}

//! Times of the phases of answers from a dense table, on one thread and on all, for one and several waiting queries.
//! Arguments: `log2` of the number of 256-byte records, and the numbers of queries in a pass.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_pir::dense::{DenseQuery, DenseResponse, DenseShape, DenseTable, answer, dense_log2_failure};
use unspoken_pir::{Mode, PirSecret, Preset};
use unspoken_ring::SecretRng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let bits = numbers.next().transpose()?.unwrap_or(18);
    let passes: Vec<usize> = numbers.collect::<Result<_, _>>()?;
    let parameters = Preset::N11.build()?;
    let shape = DenseShape::new(&parameters, 1 << bits, 256)?;
    let bytes = (shape.cells as f64) * 256.0;
    println!("{shape:?}, failures 2^{:.1}", dense_log2_failure(&parameters, shape)?);
    println!(
        "query {} bytes, response {} bytes",
        DenseQuery::byte_len(&parameters, shape),
        DenseResponse::byte_len(&parameters, shape)
    );
    let content = |cell: u64| cell.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().repeat(32);
    let started = Instant::now();
    let table = DenseTable::build(&parameters, shape, content)?;
    println!(
        "built in {:.2} s, {:.2} bytes of memory per byte",
        started.elapsed().as_secs_f64(),
        table.memory_bytes() as f64 / bytes
    );
    let mut rng = SecretRng::from_os()?;
    let secret = PirSecret::generate(&parameters, &mut rng)?;
    let keys = secret.keys(Mode::Packed, &mut rng)?.expand()?;
    for count in if passes.is_empty() { vec![1] } else { passes } {
        let started = Instant::now();
        let cells: Vec<u64> = (0..count as u64).map(|i| (i * 48_271 + 11) % shape.cells).collect();
        let queries: Vec<DenseQuery> =
            cells.iter().map(|&cell| secret.dense_query(shape, cell, &mut rng)).collect::<Result<_, _>>()?;
        println!("{count} queries made in {:.3} s", started.elapsed().as_secs_f64());
        let pairs: Vec<_> = queries.iter().map(|query| (&keys, query)).collect();
        for threads in [1, std::thread::available_parallelism()?.get()] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
            for _ in 0..3 {
                let started = Instant::now();
                let (responses, phases) = pool.install(|| answer(&table, &pairs, &AtomicBool::new(false)))?;
                let seconds = started.elapsed().as_secs_f64();
                for (response, &cell) in responses.iter().zip(&cells) {
                    assert_eq!(*secret.dense_extract(response, shape)?, content(cell));
                }
                let rate = bytes * count as f64 / seconds / 1e9;
                println!("{threads} threads: {seconds:.3} s, {rate:.2} GB/s, {phases:.3?}");
            }
        }
    }
    Ok(())
}

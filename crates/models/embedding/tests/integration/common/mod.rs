//! Tables and options for the tests.

#![allow(dead_code, reason = "each test binary uses a part")]

use unspoken_embedding::{CompressOptions, EmbeddingTable, TokenList};

/// Options for compression within milliseconds.
pub fn quick() -> CompressOptions {
    CompressOptions { subtables: 4, columns: 8, start_rounds: 3, rounds: 6, ..CompressOptions::default() }
}

/// A table of tokens `t0`, `t1`, .. .
pub fn table(rows: usize, width: usize, value: impl Fn(usize, usize) -> f32) -> EmbeddingTable {
    let tokens = TokenList::new((0..rows).map(|row| format!("t{row}")).collect()).expect("distinct");
    let values = (0..rows * width).map(|i| value(i / width, i % width)).collect();
    EmbeddingTable::new(tokens, width, values).expect("finite")
}

/// A pseudo-random number in [-1, 1).
fn hash(a: usize, b: usize) -> f32 {
    let mut x = (a as u64) << 32 | b as u64;
    for _ in 0..3 {
        x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    (x >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// A table of pseudo-random rows.
pub fn random_table(rows: usize, width: usize) -> EmbeddingTable {
    table(rows, width, hash)
}

/// A table whose rows are sums of one of `columns` columns of each of `subtables` subtables, each subtable a quarter as
/// large as the one before.
pub fn structured_table(rows: usize, width: usize, subtables: usize, columns: usize) -> EmbeddingTable {
    table(rows, width, |row, column| {
        let entry = |t: usize| hash(1000 + t * columns + row / columns.pow(t as u32) % columns, column);
        (0..subtables).map(|t| entry(t) * 0.25f32.powi(t as i32)).sum()
    })
}

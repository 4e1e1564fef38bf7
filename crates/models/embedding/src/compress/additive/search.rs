//! Search for codes with fixed subtables: iterated conditional modes from several starts.

use ndarray::{Array2, ArrayView2, s};
use rayon::prelude::*;
use unspoken_store::Random;

use super::Stop;
use super::products::{inner_products, smallest, squared_lengths};
use crate::error::EmbeddingError;
use crate::shape::Shape;

/// Number of rows per thread whose inner products with all columns are in memory at once.
const BLOCK_ROWS: usize = 64;

/// The inner products of all columns of the subtables, and other inputs of the search for codes.
///
/// The squared error of a row `x` with code `j` is `|x|^2 + sum_t u_t(j_t) + sum_(s<t) 2 <c_s(j_s), c_t(j_t)>` with
/// `u_t(j) = |c_t(j)|^2 - 2 <x, c_t(j)>`. With the products of all columns in memory, finding the best entry of one
/// subtable given the others costs `l p` additions, independent of the width of the table.
pub(super) struct Search<'a> {
    shape: Shape,
    columns: ArrayView2<'a, f32>,
    lengths: Vec<f32>,
    /// `2 <c, c'>` for all pairs of columns.
    doubled: Array2<f32>,
}

impl<'a> Search<'a> {
    pub(super) fn new(shape: Shape, columns: ArrayView2<'a, f32>, stop: Stop) -> Result<Self, EmbeddingError> {
        let mut doubled = Array2::zeros((shape.all_columns(), shape.all_columns()));
        let blocks: Vec<_> = doubled.axis_chunks_iter_mut(ndarray::Axis(0), BLOCK_ROWS).enumerate().collect();
        blocks.into_par_iter().try_for_each(|(block, out)| {
            stop.check()?;
            let first = block * BLOCK_ROWS;
            inner_products(columns.slice(s![first..first + out.nrows(), ..]), columns, 2.0, out);
            Ok::<(), EmbeddingError>(())
        })?;
        Ok(Self { shape, columns, lengths: squared_lengths(columns), doubled })
    }

    /// Improves the codes of all rows: each to a local optimum, then `trials` times after changing two entries at
    /// random, keeping the better code. No row gets worse. `stream` selects the random numbers; each block of rows has
    /// its own, so the result does not depend on the number of threads.
    pub(super) fn improve(
        &self,
        rows: ArrayView2<f32>,
        codes: &mut [u16],
        trials: usize,
        (seed, stream): (u64, u64),
        stop: Stop,
    ) -> Result<(), EmbeddingError> {
        let subtables = self.shape.subtables;
        codes.par_chunks_mut(BLOCK_ROWS * subtables).enumerate().try_for_each(|(block, codes)| {
            stop.check()?;
            let first = block * BLOCK_ROWS;
            let rows = rows.slice(s![first..first + codes.len() / subtables, ..]);
            let mut single = Array2::zeros((rows.nrows(), self.shape.all_columns()));
            inner_products(rows, self.columns, -2.0, single.view_mut());
            let mut random = Random::new(seed, stream << 32 | block as u64);
            let mut sums = vec![0.0; self.shape.columns];
            for (code, mut single) in codes.chunks_exact_mut(subtables).zip(single.rows_mut()) {
                single.iter_mut().zip(&self.lengths).for_each(|(u, length)| *u += length);
                let single = single.as_slice().unwrap_or_default();
                self.improve_row(single, code, trials, &mut random, &mut sums);
            }
            Ok(())
        })
    }

    fn improve_row(&self, single: &[f32], code: &mut [u16], trials: usize, random: &mut Random, sums: &mut [f32]) {
        self.descend(single, code, sums);
        let mut best = self.energy(single, code);
        let mut trial = code.to_vec();
        for _ in 0..trials {
            trial.copy_from_slice(code);
            for _ in 0..2 {
                trial[random.below(code.len())] = random.below(self.shape.columns) as u16;
            }
            self.descend(single, &mut trial, sums);
            let energy = self.energy(single, &trial);
            if energy < best {
                best = energy;
                code.copy_from_slice(&trial);
            }
        }
    }

    /// Sets each entry in turn to the best one given the others, until none changes.
    fn descend(&self, single: &[f32], code: &mut [u16], sums: &mut [f32]) {
        let (subtables, columns) = (self.shape.subtables, self.shape.columns);
        let mut unchanged = 0;
        // Every change lowers the error, so this ends; the limit is for rounding errors, which could make two entries
        // alternate.
        for step in 0..subtables * MAX_SWEEPS {
            let t = step % subtables;
            sums.copy_from_slice(&single[t * columns..][..columns]);
            for (s, &other) in code.iter().enumerate().filter(|&(s, _)| s != t) {
                let products = &self.products(s, other)[t * columns..][..columns];
                sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            }
            let best = smallest(sums).0 as u16;
            unchanged = if best == code[t] { unchanged + 1 } else { 0 };
            code[t] = best;
            if unchanged >= subtables {
                break;
            }
        }
    }

    /// The squared error minus `|x|^2`.
    fn energy(&self, single: &[f32], code: &[u16]) -> f32 {
        let columns = self.shape.columns;
        let mut sum = 0.0;
        for (t, &entry) in code.iter().enumerate() {
            let at = t * columns + usize::from(entry);
            sum += single[at];
            sum += code[..t].iter().enumerate().map(|(s, &other)| self.products(s, other)[at]).sum::<f32>();
        }
        sum
    }

    /// Twice the products of column `entry` of subtable `s` with all columns.
    fn products(&self, s: usize, entry: u16) -> &[f32] {
        let all = self.shape.all_columns();
        let row = s * self.shape.columns + usize::from(entry);
        &self.doubled.as_slice().unwrap_or_default()[row * all..][..all]
    }
}

/// Maximum number of sweeps over all entries in one descent.
const MAX_SWEEPS: usize = 8;

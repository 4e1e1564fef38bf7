//! The product of Jiang, Kim, Lauter and Song (*Secure Outsourced Matrix Computation and Application to Neural
//! Networks*, CCS 2018): `A B = sum_l phi^l(sigma(A)) o psi^l(tau(B))`, with `sigma` the shift of row `i` by `i`, `tau`
//! the shift of column `j` by `j`, `phi` a shift of all columns, `psi` one of all rows.

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, LinearTransform, PreparedVector};

use super::tiles::{Factors, accumulate, grid, nothing};
use crate::encrypted::EncryptedMatrix;
use crate::error::EncryptedMatrixError;
use crate::layout::{Layout, indicator};
use crate::tile::{self, LevelAndScales, Term};

pub(super) struct Jkls {
    level: usize,
    hoisted: bool,
    sigma: LinearTransform,
    tau: LinearTransform,
    /// Rotations of `sigma(A)`.
    columns: Vec<i64>,
    /// For each `l`, the indices of the rotations that `phi^l` is the sum of, with their masks.
    masks: Vec<Vec<(usize, PreparedVector)>>,
    /// Rotations of `tau(B)`.
    rows: Vec<i64>,
}

impl Jkls {
    pub(super) fn new(
        parameters: &CkksParameters,
        layout: Layout,
        hoisted: bool,
        Factors { level, scales: [left, right] }: Factors,
    ) -> Result<Self, EncryptedMatrixError> {
        let d = layout.dim();
        let shifted = |row: usize, column: usize, from: usize| Term {
            row,
            column,
            index: ((row + column) % d) as i64 - from as i64,
            weight: 1.0,
        };
        let cells = || (0..d * d).map(|cell| (cell / d, cell % d));
        let keep = |scale| LevelAndScales { level, input: scale, output: scale };
        let sigma = cells().map(|(row, column)| shifted(row, column, column));
        let tau = cells().map(|(row, column)| shifted(row, column, row));
        let sigma = tile::transform(parameters, layout, keep(left), 1, sigma)?;
        let tau = tile::transform(parameters, layout, keep(right), d, tau)?;
        let unit = layout.column_step() as i64;
        let last = d as i64 - 1;
        let columns = (-last..=last).map(|l| l * unit).collect();
        let wanted = parameters.scale() * parameters.level_modulus(level - 2) / right;
        let scale = parameters.level_modulus(level - 1) * (wanted / left);
        let mask = |keep: &dyn Fn(usize) -> bool| {
            PreparedVector::new(layout.fill_columns(|column| indicator(keep(column))), level - 1, scale)
        };
        let phi = |l: usize| {
            let mut pairs = vec![(d - 1 + l, mask(&|column| column < d - l)?)];
            if l > 0 {
                pairs.push((l - 1, mask(&|column| column >= d - l)?));
            }
            Ok::<_, EncryptedMatrixError>(pairs)
        };
        Ok(Jkls {
            level,
            hoisted,
            sigma,
            tau,
            columns,
            masks: (0..d).map(phi).collect::<Result<_, _>>()?,
            rows: (0..d).map(|l| (l * layout.row_step()) as i64).collect(),
        })
    }

    /// Bytes of diagonals and masks; `mask` is the size of a mask.
    pub(super) fn prepared_bytes(&self, mask: usize) -> usize {
        let masks: usize = self.masks.iter().map(Vec::len).sum();
        let plans = self.sigma.plan().prepared_bytes() + self.tau.plan().prepared_bytes();
        plans as usize + masks * mask
    }

    pub(super) fn apply<A: Arithmetic>(
        &self,
        arithmetic: &A,
        a: &EncryptedMatrix<A::Vector>,
        b: &EncryptedMatrix<A::Vector>,
    ) -> Result<Vec<A::Vector>, EncryptedMatrixError> {
        let a = a.try_map(|tile| self.columns(arithmetic, &arithmetic.linear(&self.sigma, tile)?))?;
        let b = b.try_map(|tile| {
            let tau = arithmetic.drop_to(&arithmetic.linear(&self.tau, tile)?, self.level - 2)?;
            if self.hoisted {
                return arithmetic.rotate_hoisted(&tau, &self.rows);
            }
            self.rows.iter().map(|&steps| arithmetic.rotate(&tau, steps)).collect()
        })?;
        grid(&a, &b, |row, column| {
            let mut sum = None;
            for k in 0..a.grid().1 {
                for (phi, psi) in a.tile(row, k).iter().zip(b.tile(k, column)) {
                    sum = accumulate(arithmetic, sum, arithmetic.tensor(phi, psi)?)?;
                }
            }
            Ok(arithmetic.relinearise_rescale(&sum.ok_or_else(nothing)?)?)
        })
    }

    /// `phi^l` of a shifted tile for every `l`.
    fn columns<A: Arithmetic>(&self, arithmetic: &A, sigma: &A::Vector) -> Result<Vec<A::Vector>, CkksError> {
        if self.hoisted {
            let pairs = self.masks.iter().map(|row| row.iter().map(|(i, mask)| (*i, mask)).collect());
            let rows: Vec<Vec<_>> = pairs.collect();
            return arithmetic.rotation_products(sigma, &self.columns, &rows);
        }
        let shifted = |row: &Vec<(usize, PreparedVector)>| {
            let rotate = |(i, _): &(usize, PreparedVector)| arithmetic.rotate(sigma, self.columns[*i]);
            let rotated: Vec<A::Vector> = row.iter().map(rotate).collect::<Result<_, _>>()?;
            let products: Vec<_> = rotated.iter().zip(row).map(|(rotated, (_, mask))| (rotated, mask)).collect();
            arithmetic.rescale(&arithmetic.sum_products(&products)?)
        };
        self.masks.iter().map(shifted).collect()
    }
}

//! Places of the results of sparse maps, such that few diagonals are not zero.

use std::collections::BTreeSet;

use crate::layout::Layout;
use crate::matrix::SparseMatrix;

/// Columns of a row, and offsets, from which places are tried.
const TRIED: (usize, usize) = (8, 1024);

/// A place for each row of a sparse matrix, in the order of rows; below `limit`, each at most once. `None` if there is
/// no room, or if the matrix is so dense that it has most diagonals anyway.
///
/// An entry at column `c` of a row at place `p` is in diagonal `c - p`. A convolution of pictures has few diagonals if
/// each result stays where its pixels are, also if it takes every second pixel only: then results have gaps between
/// them. This search knows nothing about pictures: each row gets the place with the fewest diagonals that are new,
/// first tried as far from the place of the row before as its first column is (compare the multiplexed packing of Lee
/// and others, ICML 2022, which does this for convolutions).
pub(crate) fn places(matrix: &SparseMatrix, columns: &Layout, limit: usize) -> Option<Vec<usize>> {
    if matrix.nonzero() > matrix.rows() * matrix.columns() / 4 || matrix.rows() > limit {
        return None;
    }
    let mut search = Search {
        limit: limit as i64,
        taken: vec![false; limit],
        known: vec![false; 2 * limit],
        offsets: BTreeSet::new(),
        end: 0,
    };
    let mut last: Option<(i64, i64)> = None;
    let mut places = vec![0; matrix.rows()];
    // Whole kernels before those that are cut at an edge, which then have the same diagonals.
    let mut rows: Vec<usize> = (0..matrix.rows()).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(matrix.row(*row).len()));
    for row in rows {
        let own: Vec<i64> = matrix.row(row).map(|(column, _)| columns.linear(column) as i64).collect();
        if own.iter().any(|column| *column >= search.limit) {
            return None;
        }
        let place = search.place(&own, last)?;
        last = own.first().map(|first| (*first, place)).or(last);
        search.take(&own, place);
        places[row] = place as usize;
    }
    Some(places)
}

struct Search {
    limit: i64,
    taken: Vec<bool>,
    /// Whether an offset, plus the limit, is a diagonal already.
    known: Vec<bool>,
    offsets: BTreeSet<i64>,
    /// The first place after all that are taken.
    end: i64,
}

impl Search {
    /// The place of a row with these columns; `last` has the first column of the row before and its place.
    fn place(&self, columns: &[i64], last: Option<(i64, i64)>) -> Option<i64> {
        let Some(&first) = columns.first() else { return self.free(self.end) };
        let next = last.map(|(column, place)| place + first - column).filter(|place| self.is_free(*place));
        if let Some(place) = next.filter(|place| self.unknown(columns, *place, 1) == 0) {
            return Some(place);
        }
        let step = columns.len().div_ceil(TRIED.0);
        let offsets = self.offsets.iter().step_by(self.offsets.len().div_ceil(TRIED.1).max(1));
        let of_offset =
            |offset: &i64| columns.iter().step_by(step).map(move |column| column - offset).collect::<Vec<_>>();
        let tried = offsets.flat_map(of_offset);
        // Without any diagonal that is known, a row stays where its columns are, or comes after all others.
        let tried = next.into_iter().chain(tried).chain([columns[columns.len() / 2], self.end]);
        let mut best: Option<(usize, i64)> = None;
        for place in tried.filter(|place| self.is_free(*place)) {
            let least = best.map_or(usize::MAX, |(new, _)| new);
            let new = self.unknown(columns, place, least);
            if new < least {
                best = Some((new, place));
            }
        }
        best.map(|(_, place)| place).or_else(|| self.free(0))
    }

    fn is_free(&self, place: i64) -> bool {
        (0..self.limit).contains(&place) && !self.taken[place as usize]
    }

    /// The first free place from here on.
    fn free(&self, from: i64) -> Option<i64> {
        (from..self.limit).chain(0..from.min(self.limit)).find(|place| self.is_free(*place))
    }

    /// Number of new diagonals, counted up to `most`.
    fn unknown(&self, columns: &[i64], place: i64, most: usize) -> usize {
        columns.iter().filter(|column| !self.known[(**column - place + self.limit) as usize]).take(most).count()
    }

    fn take(&mut self, columns: &[i64], place: i64) {
        self.taken[place as usize] = true;
        self.end = self.end.max(place + 1);
        for column in columns {
            self.known[(column - place + self.limit) as usize] = true;
            self.offsets.insert(column - place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Different diagonals of a matrix with results at these places.
    fn diagonals(matrix: &SparseMatrix, places: &[usize]) -> usize {
        let all: BTreeSet<i64> = matrix.entries().map(|(row, column, _)| column as i64 - places[row] as i64).collect();
        all.len()
    }

    /// The sums of `kernel x kernel` pixels, `stride` apart, of pictures of `side x side` with `pad` zeros around.
    fn windows(channels: usize, side: usize, (kernel, stride, pad): (usize, usize, usize)) -> SparseMatrix {
        let to = (side + 2 * pad - kernel) / stride + 1;
        let entries = (0..channels * to * to).flat_map(|out| {
            let (channel, y, x) = (out / (to * to), out / to % to * stride, out % to * stride);
            (0..kernel * kernel).filter_map(move |k| {
                let (row, column) = ((y + k / kernel).checked_sub(pad)?, (x + k % kernel).checked_sub(pad)?);
                let inside = row < side && column < side;
                inside.then_some((out, channel * side * side + row * side + column, 1.0))
            })
        });
        SparseMatrix::new((channels * to * to, channels * side * side), entries).unwrap()
    }

    #[test]
    fn convolutions_and_poolings_have_a_diagonal_for_each_pixel_of_the_kernel() {
        for (channels, side, shape, most) in
            [(1, 12, (3, 1, 0), 9), (4, 12, (2, 2, 0), 4), (2, 10, (3, 1, 1), 9), (3, 16, (4, 4, 0), 16)]
        {
            let matrix = windows(channels, side, shape);
            let columns = Layout::new(matrix.columns(), 1024, 1).unwrap();
            let places = places(&matrix, &columns, 1024).unwrap();
            assert_eq!(diagonals(&matrix, &places), most, "{channels} {side} {shape:?}");
            let different: BTreeSet<usize> = places.iter().copied().collect();
            assert_eq!(different.len(), matrix.rows());
        }
        let dense = SparseMatrix::dense((20, 20), |_, _| 1.0).unwrap();
        let columns = Layout::new(20, 1024, 1).unwrap();
        assert!(places(&dense, &columns, 1024).is_none());
        assert!(places(&windows(1, 12, (3, 1, 0)), &columns, 64).is_none());
    }
}

//! Measures of the error of compression.

use crate::error::EmbeddingError;

/// The difference between a table `M` and its compressed form `M'`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// `|M - M'|^2 / |M|^2`, Frobenius norms: the share of the table's energy that is lost.
    pub relative_error: f64,
    /// Mean over the rows of `|m - m'| / |m|`; rows of zeros are left out.
    pub mean_row_error: f64,
    /// Mean over the rows of the cosine of the angle between `m` and `m'`; rows of zeros on either side are left out.
    pub mean_cosine: f64,
}

impl Quality {
    /// Computes the measures from pairs of rows of equal length.
    pub(crate) fn of<'a>(
        pairs: impl Iterator<Item = Result<(&'a [f32], Vec<f32>), EmbeddingError>>,
    ) -> Result<Self, EmbeddingError> {
        let (mut lost, mut all) = (0.0, 0.0);
        let (mut row_errors, mut cosines) = (Mean::default(), Mean::default());
        for pair in pairs {
            let (row, found) = pair?;
            let of_both =
                |f: fn(f64, f64) -> f64| -> f64 { row.iter().zip(&found).map(|(&a, &b)| f(a.into(), b.into())).sum() };
            let error = of_both(|a, b| (a - b) * (a - b));
            let (length, other) = (of_both(|a, _| a * a), of_both(|_, b| b * b));
            lost += error;
            all += length;
            if length > 0.0 {
                row_errors.add((error / length).sqrt());
                if other > 0.0 {
                    cosines.add(of_both(|a, b| a * b) / (length * other).sqrt());
                }
            }
        }
        let relative_error = if all > 0.0 { lost / all } else { 0.0 };
        Ok(Self { relative_error, mean_row_error: row_errors.value(), mean_cosine: cosines.value() })
    }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    /// The mean, or zero if there are no values.
    fn value(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_difference_has_known_numbers() {
        let rows: [(&[f32], Vec<f32>); 3] =
            [(&[3.0, 4.0], vec![3.0, 0.0]), (&[0.0, 2.0], vec![0.0, 2.0]), (&[0.0, 0.0], vec![1.0, 0.0])];
        let quality = Quality::of(rows.into_iter().map(Ok)).expect("rows");
        assert!((quality.relative_error - 17.0 / 29.0).abs() < 1e-12);
        assert!((quality.mean_row_error - 0.4).abs() < 1e-12);
        assert!((quality.mean_cosine - 0.8).abs() < 1e-12);
    }
}

//! Choices by secret numbers, in time and with addresses that do not depend on them.

use ndarray::{Array2, ArrayView2, Zip};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// The rows of a table at secret places. It reads the whole table: a row is added to each place under a mask.
pub(crate) fn rows(table: ArrayView2<'_, f32>, places: &[u32]) -> Array2<f32> {
    let mut bits = Array2::<u32>::zeros((places.len(), table.ncols()));
    for (number, row) in (0u32..).zip(table.rows()) {
        for (place, mut bits) in places.iter().zip(bits.rows_mut()) {
            let mask = 0u32.wrapping_sub(place.ct_eq(&number).unwrap_u8().into());
            Zip::from(&mut bits).and(row).for_each(|bits, value| *bits |= value.to_bits() & mask);
        }
    }
    let rows = bits.mapv(f32::from_bits);
    bits.iter_mut().for_each(Zeroize::zeroize);
    rows
}

#[cfg(test)]
mod tests {
    use ndarray::{Axis, array};

    use super::*;

    #[test]
    fn rows_are_those_at_the_places() {
        let table = Array2::from_shape_fn((9, 5), |(row, column)| (row * 31 + column * 7) as f32 * -0.37);
        let places = [8, 0, 3, 3, 7];
        let expected = table.select(Axis(0), &places.map(|place| place as usize));
        assert_eq!(rows(table.view(), &places), expected);
        assert_eq!(rows(table.t(), &[4]), table.t().select(Axis(0), &[4]));
        assert_eq!(rows(array![[1.5]].view(), &[]).dim(), (0, 1));
    }
}

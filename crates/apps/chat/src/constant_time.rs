//! Choices by secret numbers, in time and with addresses that do not depend on them.

use ndarray::{Array2, ArrayView2, Zip};
use subtle::{ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};
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

/// The place of the largest of secret numbers, none of which is NaN; the first of equal ones.
pub(crate) fn largest(values: &[f32]) -> u32 {
    let (mut best, mut place) = (0u32, 0u32);
    for (number, value) in (0u32..).zip(values) {
        let key = ordered(*value);
        let larger = key.ct_gt(&best);
        best.conditional_assign(&key, larger);
        place.conditional_assign(&number, larger);
    }
    place
}

/// A number in the same order as floating-point numbers; above 0 for finite ones.
fn ordered(value: f32) -> u32 {
    // The sum makes -0 and 0 the same.
    let bits = (value + 0.0).to_bits();
    let sign = 0u32.wrapping_sub(bits >> 31);
    bits ^ (sign | 1 << 31)
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

    #[test]
    fn the_first_of_the_largest_numbers() {
        for (values, place) in [
            (&[3.0, 5.0, -7.0, 5.0][..], 1),
            (&[-3.0, -2.5, -2.75], 1),
            (&[-0.0, 0.0], 0),
            (&[0.0, -0.0, 1e-40], 2),
            (&[f32::MIN, f32::MIN], 0),
            (&[f32::NEG_INFINITY, f32::MIN, f32::MAX, f32::INFINITY], 3),
            (&[-1e-40, -1.0], 0),
        ] {
            assert_eq!(largest(values), place, "{values:?}");
        }
    }
}

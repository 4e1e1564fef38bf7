//! Arrays of secret numbers.

use std::fmt;
use std::ops::{Deref, DerefMut};

use ndarray::{Array, Dimension};
use zeroize::Zeroize;

/// Arrays of secret numbers, such as rows and decrypted results. They are wiped when dropped and not printed.
#[derive(Clone, PartialEq)]
pub struct WipedArrays<A: Zeroize, D: Dimension>(Vec<Array<A, D>>);

impl<A: Zeroize, D: Dimension> fmt::Debug for WipedArrays<A, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WipedArrays({} arrays)", self.0.len())
    }
}

impl<A: Zeroize, D: Dimension> From<Vec<Array<A, D>>> for WipedArrays<A, D> {
    fn from(arrays: Vec<Array<A, D>>) -> Self {
        WipedArrays(arrays)
    }
}

impl<A: Zeroize, D: Dimension> FromIterator<Array<A, D>> for WipedArrays<A, D> {
    fn from_iter<I: IntoIterator<Item = Array<A, D>>>(arrays: I) -> Self {
        WipedArrays(arrays.into_iter().collect())
    }
}

impl<A: Zeroize, D: Dimension> Deref for WipedArrays<A, D> {
    type Target = Vec<Array<A, D>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<A: Zeroize, D: Dimension> DerefMut for WipedArrays<A, D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<A: Zeroize, D: Dimension> Zeroize for WipedArrays<A, D> {
    fn zeroize(&mut self) {
        self.0.iter_mut().flatten().for_each(Zeroize::zeroize);
    }
}

impl<A: Zeroize, D: Dimension> Drop for WipedArrays<A, D> {
    fn drop(&mut self) {
        self.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;

    #[test]
    fn all_numbers_are_wiped_in_any_order_of_memory() {
        let columns = Array2::from_shape_fn((2, 3), |(row, column)| (3 * row + column) as f64).reversed_axes();
        let mut arrays = WipedArrays::from(vec![array![[1.0, 2.0]], columns]);
        arrays.zeroize();
        assert!(arrays.iter().flatten().all(|number| *number == 0.0), "{:?}", arrays.0);
        assert_eq!(arrays.iter().map(|array| array.dim()).collect::<Vec<_>>(), [(1, 2), (3, 2)]);
    }
}

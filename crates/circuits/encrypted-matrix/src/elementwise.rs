//! Elementwise sums, differences, multiples and products.

use unspoken_ckks::{Arithmetic, CkksError, Complex64, SCALE_TOLERANCE};

use crate::encrypted::{EncryptedMatrix, check_match};
use crate::error::{EncryptedMatrixError, check_depth, display_shape, shape_error};

/// `a + b`, at the lower of the two levels, or one level below it if the levels are equal and the scales differ.
///
/// # Errors
/// If shapes, layouts or batches differ, or scales differ at level 0.
pub fn add<A: Arithmetic>(
    arithmetic: &A,
    a: &EncryptedMatrix<A::Vector>,
    b: &EncryptedMatrix<A::Vector>,
) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
    let (a, b) = align("add", arithmetic, a, b)?;
    pairwise("add", &a, &b, a.is_clean() && b.is_clean(), |x, y| arithmetic.add(x, y))
}

/// `a - b`, with the levels of [`add`].
///
/// # Errors
/// Same as [`add`].
pub fn subtract<A: Arithmetic>(
    arithmetic: &A,
    a: &EncryptedMatrix<A::Vector>,
    b: &EncryptedMatrix<A::Vector>,
) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
    let (a, b) = align("subtract", arithmetic, a, b)?;
    pairwise("subtract", &a, &b, a.is_clean() && b.is_clean(), |x, y| arithmetic.sub(x, y))
}

/// The elementwise product, one level below the lower of the two levels. It is clean if one of the factors is. If the
/// levels differ, it has the parameters' scale; otherwise its scale is the product of both scales over the modulus of
/// the level.
///
/// # Errors
/// If shapes, layouts or batches differ, there is no level left, or the relinearisation key is missing.
pub fn multiply<A: Arithmetic>(
    arithmetic: &A,
    a: &EncryptedMatrix<A::Vector>,
    b: &EncryptedMatrix<A::Vector>,
) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
    const OPERATION: &str = "multiply";
    check_same(OPERATION, a, b)?;
    let ((a_level, a_scale), (b_level, b_scale)) = (a.level_and_scale(arithmetic)?, b.level_and_scale(arithmetic)?);
    let level = a_level.min(b_level);
    check_depth(OPERATION, level, 1, "start at a higher level, or use a deeper preset")?;
    let parameters = arithmetic.parameters();
    let wanted = parameters.scale() * parameters.level_modulus(level);
    let lifted;
    let (a, b) = if a_level > b_level {
        lifted = rescaled(arithmetic, a, level, wanted / b_scale)?;
        (&lifted, b)
    } else if b_level > a_level {
        lifted = rescaled(arithmetic, b, level, wanted / a_scale)?;
        (a, &lifted)
    } else {
        (a, b)
    };
    pairwise(OPERATION, a, b, a.is_clean() || b.is_clean(), |x, y| arithmetic.multiply(x, y))
}

/// `factor * a`, one level below `a`, at the parameters' scale.
///
/// # Errors
/// If the factor is not finite or there is no level left.
pub fn scale<A: Arithmetic>(
    arithmetic: &A,
    a: &EncryptedMatrix<A::Vector>,
    factor: f64,
) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
    let (level, _) = a.level_and_scale(arithmetic)?;
    check_depth("scale", level, 1, "start at a higher level, or use a deeper preset")?;
    let parameters = arithmetic.parameters();
    let scale = parameters.scale() * parameters.level_modulus(level);
    a.try_map(|tile| {
        let tile = arithmetic.drop_to(tile, level)?;
        Ok(arithmetic.rescale(&arithmetic.mul_constant(&tile, Complex64::from(factor), scale)?)?)
    })
}

type Pair<V> = (EncryptedMatrix<V>, EncryptedMatrix<V>);

/// Brings both matrices to the same level and scale.
fn align<A: Arithmetic>(
    operation: &'static str,
    arithmetic: &A,
    a: &EncryptedMatrix<A::Vector>,
    b: &EncryptedMatrix<A::Vector>,
) -> Result<Pair<A::Vector>, EncryptedMatrixError> {
    check_same(operation, a, b)?;
    let ((a_level, a_scale), (b_level, b_scale)) = (a.level_and_scale(arithmetic)?, b.level_and_scale(arithmetic)?);
    if (a_scale / b_scale - 1.0).abs() < SCALE_TOLERANCE {
        return Ok((a.clone(), b.clone()));
    }
    if a_level > b_level {
        return Ok((rescaled(arithmetic, a, b_level, b_scale)?, b.clone()));
    }
    if b_level > a_level {
        return Ok((a.clone(), rescaled(arithmetic, b, a_level, a_scale)?));
    }
    check_depth(operation, a_level, 1, "operands of different scales are aligned one level below; start higher")?;
    let lowered = a.try_map(|tile| arithmetic.drop_to(tile, a_level - 1))?;
    Ok((lowered, rescaled(arithmetic, b, a_level - 1, a_scale)?))
}

/// The same values at a lower level and with exactly this scale.
fn rescaled<A: Arithmetic>(
    arithmetic: &A,
    a: &EncryptedMatrix<A::Vector>,
    level: usize,
    scale: f64,
) -> Result<EncryptedMatrix<A::Vector>, EncryptedMatrixError> {
    let raised = scale * arithmetic.parameters().level_modulus(level + 1);
    a.try_map(|tile| {
        let tile = arithmetic.drop_to(tile, level + 1)?;
        Ok(arithmetic.rescale(&arithmetic.mul_constant(&tile, Complex64::from(1.0), raised)?)?)
    })
}

fn check_same<V>(
    operation: &'static str,
    a: &EncryptedMatrix<V>,
    b: &EncryptedMatrix<V>,
) -> Result<(), EncryptedMatrixError> {
    check_equal(operation, a.shape(), b.shape())?;
    check_match(operation, a, b)
}

/// Checks that two shapes are equal.
pub(crate) fn check_equal(
    operation: &'static str,
    a: (usize, usize),
    b: (usize, usize),
) -> Result<(), EncryptedMatrixError> {
    if a == b {
        Ok(())
    } else {
        Err(shape_error(operation, format!("shapes {} and {} differ", display_shape(a), display_shape(b))))
    }
}

fn pairwise<V>(
    operation: &'static str,
    a: &EncryptedMatrix<V>,
    b: &EncryptedMatrix<V>,
    clean: bool,
    combine: impl Fn(&V, &V) -> Result<V, CkksError>,
) -> Result<EncryptedMatrix<V>, EncryptedMatrixError> {
    check_same(operation, a, b)?;
    let tiles = a.tiles().iter().zip(b.tiles()).map(|(x, y)| combine(x, y)).collect::<Result<_, _>>()?;
    Ok(a.result(a.shape(), tiles, clean))
}

//! Values that are known while a model is read: weights, shapes, labels.

use ndarray::{ArcArray, Axis, IxDyn};

use crate::error::Refusal;
use crate::graph::Tensor;
use crate::limits::{MAX_ELEMENTS, product};

/// An integer that is known while a model is read, or the number of rows of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// A known integer.
    Known(i64),
    /// The number of rows.
    Batch,
}

/// Integers of any shape.
pub(crate) type Wholes = ArcArray<Whole, IxDyn>;

/// A constant of a model. Clones share their numbers.
#[derive(Clone, Debug)]
pub(crate) enum Constant {
    /// Finite numbers.
    Float(Tensor),
    /// Integers, such as a shape or labels of classes.
    Int(Wholes),
    /// Truth values.
    Bool(ArcArray<bool, IxDyn>),
    /// Texts, such as labels of classes.
    Text(ArcArray<String, IxDyn>),
}

/// Computes the same for each type of numbers.
macro_rules! for_each_type {
    ($constant:expr, $array:ident => $result:expr) => {
        match $constant {
            Constant::Float($array) => Constant::Float($result),
            Constant::Int($array) => Constant::Int($result),
            Constant::Bool($array) => Constant::Bool($result),
            Constant::Text($array) => Constant::Text($result),
        }
    };
}
pub(crate) use for_each_type;

impl Constant {
    /// A tensor of integers with one axis.
    pub fn list(values: impl IntoIterator<Item = Whole>) -> Constant {
        Constant::Int(ArcArray::from_iter(values).into_dyn())
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        match self {
            Constant::Float(array) => array.shape(),
            Constant::Int(array) => array.shape(),
            Constant::Bool(array) => array.shape(),
            Constant::Text(array) => array.shape(),
        }
    }

    /// Bytes of an element, texts without their characters.
    pub fn width(&self) -> usize {
        match self {
            Constant::Float(_) => size_of::<f32>(),
            Constant::Int(_) => size_of::<Whole>(),
            Constant::Bool(_) => size_of::<bool>(),
            Constant::Text(_) => size_of::<String>(),
        }
    }

    /// How messages call the constant.
    pub fn name(&self) -> String {
        let kind = match self {
            Constant::Float(_) => "numbers",
            Constant::Int(_) => "integers",
            Constant::Bool(_) => "truth values",
            Constant::Text(_) => "texts",
        };
        format!("constant {kind} of shape {:?}", self.shape())
    }

    /// The numbers.
    ///
    /// # Errors
    /// If these are no floating-point numbers.
    pub fn floats(self) -> Result<Tensor, Refusal> {
        match self {
            Constant::Float(array) => Ok(array),
            other => Err(Refusal::broken(other.name(), "constant floating-point numbers")),
        }
    }

    /// One number.
    ///
    /// # Errors
    /// If these are no floating-point numbers, or not one.
    pub fn float(self) -> Result<f32, Refusal> {
        let name = self.name();
        let array = self.floats()?;
        match (array.len(), array.first()) {
            (1, Some(&number)) => Ok(number),
            _ => Err(Refusal::new(name, "one number", "use one number for all elements")),
        }
    }

    /// Integers of at most one axis, for shapes and axes.
    ///
    /// # Errors
    /// If there are other types or more axes.
    pub fn wholes(self) -> Result<Vec<Whole>, Refusal> {
        match self {
            Constant::Int(array) if array.ndim() <= 1 => Ok(array.iter().copied().collect()),
            other => Err(Refusal::broken(other.name(), "a list of constant integers")),
        }
    }

    /// Known integers of at most one axis.
    ///
    /// # Errors
    /// As for [`Constant::wholes`], and if one depends on the number of rows.
    pub fn ints(self) -> Result<Vec<i64>, Refusal> {
        self.wholes()?.into_iter().map(known).collect()
    }

    /// The same numbers in another shape.
    ///
    /// # Errors
    /// If the shape has another number of elements.
    pub fn reshape(self, shape: &[usize]) -> Result<Constant, Refusal> {
        product(shape, MAX_ELEMENTS)?;
        let name = self.name();
        let wrong = |_| Refusal::broken(name.clone(), format!("as many elements as shape {shape:?} has"));
        Ok(for_each_type!(self, array => {
            // Only axes in another order are copied.
            let array = if array.is_standard_layout() { array } else { array.as_standard_layout().to_shared() };
            array.into_shape_with_order(IxDyn(shape)).map_err(wrong)?
        }))
    }

    /// Whether the elements lie in memory in row-major order.
    pub fn is_in_order(&self) -> bool {
        match self {
            Constant::Float(array) => array.is_standard_layout(),
            Constant::Int(array) => array.is_standard_layout(),
            Constant::Bool(array) => array.is_standard_layout(),
            Constant::Text(array) => array.is_standard_layout(),
        }
    }

    /// The elements at these places of an axis. The caller has checked them and the size of the result.
    pub fn select(&self, axis: usize, places: &[usize]) -> Constant {
        for_each_type!(self, array => array.select(Axis(axis), places).into_shared())
    }
}

/// The integer.
///
/// # Errors
/// If it depends on the number of rows.
pub(crate) fn known(whole: Whole) -> Result<i64, Refusal> {
    match whole {
        Whole::Known(value) => Ok(value),
        Whole::Batch => Err(Refusal::new(
            "a number that depends on the number of rows",
            "a constant",
            "use the size of the batch only as the first dimension of a shape",
        )),
    }
}

/// An array of one axis.
pub(crate) fn list_of<T: Clone>(values: Vec<T>) -> ArcArray<T, IxDyn> {
    ArcArray::from_iter(values).into_dyn()
}

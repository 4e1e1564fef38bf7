//! Bytes of a model to checked messages and constants.

mod attributes;
mod external;
mod model;
mod numbers;
mod tensor;

pub(crate) use attributes::Attributes;
pub(crate) use external::Folder;
pub(crate) use model::{ML, checked_model, read_file};
pub(crate) use tensor::{finite, read_tensor};

#![doc = include_str!("../README.md")]

mod activation;
mod constant;
mod error;
mod finish;
mod fuse;
mod graph;
mod limits;
mod lower;
mod outputs;
mod read;
mod run;
mod split;

use std::path::Path;

use bytes::Bytes;

pub use activation::Activation;
pub use error::OnnxError;
pub use finish::{Answer, Comparison, Finish, FinishStep, Labels, Norm, Output, Source};
pub use graph::{Conv, Input, InputKind, LayerNorm, Linear, Network, Node, Operation, Tensor, ValueId, Window};
pub use outputs::Outputs;

use read::Folder;

mod proto {
    #![allow(missing_docs, clippy::enum_variant_names)]
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

impl Network {
    /// Reads a model from a file. Its files of external data must be in the same folder, or below it.
    ///
    /// # Errors
    /// [`OnnxError`] names the node, tensor, input or output that is damaged or not supported, what was found, what was
    /// needed and what to do.
    pub fn load(path: &Path) -> Result<Network, OnnxError> {
        Self::read(read::read_file(path)?, &Folder::of(path))
    }

    /// Reads a model without external data.
    ///
    /// # Errors
    /// As for [`Network::load`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Network, OnnxError> {
        Self::read(Bytes::from(bytes), &Folder::none())
    }

    fn read(bytes: Bytes, folder: &Folder) -> Result<Network, OnnxError> {
        let (graph, opset) = read::checked_model(bytes)?;
        let mut lowered = lower::lower(graph, opset, folder)?;
        fuse::fuse(&mut lowered);
        split::split(lowered)
    }
}

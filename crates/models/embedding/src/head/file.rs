//! The file of a head, described in `docs/model-format.md`.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use unspoken_store::{read_file, write_file};

use super::LinearHead;
use crate::error::EmbeddingError;
use crate::segment::SEGMENTATION_VERSION;

const WEIGHT: &str = "weight";
const BIAS: &str = "bias";
/// Key of the names of the classes in the metadata: a JSON list of strings.
const CLASSES: &str = "classes";
/// Key of the number of tokens that are read, in decimal digits.
const TOKENS: &str = "max_tokens";
/// Key of the version of the rules by which texts are split, in decimal digits.
const SEGMENTATION: &str = "segmentation";
/// Number of tokens that are read if the file does not say it.
const DEFAULT_TOKENS: usize = 128;
/// Maximum bytes of a file: above 1024 x 4096 numbers of 8 bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of tensor names that an error shows.
const NAMES_SHOWN: usize = 8;

impl LinearHead {
    /// Reads and checks a safetensors file: the tensors `weight` (classes x width) and `bias` (classes) of type F32 or
    /// F64, as `torch.nn.Linear` has them, and in the metadata `classes`, a JSON list of names, and possibly
    /// `max_tokens`, 128 by default, and `segmentation`, by default [`SEGMENTATION_VERSION`].
    ///
    /// # Errors
    /// [`EmbeddingError::Store`], [`EmbeddingError::Content`] if a part is missing, of another type or shape, or not of
    /// a linear head, or if texts were split by other rules, [`EmbeddingError::Field`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, EmbeddingError> {
        let path = path.as_ref();
        let refuse = |found: String, needed: &str| EmbeddingError::head_file(path, found, needed);
        let bytes = read_file(path, "a head", MAX_BYTES)?;
        let malformed = |error: safetensors::SafeTensorError| refuse(error.to_string(), "a safetensors file");
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(malformed)?;
        let file = SafeTensors::deserialize(&bytes).map_err(malformed)?;
        let mut names = file.names();
        names.sort_unstable();
        if names != [BIAS, WEIGHT] {
            let shown = names.iter().take(NAMES_SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let needed = "the tensors \"weight\" and \"bias\" of one linear layer and no others; hidden layers are not \
                          supported";
            return Err(refuse(format!("{} tensors: {shown}", names.len()), needed));
        }
        let none = HashMap::new();
        let metadata = metadata.metadata().as_ref().unwrap_or(&none);
        let needed = "\"classes\" in the metadata: a JSON list of names, such as [\"negative\",\"positive\"]";
        let classes = metadata.get(CLASSES).ok_or_else(|| refuse("no names of classes".into(), needed))?;
        let classes: Vec<String> = serde_json::from_str(classes)
            .map_err(|error| refuse(format!("names of classes that are no list ({error})"), needed))?;
        let max_tokens = match metadata.get(TOKENS) {
            None => DEFAULT_TOKENS,
            Some(text) => text.parse().map_err(|_| {
                refuse(format!("max_tokens {text:?} in the metadata"), "a power of two in decimal digits, such as 256")
            })?,
        };
        if let Some(version) =
            metadata.get(SEGMENTATION).filter(|&version| *version != SEGMENTATION_VERSION.to_string())
        {
            let needed =
                format!("version {SEGMENTATION_VERSION}: train the head again, or use the program that wrote it");
            return Err(refuse(format!("version {version:?} of the rules by which texts are split"), &needed));
        }
        let tensor = |name: &str| {
            let tensor = file.tensor(name).map_err(malformed)?;
            let values = numbers(&tensor).ok_or_else(|| {
                refuse(format!("type {} in tensor {name:?}", tensor.dtype()), "type F32 or F64; convert it")
            })?;
            Ok::<_, EmbeddingError>((tensor.shape().to_vec(), values))
        };
        let ((shape, weights), (bias_shape, bias)) = (tensor(WEIGHT)?, tensor(BIAS)?);
        let [rows, width] = shape[..] else {
            return Err(refuse(format!("shape {shape:?} of tensor \"weight\""), "two dimensions, classes and width"));
        };
        if rows != classes.len() || bias_shape != [rows] {
            let found = format!("shapes {shape:?} of \"weight\" and {bias_shape:?} of \"bias\"");
            let needed = format!("[{0}, width] and [{0}] for {0} names of classes", classes.len());
            return Err(refuse(found, &needed));
        }
        Self::new(classes, max_tokens, width, weights, bias)
    }

    /// Writes the file; its numbers are of type F64. A missing directory is created.
    ///
    /// # Errors
    /// [`EmbeddingError::Store`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), EmbeddingError> {
        let path = path.as_ref();
        let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let refuse = |error: String| EmbeddingError::head_file(path, error, "a head that safetensors can hold");
        let (weights, bias) = (bytes(self.weights()), bytes(self.bias()));
        let view = |shape: Vec<usize>, bytes| {
            TensorView::new(Dtype::F64, shape, bytes).map_err(|error| refuse(error.to_string()))
        };
        let tensors = [
            (WEIGHT, view(vec![self.classes().len(), self.width()], &weights)?),
            (BIAS, view(vec![self.classes().len()], &bias)?),
        ];
        let names = serde_json::to_string(self.classes()).map_err(|error| refuse(error.to_string()))?;
        let metadata = [
            (CLASSES, names),
            (TOKENS, self.max_tokens().to_string()),
            (SEGMENTATION, SEGMENTATION_VERSION.to_string()),
        ];
        let metadata = metadata.map(|(name, text)| (name.to_owned(), text)).into();
        let file = safetensors::serialize(tensors, Some(metadata)).map_err(|error| refuse(error.to_string()))?;
        Ok(write_file(path, &file)?)
    }
}

/// The numbers of a tensor; `None` for another type than F32 and F64.
fn numbers(tensor: &TensorView<'_>) -> Option<Vec<f64>> {
    match tensor.dtype() {
        Dtype::F32 => {
            let (values, _) = tensor.data().as_chunks();
            Some(values.iter().map(|&value| f64::from(f32::from_le_bytes(value))).collect())
        }
        Dtype::F64 => {
            let (values, _) = tensor.data().as_chunks();
            Some(values.iter().map(|&value| f64::from_le_bytes(value)).collect())
        }
        _ => None,
    }
}

//! GGUF files, the format of llama.cpp.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;

use candle_core::Device;
use candle_core::quantized::gguf_file::Content;
use ndarray::{Array1, Array2};

use unspoken_llama_model::{Config, Model, TensorName, Weights};

use crate::LoadedModel;
use crate::error::LoadError;
use crate::gguf_header::{self, HeaderError};
use crate::gguf_tokenizer::tokenizer;
use crate::metadata::Metadata;
use crate::rope::{RopeScaling, rope_frequencies};
use crate::unread::refuse_unread;

/// Maximum number of weights in a byte: Q2_K has 3.05.
const MAX_WEIGHTS_PER_BYTE: u64 = 4;

pub fn load(path: &Path) -> Result<LoadedModel, LoadError> {
    let file = File::open(path).map_err(LoadError::io(path))?;
    let length = file.metadata().map_err(LoadError::io(path))?.len();
    let mut reader = BufReader::new(file);
    gguf_header::check(&mut reader).map_err(|error| match error {
        HeaderError::Io(error) => LoadError::io(path)(error),
        HeaderError::Content { found, needed } => LoadError::content(path, found, needed),
    })?;
    reader.rewind().map_err(LoadError::io(path))?;
    let content = Content::read(&mut reader)
        .map_err(|error| LoadError::content(path, error.to_string(), "a whole GGUF file of version 1 to 3"))?;
    let metadata = Metadata { path, values: &content.metadata };
    let mut tensors = Tensors { path, content: &content, reader, read: HashSet::new() };
    let mut config = config(&metadata, &mut tensors)?;
    config.check().map_err(|(found, needed)| LoadError::content(path, found, needed))?;
    let stored = config.vocabulary;
    let tokenizer = tokenizer(&metadata, stored)?;
    let tied = !content.tensor_infos.contains_key(&name(TensorName::Head));
    // Several tensors may have the same place in a hostile file.
    let weights = config.parameters(tied);
    if weights as u64 / MAX_WEIGHTS_PER_BYTE > length {
        let found = format!("{weights} weights in {length} bytes");
        return Err(LoadError::content(path, found, "the weights of all tensors in the file"));
    }
    // Rows of tokens that are not used only fill the embedding up.
    config.vocabulary = tokenizer.vocabulary();
    let tensors = RefCell::new(tensors);
    let weights = Weights::read(
        &config,
        tied,
        |tensor, rows, columns| {
            let all = if matches!(tensor, TensorName::Embedding | TensorName::Head) { stored } else { rows };
            let mut values = tensors.borrow_mut().read(&name(tensor), &[all, columns])?;
            values.truncate(rows * columns);
            Ok(Array2::from_shape_vec((rows, columns), values).expect("as many numbers as entries"))
        },
        |tensor, length| Ok(Array1::from(tensors.borrow_mut().read(&name(tensor), &[length])?)),
    )?;
    refuse_unread(path, tensors.borrow().unread())?;
    Ok(LoadedModel { model: Model { config, weights }, tokenizer })
}

/// The name of a tensor in the file.
fn name(tensor: TensorName) -> String {
    match tensor {
        TensorName::Embedding => "token_embd.weight".into(),
        TensorName::AttentionNorm(layer) => format!("blk.{layer}.attn_norm.weight"),
        TensorName::Query(layer) => format!("blk.{layer}.attn_q.weight"),
        TensorName::Key(layer) => format!("blk.{layer}.attn_k.weight"),
        TensorName::Value(layer) => format!("blk.{layer}.attn_v.weight"),
        TensorName::Output(layer) => format!("blk.{layer}.attn_output.weight"),
        TensorName::FfnNorm(layer) => format!("blk.{layer}.ffn_norm.weight"),
        TensorName::Gate(layer) => format!("blk.{layer}.ffn_gate.weight"),
        TensorName::Up(layer) => format!("blk.{layer}.ffn_up.weight"),
        TensorName::Down(layer) => format!("blk.{layer}.ffn_down.weight"),
        TensorName::Norm => "output_norm.weight".into(),
        TensorName::Head => "output.weight".into(),
    }
}

/// Name of the divisors of RoPE's angles, which files of Llama 3.1 and later hold.
const ROPE_DIVISORS: &str = "rope_freqs.weight";

/// The tensors of a file.
struct Tensors<'a> {
    path: &'a Path,
    content: &'a Content,
    reader: BufReader<File>,
    /// Tensors that were read.
    read: HashSet<String>,
}

impl Tensors<'_> {
    /// Reads and dequantises a tensor of a shape, the longest stride first.
    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let wrong = |found: String| LoadError::content(self.path, found, format!("a tensor {name} of shape {shape:?}"));
        let info = self.content.tensor_infos.get(name).ok_or_else(|| wrong("no such tensor".into()))?;
        if info.shape.dims() != shape {
            return Err(wrong(format!("shape {:?}", info.shape.dims())));
        }
        let read = info.read(&mut self.reader, self.content.tensor_data_offset, &Device::Cpu);
        let values = read
            .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>())
            .map_err(|error| wrong(error.to_string()))?;
        if values.iter().any(|value| !value.is_finite()) {
            return Err(wrong("a weight that is not finite".into()));
        }
        self.read.insert(name.to_owned());
        Ok(values)
    }

    /// Tensors that were not read.
    fn unread(&self) -> Vec<&str> {
        self.content.tensor_infos.keys().filter(|name| !self.read.contains(*name)).map(String::as_str).collect()
    }
}

fn config(metadata: &Metadata, tensors: &mut Tensors) -> Result<Config, LoadError> {
    let architecture = metadata.text("general.architecture")?;
    if architecture != "llama" {
        let found = format!("architecture {architecture:?}");
        return Err(LoadError::content(metadata.path, found, "\"llama\": other architectures are not supported"));
    }
    let experts = metadata.optional_number("llama.expert_count")?.unwrap_or(0);
    if experts > 0 {
        let found = format!("a mixture of {experts} experts");
        return Err(LoadError::content(metadata.path, found, "a dense model"));
    }
    let (width, heads) = (metadata.number("llama.embedding_length")?, metadata.number("llama.attention.head_count")?);
    let head_width = match metadata.optional_number("llama.attention.key_length")? {
        Some(width) => width,
        None => width.checked_div(heads).unwrap_or(0),
    };
    let rotated = metadata.optional_number("llama.rope.dimension_count")?.unwrap_or(head_width);
    if rotated != head_width || head_width > 1 << 16 {
        let found = format!("RoPE on {rotated} of {head_width} coordinates");
        return Err(LoadError::content(metadata.path, found, "RoPE on all of at most 65536 coordinates of a head"));
    }
    let vocabulary = match metadata.optional_number("llama.vocab_size")? {
        Some(size) => size,
        None => metadata.texts("tokenizer.ggml.tokens")?.len(),
    };
    let base = metadata.optional_real("llama.rope.freq_base")?.unwrap_or(10_000.0);
    let mut frequencies = rope_frequencies(base, head_width);
    scale(metadata, tensors, &mut frequencies)?;
    Ok(Config {
        width,
        layers: metadata.number("llama.block_count")?,
        heads,
        kv_heads: metadata.optional_number("llama.attention.head_count_kv")?.unwrap_or(heads),
        head_width,
        ffn_width: metadata.number("llama.feed_forward_length")?,
        vocabulary,
        context: metadata.number("llama.context_length")?,
        norm_epsilon: metadata.optional_real("llama.attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5) as f32,
        rope_frequencies: frequencies,
    })
}

/// Scales the angles of RoPE as the file says.
fn scale(metadata: &Metadata, tensors: &mut Tensors, frequencies: &mut [f64]) -> Result<(), LoadError> {
    if tensors.content.tensor_infos.contains_key(ROPE_DIVISORS) {
        let divisors = tensors.read(ROPE_DIVISORS, &[frequencies.len()])?;
        for (frequency, divisor) in frequencies.iter_mut().zip(divisors) {
            *frequency /= f64::from(divisor);
        }
    }
    // As in llama.cpp: a factor without a type is linear, older files have another key, and 0 is no factor.
    match metadata.optional_text("llama.rope.scaling.type")?.unwrap_or("linear") {
        "none" => {}
        "linear" => {
            let factor = match metadata.optional_real("llama.rope.scaling.factor")? {
                Some(factor) => Some(factor),
                None => metadata.optional_real("llama.rope.scale_linear")?,
            };
            let factor = factor.filter(|factor| *factor != 0.0).unwrap_or(1.0);
            if !(factor.is_finite() && factor > 0.0) {
                return Err(LoadError::content(
                    metadata.path,
                    format!("RoPE scaling by {factor}"),
                    "a positive factor",
                ));
            }
            let scaling = RopeScaling::Linear { factor };
            frequencies.iter_mut().for_each(|frequency| *frequency = scaling.apply(*frequency));
        }
        other => {
            let found = format!("RoPE scaling {other:?}");
            return Err(LoadError::content(metadata.path, found, "\"none\", \"linear\", or divisors in the file"));
        }
    }
    Ok(())
}

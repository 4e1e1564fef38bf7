//! GGUF files, the format of llama.cpp.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;

use candle_core::Device;
use candle_core::quantized::gguf_file::Content;
use ndarray::{Array1, Array2, Axis};

use unspoken_llama_model::{Attention, Config, Model, TensorName, Weights};

use crate::LoadedModel;
use crate::error::LoadError;
use crate::gguf_header::{self, HeaderError};
use crate::gguf_tokenizer::tokenizer;
use crate::metadata::Metadata;
use crate::rope::{RopeScaling, adjacent_pairs, rope_frequencies};
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
    let family = family(&metadata)?;
    let mut config = config(&metadata, &family, &mut tensors)?;
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
            let matrix = Array2::from_shape_vec((rows, columns), values).expect("as many numbers as entries");
            Ok(match order(&config, &family, tensor, rows) {
                Some(order) => matrix.select(Axis(0), &order),
                None => matrix,
            })
        },
        |tensor, length| {
            let vector = Array1::from(tensors.borrow_mut().read(&name(tensor), &[length])?);
            Ok(match order(&config, &family, tensor, length) {
                Some(order) => vector.select(Axis(0), &order),
                None => vector,
            })
        },
    )?;
    refuse_unread(path, tensors.borrow().unread())?;
    Ok(LoadedModel { model: Model { config, weights }, tokenizer })
}

/// A family of models, as llama.cpp has them.
struct Family {
    /// The name of the architecture, which the keys of its dimensions begin with.
    name: &'static str,
    /// Whether the file turns row `i` of a head against row `i + head_width / 2`, and not adjacent rows.
    halves: bool,
    /// Whether queries, keys and values have biases. In files of Llama they may have them.
    biases: bool,
    /// Whether each head of queries and keys has a norm.
    head_norms: bool,
}

const FAMILIES: [Family; 3] = [
    Family { name: "llama", halves: false, biases: false, head_norms: false },
    Family { name: "qwen2", halves: true, biases: true, head_norms: false },
    Family { name: "qwen3", halves: true, biases: false, head_norms: true },
];

fn family(metadata: &Metadata) -> Result<Family, LoadError> {
    let architecture = metadata.text("general.architecture")?;
    FAMILIES.into_iter().find(|family| family.name == architecture).ok_or_else(|| {
        let names: Vec<String> = FAMILIES.iter().map(|family| format!("{:?}", family.name)).collect();
        let needed = format!("one of {}: other architectures are not supported", names.join(", "));
        LoadError::content(metadata.path, format!("architecture {architecture:?}"), needed)
    })
}

/// The order in which rows of a tensor are read, if it is not theirs.
fn order(config: &Config, family: &Family, tensor: TensorName, rows: usize) -> Option<Vec<usize>> {
    let turned = matches!(
        tensor,
        TensorName::Query(_)
            | TensorName::Key(_)
            | TensorName::QueryBias(_)
            | TensorName::KeyBias(_)
            | TensorName::QueryNorm(_)
            | TensorName::KeyNorm(_)
    );
    (turned && family.halves).then(|| adjacent_pairs(rows, config.head_width, config.head_width))
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
        TensorName::QueryBias(layer) => format!("blk.{layer}.attn_q.bias"),
        TensorName::KeyBias(layer) => format!("blk.{layer}.attn_k.bias"),
        TensorName::ValueBias(layer) => format!("blk.{layer}.attn_v.bias"),
        TensorName::OutputBias(layer) => format!("blk.{layer}.attn_output.bias"),
        TensorName::QueryNorm(layer) => format!("blk.{layer}.attn_q_norm.weight"),
        TensorName::KeyNorm(layer) => format!("blk.{layer}.attn_k_norm.weight"),
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

fn config(metadata: &Metadata, family: &Family, tensors: &mut Tensors) -> Result<Config, LoadError> {
    let of = |key: &str| format!("{}.{key}", family.name);
    let experts = metadata.optional_number(&of("expert_count"))?.unwrap_or(0);
    if experts > 0 {
        let found = format!("a mixture of {experts} experts");
        return Err(LoadError::content(metadata.path, found, "a dense model"));
    }
    let (width, heads) = (metadata.number(&of("embedding_length"))?, metadata.number(&of("attention.head_count"))?);
    let head_width = match metadata.optional_number(&of("attention.key_length"))? {
        Some(width) => width,
        None => width.checked_div(heads).unwrap_or(0),
    };
    let rotated = metadata.optional_number(&of("rope.dimension_count"))?.unwrap_or(head_width);
    if rotated != head_width || head_width > 1 << 16 {
        let found = format!("RoPE on {rotated} of {head_width} coordinates");
        return Err(LoadError::content(metadata.path, found, "RoPE on all of at most 65536 coordinates of a head"));
    }
    let vocabulary = match metadata.optional_number(&of("vocab_size"))? {
        Some(size) => size,
        None => metadata.texts("tokenizer.ggml.tokens")?.len(),
    };
    let base = metadata.optional_real(&of("rope.freq_base"))?.unwrap_or(10_000.0);
    let mut frequencies = rope_frequencies(base, head_width);
    scale(metadata, family, tensors, &mut frequencies)?;
    let has = |tensor: TensorName| tensors.content.tensor_infos.contains_key(&name(tensor));
    let inputs = [TensorName::QueryBias(0), TensorName::KeyBias(0), TensorName::ValueBias(0)];
    Ok(Config {
        width,
        layers: metadata.number(&of("block_count"))?,
        heads,
        kv_heads: metadata.optional_number(&of("attention.head_count_kv"))?.unwrap_or(heads),
        head_width,
        ffn_width: metadata.number(&of("feed_forward_length"))?,
        vocabulary,
        context: metadata.number(&of("context_length"))?,
        norm_epsilon: metadata.optional_real(&of("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-5) as f32,
        rope_frequencies: frequencies,
        attention: Attention {
            input_biases: family.biases || inputs.into_iter().all(has),
            output_bias: has(TensorName::OutputBias(0)),
            head_norms: family.head_norms,
            ..Attention::default()
        },
    })
}

/// Scales the angles of RoPE as the file says.
fn scale(
    metadata: &Metadata,
    family: &Family,
    tensors: &mut Tensors,
    frequencies: &mut [f64],
) -> Result<(), LoadError> {
    let of = |key: &str| format!("{}.rope.{key}", family.name);
    if tensors.content.tensor_infos.contains_key(ROPE_DIVISORS) {
        let divisors = tensors.read(ROPE_DIVISORS, &[frequencies.len()])?;
        for (frequency, divisor) in frequencies.iter_mut().zip(divisors) {
            *frequency /= f64::from(divisor);
        }
    }
    // As in llama.cpp: a factor without a type is linear, older files have another key, and 0 is no factor.
    match metadata.optional_text(&of("scaling.type"))?.unwrap_or("linear") {
        "none" => {}
        "linear" => {
            let factor = match metadata.optional_real(&of("scaling.factor"))? {
                Some(factor) => Some(factor),
                None => metadata.optional_real(&of("scale_linear"))?,
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

//! Checkpoints of llama2.c: seven numbers, then 32-bit floating point.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use ndarray::{Array1, Array2};

use unspoken_llama_model::{Attention, AttentionVectors, Config, LayerWeights, Model, Tokenizer, Weights};

use crate::LoadedModel;
use crate::error::LoadError;
use crate::rope::rope_frequencies;
use crate::tokenizer::{Piece, TokenKind, from_scores};

/// The base of RoPE and the constant of the norms, which the format does not hold.
const ROPE_BASE: f64 = 10_000.0;
const NORM_EPSILON: f32 = 1e-5;
/// Begin of text and end of text in the tokenizers of llama2.c.
const BEGIN: u32 = 1;
const END: u32 = 2;

pub fn load(path: &Path, tokenizer: Option<&Path>) -> Result<LoadedModel, LoadError> {
    let (config, tied) = header(path)?;
    let weights = weights(path, &config, tied)?;
    let tokenizer = match tokenizer {
        Some(path) => path.to_path_buf(),
        None => find_tokenizer(path)?,
    };
    let tokenizer = read_tokenizer(&tokenizer, config.vocabulary)?;
    Ok(LoadedModel { model: Model { config, weights }, tokenizer })
}

/// Reads the seven numbers. A negative vocabulary means that the head is not the embedding.
fn header(path: &Path) -> Result<(Config, bool), LoadError> {
    let mut bytes = [0; 28];
    let mut file = File::open(path).map_err(LoadError::io(path))?;
    file.read_exact(&mut bytes).map_err(LoadError::io(path))?;
    let needed = "a GGUF file, a directory with config.json, or a checkpoint of llama2.c (version 0)";
    let [width, ffn_width, layers, heads, kv_heads, vocabulary, context] =
        std::array::from_fn(|i| i32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * i + byte])));
    let number = |name: &str, value: i32| {
        usize::try_from(value).map_err(|_| LoadError::content(path, format!("{name} {value}"), needed))
    };
    let (width, heads) = (number("width", width)?, number("number of heads", heads)?);
    if heads == 0 || !width.is_multiple_of(heads) {
        return Err(LoadError::content(path, format!("width {width} and {heads} heads"), needed));
    }
    let config = Config {
        width,
        layers: number("number of layers", layers)?,
        heads,
        kv_heads: number("number of key heads", kv_heads)?,
        head_width: width / heads,
        ffn_width: number("width of the feed-forward network", ffn_width)?,
        vocabulary: vocabulary.unsigned_abs() as usize,
        context: number("context", context)?,
        norm_epsilon: NORM_EPSILON,
        rope_frequencies: if width / heads > 1 << 16 { vec![] } else { rope_frequencies(ROPE_BASE, width / heads) },
        attention: Attention::default(),
    };
    config.check().map_err(|(found, _)| LoadError::content(path, found, needed))?;
    let tied = vocabulary > 0;
    // The tables of RoPE, which are skipped, have one number for each position and coordinate of a head.
    let numbers = config.parameters(tied) + config.context * config.head_width;
    let length = file.metadata().map_err(LoadError::io(path))?.len();
    if length != 28 + 4 * numbers as u64 {
        return Err(LoadError::content(
            path,
            format!("{length} bytes"),
            format!("{} bytes for the dimensions in its header, if it is a checkpoint of llama2.c", 28 + 4 * numbers),
        ));
    }
    Ok((config, tied))
}

/// Reads the tensors. Tensors of one kind lie together for all layers.
fn weights(path: &Path, config: &Config, tied: bool) -> Result<Weights, LoadError> {
    let file = File::open(path).map_err(LoadError::io(path))?;
    let mut reader = Numbers { path, reader: BufReader::new(file) };
    reader.skip(28)?;
    let (width, kv, ffn) = (config.width, config.kv_width(), config.ffn_width);
    let layers = config.layers;
    let embedding = reader.matrix(config.vocabulary, width)?;
    let attention_norms = reader.matrix(layers, width)?;
    let mut matrices = |rows, columns| (0..layers).map(|_| reader.matrix(rows, columns)).collect::<Result<Vec<_>, _>>();
    let (query, key, value) = (matrices(width, width)?, matrices(kv, width)?, matrices(kv, width)?);
    let output = matrices(width, width)?;
    let ffn_norms = reader.matrix(layers, width)?;
    let mut matrices = |rows, columns| (0..layers).map(|_| reader.matrix(rows, columns)).collect::<Result<Vec<_>, _>>();
    let (gate, down, up) = (matrices(ffn, width)?, matrices(width, ffn)?, matrices(ffn, width)?);
    let norm = Array1::from(reader.numbers(width)?);
    let head = if tied {
        None
    } else {
        reader.skip(4 * (config.context * config.head_width) as u64)?;
        Some(reader.matrix(config.vocabulary, width)?)
    };
    let parts = query.into_iter().zip(key).zip(value).zip(output).zip(gate).zip(down).zip(up);
    let layers = parts
        .enumerate()
        .map(|(layer, ((((((query, key), value), output), gate), down), up))| LayerWeights {
            attention_norm: attention_norms.row(layer).to_owned(),
            query,
            key,
            value,
            output,
            ffn_norm: ffn_norms.row(layer).to_owned(),
            gate,
            up,
            down,
            attention: AttentionVectors::default(),
        })
        .collect();
    Ok(Weights { embedding, layers, norm, head })
}

/// Reads 32-bit floating-point numbers in little-endian order.
struct Numbers<'a> {
    path: &'a Path,
    reader: BufReader<File>,
}

impl Numbers<'_> {
    fn skip(&mut self, bytes: u64) -> Result<(), LoadError> {
        let skipped = std::io::copy(&mut self.reader.by_ref().take(bytes), &mut std::io::sink());
        skipped.map(drop).map_err(LoadError::io(self.path))
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<f32>, LoadError> {
        let mut bytes = vec![0; 4 * count];
        self.reader.read_exact(&mut bytes).map_err(LoadError::io(self.path))?;
        let (words, _) = bytes.as_chunks::<4>();
        let numbers: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(LoadError::content(self.path, "a weight that is not finite", "finite weights"));
        }
        Ok(numbers)
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Result<Array2<f32>, LoadError> {
        let numbers = self.numbers(rows * columns)?;
        Ok(Array2::from_shape_vec((rows, columns), numbers).expect("as many numbers as entries"))
    }
}

/// The only file of the directory whose name begins with `tok` and ends with `.bin`.
fn find_tokenizer(path: &Path) -> Result<PathBuf, LoadError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = vec![];
    for entry in fs::read_dir(directory).map_err(LoadError::io(directory))? {
        let entry = entry.map_err(LoadError::io(directory))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("tok") && name.ends_with(".bin") && entry.path() != path {
            found.push(entry.path());
        }
    }
    match found.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(LoadError::content(
            directory,
            format!("{} files whose names fit tok*.bin", found.len()),
            "one, the tokenizer of the model; name it with --tokenizer",
        )),
    }
}

/// Reads a tokenizer: the length of the longest token, then a score, a length and bytes for each token.
fn read_tokenizer(path: &Path, vocabulary: usize) -> Result<Tokenizer, LoadError> {
    let bytes = fs::read(path).map_err(LoadError::io(path))?;
    let cut = |token: usize| {
        LoadError::content(path, format!("an end within token {token}"), format!("{vocabulary} tokens of llama2.c"))
    };
    let mut rest = bytes.get(4..).ok_or_else(|| cut(0))?;
    let mut pieces = Vec::with_capacity(vocabulary);
    for token in 0..vocabulary {
        let (score, length) = (rest.split_first_chunk::<4>(), rest.get(4..8));
        let (Some((score, _)), Some(length)) = (score, length) else { return Err(cut(token)) };
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        let text = rest.get(8..8 + length).ok_or_else(|| cut(token))?;
        let text = std::str::from_utf8(text).map_err(|_| {
            LoadError::content(path, format!("token {token}, which is not UTF-8"), "tokens of UTF-8 text")
        })?;
        let kind = if [BEGIN, END].contains(&(token as u32)) { TokenKind::Control } else { TokenKind::Text };
        pieces.push(Piece { text: text.to_owned(), score: f32::from_le_bytes(*score), kind });
        rest = &rest[8 + length..];
    }
    from_scores(pieces, true, Some(BEGIN), &[BEGIN, END])
        .map_err(|found| LoadError::content(path, found, "the tokenizer of a llama2.c model"))
}

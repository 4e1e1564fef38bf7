//! Directories of Hugging Face: `config.json`, `tokenizer.json` and safetensors.

mod bounds;
mod config;
mod files;
mod json_file;
mod json_scaling;
mod rope;

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use ndarray::{Array1, Array2, Axis};
use unspoken_llama_model::{Config, Model, TensorName, Tokenizer, Weights};

use crate::LoadedModel;
use crate::error::LoadError;
use crate::rope::adjacent_pairs;
use crate::safetensors::json_file::required;
use crate::unread::refuse_unread;
use config::{Family, Json};
use files::Files;

pub fn load(directory: &Path) -> Result<LoadedModel, LoadError> {
    let path = directory.join("config.json");
    let json: Json = required(&path, "the configuration of a model")?;
    let config = json.config().and_then(|config| config.check().map(|()| config));
    let mut config = config.map_err(|(found, needed)| LoadError::content(&path, found, needed))?;
    let rows = config.vocabulary;
    let tokenizer = tokenizer(directory, &json, rows)?;
    // Rows that no token has only fill the embedding up.
    config.vocabulary = tokenizer.vocabulary();
    let weights = weights(directory, &json, &config, rows)?;
    Ok(LoadedModel { model: Model { config, weights }, tokenizer })
}

/// The tokenizer of a model whose embedding has a number of rows.
fn tokenizer(directory: &Path, json: &Json, rows: usize) -> Result<Tokenizer, LoadError> {
    let path = directory.join("tokenizer.json");
    let text = fs::read(&path).map_err(LoadError::io(&path))?;
    let tokenizer = Tokenizer::from_json_within(&text, rows)
        .map_err(|found| LoadError::content(&path, found, "a tokenizer.json"))?;
    let tokens = tokenizer.vocabulary();
    if tokens == 0 || tokens > rows {
        let needed = format!("1 to {rows}, the vocabulary of config.json");
        return Err(LoadError::content(path, format!("{tokens} tokens"), needed));
    }
    if let Some(id) = (0..tokens as u32).find(|id| tokenizer.token_text(*id).is_none()) {
        let needed = format!("a token for each id below {tokens}: the model may choose any");
        return Err(LoadError::content(path, format!("no token with id {id}"), needed));
    }
    bounds::find(directory, json, tokenizer)
}

/// The weights, from an embedding and a head of a number of rows, of which the first are used. Every tensor is used.
fn weights(directory: &Path, json: &Json, config: &Config, rows: usize) -> Result<Weights, LoadError> {
    let mut files = Files::open(directory)?;
    let head = files.name(TensorName::Head);
    let tied = json.tie_word_embeddings.unwrap_or(false);
    if !tied && !files.contains(&head) {
        let needed = "it, as config.json does not have \"tie_word_embeddings\": true";
        return Err(LoadError::content(directory, format!("no tensor {head}"), needed));
    }
    let cell = RefCell::new(&mut files);
    // These files rotate coordinates `i` and `i + rotated / 2` by one angle.
    let family = json.family().map_err(|(found, needed)| LoadError::content(directory, found, needed))?;
    let rotated = json.rotated(config.head_width, family == Family::Phi3);
    let rotated = rotated.map_err(|(found, needed)| LoadError::content(directory, found, needed))?;
    let pairs = |rows: usize| adjacent_pairs(rows, config.head_width, rotated);
    let matrix = |tensor: TensorName, wanted: usize, columns: usize| {
        let mut files = cell.borrow_mut();
        let (name, first, stored) = match fused(config, tensor).filter(|_| family == Family::Phi3) {
            Some((layer, part, first, stored)) => (files.in_layer(layer, part), first, stored),
            None if matches!(tensor, TensorName::Embedding | TensorName::Head) => (files.name(tensor), 0, rows),
            None => (files.name(tensor), 0, wanted),
        };
        let mut values = files.read(&name, &[stored, columns])?;
        values.drain(..first * columns);
        values.truncate(wanted * columns);
        Ok::<_, LoadError>(Array2::from_shape_vec((wanted, columns), values).expect("as many numbers as entries"))
    };
    let weights = Weights::read(
        config,
        tied,
        |tensor, wanted, columns| match tensor {
            TensorName::Query(_) | TensorName::Key(_) => {
                Ok(matrix(tensor, wanted, columns)?.select(Axis(0), &pairs(wanted)))
            }
            _ => matrix(tensor, wanted, columns),
        },
        |tensor, length| {
            let mut files = cell.borrow_mut();
            let name = files.name(tensor);
            let vector = Array1::from(files.read(&name, &[length])?);
            Ok(match tensor {
                TensorName::QueryBias(_)
                | TensorName::KeyBias(_)
                | TensorName::QueryNorm(_)
                | TensorName::KeyNorm(_) => vector.select(Axis(0), &pairs(length)),
                _ => vector,
            })
        },
    )?;
    if tied && files.contains(&head) {
        let values = files.read(&head, &[rows, config.width])?;
        if !weights.embedding.iter().zip(&values).all(|(one, other)| one == other) {
            let found = format!("a tensor {head} that is not the embedding");
            let needed = "the embedding, as config.json has \"tie_word_embeddings\": true; set that to false if the \
                          tensor is right";
            return Err(LoadError::content(directory, found, needed));
        }
    }
    rope::check_angles(&mut files, json, config)?;
    refuse_unread(directory, files.unread())?;
    Ok(weights)
}

/// Where files of Phi 3 have the matrix of a map: the layer, the name of the tensor, its first row, and all rows of the
/// tensor. `None` if it has a tensor of its own.
fn fused(config: &Config, tensor: TensorName) -> Option<(usize, &'static str, usize, usize)> {
    let (query, kv, ffn) = (config.query_width(), config.kv_width(), config.ffn_width);
    let (inputs, gates) = ("self_attn.qkv_proj", "mlp.gate_up_proj");
    Some(match tensor {
        TensorName::Query(layer) => (layer, inputs, 0, query + 2 * kv),
        TensorName::Key(layer) => (layer, inputs, query, query + 2 * kv),
        TensorName::Value(layer) => (layer, inputs, query + kv, query + 2 * kv),
        TensorName::Gate(layer) => (layer, gates, 0, 2 * ffn),
        TensorName::Up(layer) => (layer, gates, ffn, 2 * ffn),
        _ => return None,
    })
}

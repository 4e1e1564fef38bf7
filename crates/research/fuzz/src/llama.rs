//! Targets for the files of language models: GGUF, safetensors with their configuration and tokenizer, and checkpoints
//! of llama2.c.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, LazyLock};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use serde_json::json;
use unspoken_llama::{Circuit, DesignOptions, Preparation, Sample, calibrate};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{ClientModel, KvCache, RotatedModel, Tokenizer};

use crate::Target;
use crate::embedding::repair_safetensors;
use crate::files::{self, Directory};

/// Dimensions of the seeds.
const WIDTH: usize = 32;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const FFN: usize = 32;
const CONTEXT: usize = 8;
/// Tokens of the seeds. The last two are bytes.
const TOKENS: [&str; 9] = ["<unk>", "<s>", "</s>", "\u{2581}", "a", "b", "ab", "<0xC3>", "<0xA9>"];

const GGUF_FILE: [&str; 1] = ["model.gguf"];
const CHECKPOINT_FILES: [&str; 2] = ["model.bin", "tok.bin"];
const DIRECTORY_FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

/// `load` of a GGUF file: a pass has the shapes of the configuration, and the tokenizer reads text.
pub static GGUF: Target = Target {
    name: "llama_gguf",
    run: |data| accepts(data, &GGUF_FILE, GGUF_FILE[0]),
    repair: |data| {
        let mut read = files::copied(data, GGUF_FILE.len());
        if let Some(front) = read[0].first_chunk_mut::<8>() {
            *front = *b"GGUF\x03\0\0\0";
        }
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || {
        [GgmlDType::F32, GgmlDType::Q4_1].into_iter().flat_map(|kind| [gguf(kind, true), gguf(kind, false)]).collect()
    },
};

/// `load` of a checkpoint of llama2.c, with its tokenizer: as [`GGUF`].
pub static CHECKPOINT: Target = Target {
    name: "llama_checkpoint",
    run: |data| accepts(data, &CHECKPOINT_FILES, CHECKPOINT_FILES[0]),
    repair: |data| {
        let mut read = files::copied(data, CHECKPOINT_FILES.len());
        repair_checkpoint(&mut read[0]);
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || {
        let of = |vocabulary| {
            checkpoint([WIDTH as i32, FFN as i32, 1, HEADS as i32, KV_HEADS as i32, vocabulary, CONTEXT as i32])
        };
        vec![of(TOKENS.len() as i32), of(-(TOKENS.len() as i32))]
    },
};

/// `load` of a directory with `config.json`, `tokenizer.json` and safetensors: as [`GGUF`].
pub static SAFETENSORS: Target = Target {
    name: "llama_safetensors",
    run: |data| accepts(data, &DIRECTORY_FILES, "."),
    repair: |data| {
        let mut read = files::copied(data, DIRECTORY_FILES.len());
        repair_safetensors(&mut read[2]);
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || vec![directory()],
};

/// `Preparation::from_bytes`: same bytes again; a design of polynomials, if it is a small one, is made or refused.
pub static PREPARATION: Target = Target {
    name: "llama_preparation",
    run: |data| {
        let read = files::copied(data, 2);
        let Ok(preparation) = Preparation::from_bytes(&read[0], &read[1]) else { return false };
        let (record, ranges) = (preparation.record_bytes().expect("JSON"), preparation.ranges_bytes().expect("ranges"));
        // Numbers that are not finite cannot be written; the checks refuse them.
        let again = Preparation::from_bytes(&record, &ranges).expect("what was accepted before");
        assert_eq!(again, preparation);
        let small = preparation.options.degrees.iter().all(|degree| *degree < 64);
        if small && preparation.config.layers <= 2 && ranges.len() < 1 << 16 {
            let _ = preparation.design();
        }
        true
    },
    repair: |data| {
        let mut read = files::copied(data, 2);
        repair_padded_safetensors(&mut read[1]);
        *data = files::join(read.iter().map(Vec::as_slice));
    },
    seeds: || vec![preparation()],
};

/// Repairs the length of the header of a safetensors file whose tensors may contain a brace, but hardly two in a row.
/// The header is padded to a multiple of 8 bytes.
pub fn repair_padded_safetensors(file: &mut [u8]) {
    let end = file.windows(2).rposition(|pair| pair == b"}}");
    if let (Some(end), Some(length)) = (end, file.first_chunk_mut::<8>()) {
        *length = (end.saturating_sub(6) as u64).next_multiple_of(8).to_le_bytes();
    }
}

/// A preparation, and both halves of its model.
pub struct Prepared {
    /// The preparation.
    pub preparation: Preparation,
    /// The server's half.
    pub rotated: RotatedModel,
    /// The client's half.
    pub client: Arc<ClientModel>,
}

/// A preparation of a model with one small layer.
pub static PREPARED: LazyLock<Prepared> = LazyLock::new(|| {
    let vocabulary = TOKENS.len() as u32;
    let LoadedModel { model, tokenizer } = small_model(true);
    let text = |seed: u32| (0..16u32).map(move |place| (place * place + seed * place) % vocabulary);
    let sample = |seed| Sample { public: text(seed).take(4).collect(), private: text(seed).skip(4).collect() };
    let samples: Vec<Sample> = (0..9).map(sample).collect();
    let ranges = calibrate(&Circuit::new(&model.config), &model, &samples, 8, |_| {}).expect("texts that fit");
    let preparation = Preparation {
        config: model.config.clone(),
        weights: model.weights.digest(),
        prefix: vec![1],
        seed: 1,
        least_public: Some(0),
        rounds: Circuit::ROUNDS,
        options: DesignOptions { degrees: vec![7, 15, 31], bits: 8.0, ..DesignOptions::default() },
        ranges,
    };
    let rotated = RotatedModel::new(model, preparation.prefix.clone());
    let client = Arc::new(ClientModel::new(&rotated, tokenizer));
    Prepared { preparation, rotated, client }
});

/// A model with one small layer.
pub fn small_model(tied: bool) -> LoadedModel {
    let vocabulary = TOKENS.len() as i32 * if tied { 1 } else { -1 };
    let directory = Directory::of(&checkpoint([4, 6, 1, 2, 1, vocabulary, 16]), &CHECKPOINT_FILES);
    load(&directory.path().join(CHECKPOINT_FILES[0]), None).expect("a checkpoint")
}

/// The files of the preparation.
fn preparation() -> Vec<u8> {
    let preparation = &PREPARED.preparation;
    let files = [preparation.record_bytes().expect("JSON"), preparation.ranges_bytes().expect("ranges")];
    files::join(files.iter().map(Vec::as_slice))
}

/// Writes the files, loads the model at the path and uses it if it was accepted.
fn accepts(data: &[u8], names: &[&str], path: &str) -> bool {
    let directory = Directory::of(data, names);
    let Ok(LoadedModel { model, tokenizer }) = load(&directory.path().join(path), None) else { return false };
    let config = &model.config;
    let last = config.vocabulary as u32 - 1;
    let tokens = &[0, last][..config.context.min(2)];
    let mut cache = KvCache::new(config);
    let normed = model.forward(tokens, &mut cache, &mut ()).expect("tokens of the vocabulary");
    assert_eq!((normed.dim(), cache.len()), ((tokens.len(), config.width), tokens.len()));
    assert_eq!(model.logits(normed.view()).dim(), (tokens.len(), config.vocabulary));
    assert!(model.forward(&[last + 1], &mut cache, &mut ()).is_err(), "a token outside the vocabulary");
    read_text(&tokenizer);
    true
}

/// Reads a text with a tokenizer, and writes its tokens as text again.
pub fn read_text(tokenizer: &Tokenizer) {
    if let Ok(tokens) = tokenizer.encode("ab  caf\u{e9} 12\n<s>") {
        let _ = tokenizer.decode(&tokens);
        if let Ok(mut stream) = tokenizer.stream(&[]) {
            tokens.iter().for_each(|token| drop(stream.push(*token)));
        }
    }
}

/// The tensors of a layer as their names in GGUF and in safetensors, and their shapes.
fn layer() -> [(&'static str, &'static str, Vec<usize>); 9] {
    let kv = WIDTH / HEADS * KV_HEADS;
    [
        ("attn_norm", "input_layernorm", vec![WIDTH]),
        ("attn_q", "self_attn.q_proj", vec![WIDTH, WIDTH]),
        ("attn_k", "self_attn.k_proj", vec![kv, WIDTH]),
        ("attn_v", "self_attn.v_proj", vec![kv, WIDTH]),
        ("attn_output", "self_attn.o_proj", vec![WIDTH, WIDTH]),
        ("ffn_norm", "post_attention_layernorm", vec![WIDTH]),
        ("ffn_gate", "mlp.gate_proj", vec![FFN, WIDTH]),
        ("ffn_up", "mlp.up_proj", vec![FFN, WIDTH]),
        ("ffn_down", "mlp.down_proj", vec![WIDTH, FFN]),
    ]
}

/// A GGUF file of one layer, with a SentencePiece tokenizer or a byte-level one.
fn gguf(kind: GgmlDType, sentence_piece: bool) -> Vec<u8> {
    let text = |text: &str| Value::String(text.to_owned());
    let texts = |texts: &[&str]| Value::Array(texts.iter().map(|part| text(part)).collect());
    let mut metadata = BTreeMap::from([
        ("general.architecture", text("llama")),
        ("llama.embedding_length", Value::U32(WIDTH as u32)),
        ("llama.block_count", Value::U32(1)),
        ("llama.attention.head_count", Value::U32(HEADS as u32)),
        ("llama.attention.head_count_kv", Value::U32(KV_HEADS as u32)),
        ("llama.feed_forward_length", Value::U32(FFN as u32)),
        ("llama.context_length", Value::U32(CONTEXT as u32)),
        ("tokenizer.ggml.tokens", texts(&TOKENS)),
        ("tokenizer.ggml.token_type", Value::Array([2, 3, 3, 1, 1, 1, 1, 6, 6].map(Value::I32).to_vec())),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.eos_token_id", Value::U32(2)),
    ]);
    if sentence_piece {
        metadata.insert("tokenizer.ggml.model", text("llama"));
        metadata.insert("tokenizer.ggml.scores", Value::Array(vec![Value::F32(0.0); TOKENS.len()]));
    } else {
        metadata.insert("tokenizer.ggml.model", text("gpt2"));
        metadata.insert("tokenizer.ggml.pre", text("smollm"));
        metadata.insert("tokenizer.ggml.merges", texts(&["a b"]));
    }
    let layer = layer().map(|(name, _, shape)| (format!("blk.0.{name}.weight"), shape));
    let tables =
        [("token_embd.weight".to_owned(), vec![TOKENS.len(), WIDTH]), ("output_norm.weight".to_owned(), vec![WIDTH])];
    let tensors: Vec<(String, QTensor)> = layer
        .into_iter()
        .chain(tables)
        .map(|(name, shape)| {
            let kind = if shape.len() == 1 { GgmlDType::F32 } else { kind };
            let ones = Tensor::ones(shape, DType::F32, &Device::Cpu).expect("a tensor");
            (name, QTensor::quantize(&ones, kind).expect("whole blocks"))
        })
        .collect();
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors).expect("writes");
    files::join([file.into_inner().as_slice()].into_iter())
}

/// A checkpoint with this header, and its tokenizer. A negative vocabulary gives it a head of its own.
fn checkpoint(header: [i32; 7]) -> Vec<u8> {
    let mut file: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
    let weights = (checkpoint_bytes(&header) - file.len()) / 4;
    file.extend((0..weights).flat_map(|i| ((i * i) as f32 * 0.37).sin().to_le_bytes()));
    let token = |text: &str| [&0f32.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let tokenizer = [8u32.to_le_bytes().to_vec(), TOKENS.map(token).concat()].concat();
    files::join([file.as_slice(), &tokenizer].into_iter())
}

/// Bytes of a checkpoint with this header.
fn checkpoint_bytes(header: &[i32; 7]) -> usize {
    let [width, ffn, layers, heads, kv_heads, vocabulary, context] =
        header.map(|number| number.unsigned_abs() as usize);
    let kv = width / heads * kv_heads;
    let layer = 2 * width + 2 * width * width + 2 * kv * width + 3 * width * ffn;
    let tables = if header[5] > 0 { 1 } else { 2 };
    28 + 4 * (layers * layer + tables * vocabulary * width + width + context * (width / heads))
}

/// Makes the dimensions small and fitting, the file as long as they say, and the weights finite.
fn repair_checkpoint(file: &mut Vec<u8>) {
    file.resize(file.len().max(28), 0);
    let (words, _) = file.as_chunks::<4>();
    let word = |i: usize| i32::from_le_bytes(words[i]);
    let number = |i: usize, most: u32| word(i).unsigned_abs().wrapping_sub(1) % most + 1;
    let kv_heads = number(4, 2);
    let heads = number(3, 4).next_multiple_of(kv_heads);
    let width = number(0, 32).next_multiple_of(2 * heads);
    let plain = [width, number(1, 32), number(2, 2), heads, kv_heads, number(5, 12), number(6, 8)];
    let mut header = plain.map(|number| number as i32);
    header[5] *= if word(5) < 0 { -1 } else { 1 };
    file.resize(checkpoint_bytes(&header), 0);
    for (bytes, number) in file.chunks_exact_mut(4).zip(header) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    for bytes in file[28..].chunks_exact_mut(4) {
        // Numbers with an exponent of 255 are not finite.
        if bytes[3] & 0x7f == 0x7f {
            bytes[3] &= 0xbf;
        }
    }
}

/// A directory of one layer.
fn directory() -> Vec<u8> {
    let config = json!({
        "model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "intermediate_size": FFN, "vocab_size": TOKENS.len(),
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8}, "bos_token_id": 1, "eos_token_id": [2],
    });
    let ids: BTreeMap<&str, usize> = TOKENS.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    let bpe = json!({"type": "BPE", "vocab": ids, "merges": [["a", "b"]], "unk_token": "<unk>", "byte_fallback": true});
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "model": bpe});
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    let layer = layer().map(|(_, name, shape)| (format!("model.layers.0.{name}.weight"), shape));
    let tables = [("embed_tokens", vec![TOKENS.len(), WIDTH]), ("norm", vec![WIDTH])];
    for (name, shape) in layer.into_iter().chain(tables.map(|(name, shape)| (format!("model.{name}.weight"), shape))) {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        header.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}));
    }
    let header = serde_json::Value::from(header).to_string();
    let tensors = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0x3f; end]].concat();
    files::join([config.to_string().as_bytes(), tokenizer.to_string().as_bytes(), &tensors].into_iter())
}

#!/usr/bin/env python3
"""Writes the small models of `crates/models/llama-files/tests/families`: random weights of each family of models, and
the logits that the Python package transformers computes from them. A GGUF file of a family is one that transformers
itself reads back to the same logits.

    python3 -m venv venv && venv/bin/pip install torch==2.6.0 transformers==5.24.0 gguf==0.19.0 accelerate
    venv/bin/python research/peers/llama_families.py [FAMILY ...]
"""

import json
import sys
import tempfile
from pathlib import Path

import gguf
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

FOLDER = Path(__file__).resolve().parents[2] / "crates/models/llama-files/tests/families"
TOKENS = [3, 41, 7, 77, 12, 90, 5, 5, 63, 28, 19, 3, 54, 88, 31, 70, 2, 47, 66, 95]

# As files of published models have them, but for the sizes.
SHARED = {
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": 96,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
QWEN = {
    "attention_dropout": 0.0,
    "max_window_layers": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
}
FAMILIES = {
    "llama-biases": {"model_type": "llama", "attention_bias": True, "mlp_bias": False, "rms_norm_eps": 1e-05}
    | {"rope_theta": 500000.0, "tie_word_embeddings": False},
    "qwen2": {"model_type": "qwen2"} | QWEN,
    "smollm3": {"model_type": "smollm3", "attention_bias": False, "mlp_bias": False, "rms_norm_eps": 1e-06}
    | {"no_rope_layers": [1, 0, 1], "num_hidden_layers": 3, "rope_theta": 5000000.0, "tie_word_embeddings": True}
    | {"sliding_window": None, "use_sliding_window": False},
    "phi3": {"model_type": "phi3", "attention_bias": False, "rms_norm_eps": 1e-05, "rope_theta": 10000.0}
    | {"partial_rotary_factor": 0.5, "rope_scaling": None, "sliding_window": 12, "tie_word_embeddings": False}
    | {"original_max_position_embeddings": 128},
    # A window that is shorter than the tokens: within it, transformers and we agree.
    "mistral": {"model_type": "mistral", "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "head_dim": 8}
    | {"sliding_window": 12, "tie_word_embeddings": False},
    "qwen3": {"model_type": "qwen3", "attention_bias": False, "head_dim": 12} | QWEN,
}
# Names of tensors of a layer in GGUF files of llama.cpp.
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
# Families whose GGUF files have the rows of heads in this order, too, and which transformers reads.
IN_GGUF = ["qwen2", "qwen3"]


def model_of(config: dict) -> torch.nn.Module:
    """A model with random weights that 16 bits hold."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager")
    model = model.float().eval()
    torch.manual_seed(7)
    with torch.no_grad():
        for name, values in model.named_parameters():
            if "embed_tokens" in name:
                random = torch.randn_like(values)
            elif values.ndim == 2:
                random = 1.5 * torch.randn_like(values) / values.shape[1] ** 0.5
            elif name.endswith("bias"):
                random = torch.randn_like(values)
            else:
                random = 1 + 0.4 * torch.randn_like(values)
            values.copy_(random.bfloat16().float())
    return model


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0]


def write_gguf(path: Path, config: dict, tensors: dict) -> None:
    writer = gguf.GGUFWriter(path, config["model_type"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([f"<{token}>" for token in range(config["vocab_size"] - 3)] + ["a", "b", "ab"])
    writer.add_token_types([1] * config["vocab_size"])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    for name, values in tensors.items():
        stem, kind = name.rsplit(".", 1)
        if stem in WHOLE:
            stem = WHOLE[stem]
        else:
            layer, part = stem.removeprefix("model.layers.").split(".", 1)
            stem = f"blk.{layer}.{LAYER[part]}"
        writer.add_tensor(f"{stem}.{kind}", values.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(family: str) -> None:
    config = SHARED | FAMILIES[family]
    model = model_of(config)
    tensors = {name: values for name, values in model.state_dict().items() if "rotary" not in name}
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]
    expected = logits(model)
    folder = FOLDER / family
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({name: values.bfloat16() for name, values in tensors.items()}, folder / "model.safetensors")
    words = {f"word{token}": token for token in range(config["vocab_size"])}
    tokenizer = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}}
    tokenizer["model"] = {"type": "WordLevel", "vocab": words, "unk_token": "word0"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")
    rows = [[float(f"{value:.7g}") for value in row] for row in expected.tolist()]
    (folder / "expected.json").write_text(json.dumps({"tokens": TOKENS, "logits": rows}) + "\n")
    weights = sum(values.numel() for values in tensors.values())
    print(f"{family}: {weights} weights, logits to {expected.abs().max():.2f}")
    if family in IN_GGUF:
        path = folder / "model.gguf"
        write_gguf(path, config, tensors)
        # With its configuration, because transformers does not read the width of a head of Qwen3.
        options = {"gguf_file": "model.gguf", "attn_implementation": "eager", "dtype": torch.float32}
        options["config"] = model.config
        read = AutoModelForCausalLM.from_pretrained(folder, **options)
        difference = (logits(read.eval()) - expected).abs().max()
        print(f"{family}: transformers reads the GGUF file to logits that differ by at most {difference:.1e}")
        assert difference < 1e-4


if __name__ == "__main__":
    for name in sys.argv[1:] or FAMILIES:
        write(name)

"""Logits of a GGUF model of the Llama architecture in 64-bit floating point, by numpy.

    python research/peers/llama_logits.py MODEL.gguf TOKEN [TOKEN ...]

Shares no code with `unspoken-llama-model`: it reads the file, dequantises F32, Q4_1 and Q8_0, and computes the pass by
itself. Prints for each position the logarithm of the sum of exp of the logits, and the five largest logits of the last
position. `crates/models/llama/tests/smollm2.rs` holds its figures. Needs numpy.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

import numpy as np

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9


class Gguf:
    """Metadata and tensors of a GGUF file of version 2 or 3."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 8
        tensors, entries = self.number("Q"), self.number("Q")
        self.metadata = {self.text(): self.value(self.number("I")) for _ in range(entries)}
        places = [self.place() for _ in range(tensors)]
        start = -(-self.at // 32) * 32
        self.tensors = {name: (shape, kind, start + offset) for name, shape, kind, offset in places}

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self) -> str:
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            kind, length = self.number("I"), self.number("Q")
            return [self.value(kind) for _ in range(length)]
        return self.number(NUMBERS[kind])

    def place(self) -> tuple[str, list[int], int, int]:
        name = self.text()
        shape = [self.number("Q") for _ in range(self.number("I"))]
        return name, shape[::-1], self.number("I"), self.number("Q")

    def tensor(self, name: str) -> np.ndarray:
        shape, kind, at = self.tensors[name]
        count = int(np.prod(shape))
        if kind == 0:
            values = np.frombuffer(self.data, "<f4", count, at)
        elif kind == 3:
            block = np.dtype([("scale", "<f2"), ("least", "<f2"), ("numbers", "u1", 16)])
            blocks = np.frombuffer(self.data, block, count // 32, at)
            numbers = np.concatenate([blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=1)
            scale, least = (blocks[field].astype(np.float64)[:, None] for field in ("scale", "least"))
            values = numbers * scale + least
        elif kind == 8:
            block = np.dtype([("scale", "<f2"), ("numbers", "i1", 32)])
            blocks = np.frombuffer(self.data, block, count // 32, at)
            values = blocks["numbers"] * blocks["scale"].astype(np.float64)[:, None]
        else:
            sys.exit(f"tensor {name} of type {kind}; F32 (0), Q4_1 (3) and Q8_0 (8) are read")
        return values.astype(np.float64).reshape(shape)


def logits(model: Gguf, tokens: list[int]) -> np.ndarray:
    """Logits of each token: a row for each."""
    heads, kv_heads = (model.metadata[f"llama.attention.head_count{end}"] for end in ("", "_kv"))
    base, epsilon = (model.metadata[f"llama.{key}"] for key in ("rope.freq_base", "attention.layer_norm_rms_epsilon"))
    embedding = model.tensor("token_embd.weight")
    x = embedding[tokens]
    width = x.shape[1] // heads
    angles = np.outer(np.arange(len(tokens)), base ** (-np.arange(0, width, 2) / width))
    turns = np.exp(1j * angles)

    def norm(rows: np.ndarray, gains: str) -> np.ndarray:
        return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + epsilon) * model.tensor(gains)

    def rotated(rows: np.ndarray) -> np.ndarray:
        # Adjacent coordinates as one complex number.
        return (rows.view(np.complex128) * turns).view(np.float64)

    for layer in range(model.metadata["llama.block_count"]):
        weights = {name: model.tensor(f"blk.{layer}.{name}.weight") for name in ("attn_q", "attn_k", "attn_v")}
        normed = norm(x, f"blk.{layer}.attn_norm.weight")
        queries, keys, values = (normed @ weights[name].T for name in ("attn_q", "attn_k", "attn_v"))
        sums = []
        for head in range(heads):
            kv = head // (heads // kv_heads)
            query = rotated(np.ascontiguousarray(queries[:, head * width : (head + 1) * width]))
            key = rotated(np.ascontiguousarray(keys[:, kv * width : (kv + 1) * width]))
            scores = query @ key.T / np.sqrt(width)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            sums.append(shares @ values[:, kv * width : (kv + 1) * width])
        x = x + np.concatenate(sums, axis=1) @ model.tensor(f"blk.{layer}.attn_output.weight").T
        normed = norm(x, f"blk.{layer}.ffn_norm.weight")
        gate, up = (normed @ model.tensor(f"blk.{layer}.ffn_{name}.weight").T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ model.tensor(f"blk.{layer}.ffn_down.weight").T
    return norm(x, "output_norm.weight") @ embedding.T


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    rows = logits(Gguf(sys.argv[1]), [int(token) for token in sys.argv[2:]])
    sums = np.log(np.exp(rows - rows.max(axis=1, keepdims=True)).sum(axis=1)) + rows.max(axis=1)
    print("log of the sum", [round(float(value), 4) for value in sums])
    for token in np.argsort(-rows[-1])[:5]:
        print(f"logit of {token}: {rows[-1, token]:.4f}")


if __name__ == "__main__":
    main()

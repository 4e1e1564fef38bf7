"""Vectors of texts from all-MiniLM-L6-v2 (`scripts/fetch_data.py minilm`), with numpy alone.

`python minilm.py CSV COLUMN OUT.npy`: a vector of length 1 for each line of the CSV, in its order. Runs in the
environment of `search_tables.py`, which has numpy, tokenizers and safetensors.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "data" / "minilm"
HEADS, LAYERS, LONGEST = 12, 6, 256
# Tokens that go through the network together: their activations stay in the cache.
TOGETHER = 2048


class Network:
    """The encoder: a BERT of six layers, whose last states are averaged."""

    def __init__(self, folder: Path) -> None:
        self.weights = load_file(str(folder / "model.safetensors"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)

    def vectors(self, texts: list[str]) -> np.ndarray:
        """A vector of length 1 for each text. Texts of one length go together, so there is no padding to mask."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        out = np.empty((len(texts), 384), dtype=np.float32)
        lengths: dict[int, list[int]] = {}
        for place, tokens in enumerate(ids):
            lengths.setdefault(len(tokens), []).append(place)
        done = 0
        for length, places in sorted(lengths.items()):
            step = max(1, TOGETHER // length)
            for start in range(0, len(places), step):
                batch = places[start : start + step]
                out[batch] = self._means(np.array([ids[place] for place in batch]))
                done += len(batch)
            print(f"minilm: {done} of {len(texts)} texts", file=sys.stderr)
        return out

    def _means(self, ids: np.ndarray) -> np.ndarray:
        count, length = ids.shape
        word, place, kind = (
            self.weights[f"embeddings.{what}_embeddings.weight"] for what in ("word", "position", "token_type")
        )
        state = self._normal(word[ids].reshape(-1, 384) + np.tile(place[:length], (count, 1)) + kind[0], "embeddings")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self._affine(self._attention(state, name, (count, length)), f"{name}.attention.output.dense")
            state = self._normal(state + attended, f"{name}.attention.output")
            wide = self._affine(state, f"{name}.intermediate.dense")
            for start in range(0, len(wide), 32):
                wide[start : start + 32] = gelu(wide[start : start + 32])
            state = self._normal(state + self._affine(wide, f"{name}.output.dense"), f"{name}.output")
        means = state.reshape(count, length, -1).mean(axis=1)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def _attention(self, state: np.ndarray, name: str, shape: tuple[int, int]) -> np.ndarray:
        def heads(what: str) -> np.ndarray:
            values = self._affine(state, f"{name}.attention.self.{what}")
            return values.reshape(*shape, HEADS, -1).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(np.float32(query.shape[-1]))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ value).transpose(0, 2, 1, 3).reshape(state.shape)

    def _affine(self, values: np.ndarray, name: str) -> np.ndarray:
        out = values @ self.weights[f"{name}.weight"].T
        out += self.weights[f"{name}.bias"]
        return out

    def _normal(self, values: np.ndarray, name: str) -> np.ndarray:
        values = values - values.mean(axis=-1, keepdims=True)
        values /= np.sqrt((values * values).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return values * self.weights[f"{name}.LayerNorm.weight"] + self.weights[f"{name}.LayerNorm.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """`x / 2 (1 + erf(x / sqrt 2))`, with an error of at most 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(x) * np.float32(2**-0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail = tail * t + np.float32(factor)
    erf = np.copysign(1 - tail * t * np.exp(-size * size), x)
    return x * (1 + erf) * np.float32(0.5)


def main() -> None:
    """Writes the vectors of one column of a CSV file."""
    if len(sys.argv) != 4:
        sys.exit("usage: python minilm.py CSV COLUMN OUT.npy")
    source, column, out = sys.argv[1:]
    with open(source, newline="", encoding="utf-8") as file:
        texts = [line[column] for line in csv.DictReader(file)]
    vectors = Network(MODEL).vectors(texts)
    part = Path(out).with_suffix(".part.npy")
    np.save(part, vectors)
    part.replace(out)
    print(f"wrote {len(texts)} vectors to {out}")


if __name__ == "__main__":
    main()

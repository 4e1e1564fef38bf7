"""Documents as input of collections: their bytes, their ids and their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import index as as_index
from typing import Callable, Union

import numpy as np
import numpy.typing as npt

from unspoken._records import Record, byte_string, key_bytes
from unspoken._search_queries import Embedder, vector_rows
from unspoken._unspoken import Counter, Progress
from unspoken.errors import ArgumentError

Id = Union[str, bytes, int]

# Texts that are embedded between two steps of a progress bar.
_BATCH = 1024


def id_bytes(found: object, operation: str) -> bytes:
    """Return an id as it is stored: text in UTF-8, an integer as its decimal digits.

    Examples
    --------
    >>> id_bytes("a", "put"), id_bytes(12, "put")
    (b'a', b'12')
    """
    if isinstance(found, (str, bytes)):
        return key_bytes(found, operation)
    if not isinstance(found, bool):
        with suppress(TypeError):
            return str(as_index(found)).encode()  # type: ignore[arg-type]
    raise ArgumentError(f"{operation}: found an id of type {type(found).__name__}, needed str, bytes or int")


def id_list(ids: Iterable[Id], operation: str) -> list[bytes]:
    """Return ids as they are stored.

    Examples
    --------
    >>> id_list(["a", 12], "delete")
    [b'a', b'12']
    """
    if isinstance(ids, (str, bytes)):
        kind = type(ids).__name__
        raise ArgumentError(f"{operation}: found one {kind}, needed several ids; put it in a list")
    return [id_bytes(each, f"{operation}: id {number}") for number, each in enumerate(ids)]


def document_list(
    documents: Iterable[Record], ids: Iterable[Id] | None, operation: str
) -> list[tuple[bytes | None, bytes]]:
    """Return pairs of id or `None`, and document; no id is there twice.

    Examples
    --------
    >>> document_list(["a", b"b"], [1, 2], "build")
    [(b'1', b'a'), (b'2', b'b')]
    """
    if isinstance(documents, (str, bytes)):
        kind = type(documents).__name__
        raise ArgumentError(f"{operation}: found one {kind}, needed several documents; put it in a list")
    if isinstance(documents, Mapping):
        kind = type(documents).__name__
        raise ArgumentError(f"{operation}: found a {kind}, needed a list; pass its values, and its keys as ids=")
    contents = [
        byte_string(each, "a document", f"{operation}: document {number}") for number, each in enumerate(documents)
    ]
    if ids is None:
        return [(None, content) for content in contents]
    keys = id_list(ids, operation)
    if len(keys) != len(contents):
        raise ArgumentError(f"{operation}: found {len(keys)} ids and {len(contents)} documents, needed as many")
    seen: dict[bytes, int] = {}
    for number, key in enumerate(keys):
        earlier = seen.setdefault(key, number)
        if earlier != number:
            raise ArgumentError(
                f"{operation}: found the id {key!r} at documents {earlier} and {number}, needed it once; leave one out"
            )
    return list(zip(keys, contents))


def document_vectors(
    documents: list[tuple[bytes | None, bytes]],
    vectors: object,
    embedder: Embedder,
    progress: bool | Callable[[Progress], object],
    operation: str,
) -> npt.NDArray[np.float32]:
    """Return a vector for each document: those given, or those that the embedder makes.

    Examples
    --------
    >>> document_vectors([(None, b"a")], [[1, 2]], Embedder(None, None), False, "build")
    array([[1., 2.]], dtype=float32)
    """
    if vectors is not None:
        rows = vector_rows(vectors, "vectors", operation)
        if len(rows) != len(documents):
            raise ArgumentError(
                f"{operation}: found {len(rows)} vectors and {len(documents)} documents, needed as many"
            )
        return rows
    if not documents:
        return np.empty((0, 0), np.float32)
    texts = [_text(content, f"{operation}: document {number}") for number, (_, content) in enumerate(documents)]
    counter, parts = Counter(progress, "embedding"), []
    for begin in range(0, len(texts), _BATCH):
        counter.show(begin, len(texts))
        parts.append(embedder.rows(texts[begin : begin + _BATCH], operation))
        if parts[-1].shape[1] != parts[0].shape[1]:
            found = f"{parts[-1].shape[1]} coordinates at document {begin}"
            raise ArgumentError(f"{operation}: found {found}, needed {parts[0].shape[1]} as before; look at embed")
    counter.show(len(texts), len(texts))
    return np.concatenate(parts)


def _text(content: bytes, operation: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        said = f"found a byte that is not UTF-8 at {error.start}, needed text for embed; pass vectors"
    raise ArgumentError(f"{operation}: {said}")

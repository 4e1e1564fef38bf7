"""What private search asks and finds: vectors, what makes them of texts, and documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index as as_index
from typing import Any, Callable, Union

import numpy as np
import numpy.typing as npt

from unspoken._boundary import utf8
from unspoken._texts import text_list
from unspoken.errors import ArgumentError, ConfigurationError, MismatchError

Embed = Callable[[list[str]], Any]
Query = Union[str, npt.ArrayLike]

_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Found:
    """A document that was found.

    Attributes
    ----------
    document : bytes
        The document. `text` is the same as a text.
    cosine : float
        The cosine of the angle between the query's vector and the document's, 1 for the same direction. It has the
        error of coordinates of 8 bits, and from a service that of the encryption, too: `SearchClient.error`.
    position : int
        The place of the document in its collection. A document that is changed gets another one, and so do all when
        the collection is built again.
    id : bytes or None
        The document's id, if it has one; ids that were text are encoded as UTF-8.

    Examples
    --------
    >>> import unspoken
    >>> found = unspoken.Found(document=b"See you at home.", cosine=0.71, position=12, id=b"note 3")
    >>> found.text
    'See you at home.'
    """

    document: bytes
    cosine: float
    position: int
    id: bytes | None = None

    @property
    def text(self) -> str:
        """The document as a text.

        Raises
        ------
        ArgumentError
            If the document is not text in UTF-8. A `ValueError`; `document` has its bytes.
        """
        try:
            return self.document.decode()
        except UnicodeDecodeError as error:
            said = f"found a byte that is not UTF-8 at {error.start}, needed a text; use document, which has the bytes"
        raise ArgumentError(f"read a document as text: {said}")

    def _id_text(self) -> str | None:
        """Return the id for what takes texts only; bytes that are no UTF-8 are escaped."""
        return None if self.id is None else self.id.decode(errors="backslashreplace")


def found_documents(hits: Iterable[tuple[float, int, bytes | None, bytes]]) -> list[Found]:
    """Return what the compiled module found.

    Examples
    --------
    >>> found_documents([(0.5, 7, None, b"a text")])[0].cosine
    0.5
    """
    return [Found(document, cosine, position, key) for cosine, position, key, document in hits]


def vector_rows(found: object, what: str, operation: str) -> npt.NDArray[np.float32]:
    """Return vectors as rows of a C-contiguous array; all are finite and none is zero.

    Examples
    --------
    >>> vector_rows([[3, 4], [0, 1]], "vectors", "build").shape
    (2, 2)
    """
    array = _numbers(found, what, operation)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ArgumentError(f"{operation}: found {what} of shape {array.shape}, needed (n, width): one vector a row")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array, dtype=np.float32)
    for bad, said, advice in (
        (~np.isfinite(rows).all(axis=1), "a coordinate that is NaN, infinite or beyond float32", "finite ones"),
        (~rows.any(axis=1), "only zeros", "a direction"),
    ):
        if bad.any():
            number = int(bad.argmax())
            raise ArgumentError(f"{operation}: found {said} in row {number} of {what}, needed {advice}; leave it out")
    return rows


def _numbers(found: object, what: str, operation: str) -> npt.NDArray[Any]:
    if any(np.ma.is_masked(each) for each in (found if isinstance(found, (list, tuple)) else [found])):
        raise ArgumentError(f"{operation}: found masked entries in {what}, needed numbers; fill them or leave them out")
    try:
        array = np.asarray(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{operation}: {what} are no array: {error}; pass rows of one length") from error
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"{operation}: found {what} of type {array.dtype}, needed real numbers")
    return array


def count(k: object) -> int:
    """Return how many documents are asked for.

    Examples
    --------
    >>> count(10)
    10
    """
    try:
        number = as_index(k)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"search: found k of type {type(k).__name__}, needed an integer from 1") from None
    if number < 1:
        raise ArgumentError(f"search: found k={number}, needed 1 or more")
    return number


class Embedder:
    """What makes vectors of texts, if it is known, and its name.

    Examples
    --------
    >>> Embedder(None, "all-MiniLM-L6-v2").name
    'all-MiniLM-L6-v2'
    """

    def __init__(self, embed: Embed | None, name: str | None) -> None:
        if embed is not None and not callable(embed):
            kind = type(embed).__name__
            raise ConfigurationError(f"embed: found {kind}, needed a callable from texts to vectors, as model.encode")
        if name is None:
            own = getattr(embed, "name", None)
            name = own if isinstance(own, str) else None
        elif not isinstance(name, str):
            raise ConfigurationError(f"embedder: found {type(name).__name__}, needed str: the name of what embed makes")
        if name is not None:
            utf8(name, "embedder")
        self.embed = embed
        self.name = name or None

    def check(self, found: str | None, where: str) -> None:
        """Raise an error if the vectors of `where` are known to be those of another embedder."""
        if found and self.name and found != self.name:
            raise MismatchError(
                f"search: found vectors of {_shown(found)} in {where}, needed those of {_shown(self.name)}, which "
                "makes the queries; embed queries with what embedded the documents"
            )

    def rows(self, texts: list[str], operation: str) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, of which there is at least one."""
        if self.embed is None:
            raise ConfigurationError(f"{operation}: found texts and no embed, needed vectors; pass them, or embed=")
        rows = vector_rows(self.embed(texts), "vectors from embed", operation)
        if len(rows) != len(texts):
            raise ArgumentError(f"{operation}: found {len(rows)} vectors from embed, needed {len(texts)}, one a text")
        return rows

    def query(self, query: object) -> npt.NDArray[np.float32]:
        """Return the vector of one query as a row."""
        if isinstance(query, str):
            return self.rows(text_list([query], "a query"), "search")
        if isinstance(query, bytes):
            raise ArgumentError("search: found a query of type bytes, needed a text or a vector; decode it")
        array = _numbers(query, "a query", "search")
        if array.ndim != 1:
            raise ArgumentError(
                f"search: found a query of shape {array.shape}, needed (width,); use search_many for several"
            )
        return vector_rows(array[None], "a query", "search")

    def queries(self, queries: Iterable[Query]) -> npt.NDArray[np.float32] | None:
        """Return the vectors of queries as rows; `None` if there are no queries."""
        if isinstance(queries, (str, bytes)):
            kind = type(queries).__name__
            raise ArgumentError(f"search_many: found one {kind}, needed several queries; use search for one")
        listed = list(queries)
        if not listed:
            return None
        texts = sum(isinstance(query, str) for query in listed)
        if texts == len(listed):
            return self.rows(text_list(listed, "queries"), "search_many")  # type: ignore[arg-type]
        if texts:
            raise ArgumentError(f"search_many: found {texts} texts among {len(listed)} queries, needed all or none")
        return vector_rows(queries if hasattr(queries, "__array__") else listed, "queries", "search_many")


def check_width(rows: npt.NDArray[np.float32], width: int, where: str, operation: str) -> None:
    """Raise an error if vectors have another width than those of `where`.

    Examples
    --------
    >>> check_width(np.ones((1, 3), np.float32), 3, "the collection", "search")
    """
    if rows.shape[1] != width:
        raise ArgumentError(
            f"{operation}: found vectors of {rows.shape[1]} coordinates, needed {width} as in {where}; make them with "
            "what made the vectors there"
        )


def _shown(name: str) -> str:
    """Return a name for a message; a service may say anything."""
    return repr(name if len(name) <= _LONGEST_SHOWN else name[: _LONGEST_SHOWN - 3] + "...")

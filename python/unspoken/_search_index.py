"""Collections for private search: building, searching in the clear, changing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from operator import index as as_index
from os import PathLike
from pathlib import Path
from typing import Callable

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._records import Record
from unspoken._search_documents import Id, document_list, document_vectors
from unspoken._search_edit import SearchEdit
from unspoken._search_queries import Embed, Embedder, Found, Query, check_width, count, found_documents
from unspoken.errors import ConfigurationError, DatabaseError


@dataclass(frozen=True)
class SearchInfo:
    """What a collection contains, and what questions to it take. Returned by `SearchIndex.info`.

    Attributes
    ----------
    documents : int
        Number of documents.
    removed, positions : int
        Positions of documents that were changed or deleted, and all positions of the layout. A position is used once;
        building the collection again frees the removed ones.
    width : int
        Coordinates of a vector.
    blocks, groups : int
        Rows and columns of clusters in the table: a question asks for whole blocks, and each has a cluster in every
        group.
    asked : int
        Blocks that every question asks for.
    memory_bytes : int
        Bytes of memory that the table takes at the service.
    query_bytes, answer_bytes : int
        Bytes of a query and of its answer, without the documents, which are fetched afterwards.
    core_seconds : float
        Predicted seconds of one core of the service for the answer.
    embedder : str or None
        Name of what made the vectors, if it is known.
    preset : str
        Parameter set.
    recall : float or None
        Part of the 10 nearest documents that a question finds, measured when the collection was built.

    Examples
    --------
    >>> info = unspoken.SearchIndex.open("notes").info()  # doctest: +SKIP
    >>> info.documents, info.query_bytes, info.answer_bytes  # doctest: +SKIP
    """

    documents: int
    removed: int
    positions: int
    width: int
    blocks: int
    groups: int
    asked: int
    memory_bytes: int
    query_bytes: int
    answer_bytes: int
    core_seconds: float
    embedder: str | None
    recall: float | None
    preset: str


class SearchIndex:
    """A collection of documents and their vectors for private search, on disk. Made by `build` and `open`.

    ``unspoken serve --search`` serves it, `SearchClient` searches it. One version is read at a time: changes of other
    processes appear after `refresh`, changes by `edit` at once.

    Examples
    --------
    >>> import tempfile, unspoken
    >>> vectors = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     index = unspoken.SearchIndex.build(parent + "/notes", ["bread", "cake", "tea"], vectors, progress=False)
    ...     found = index.search([0.1, 0.9, 0.2], k=1)
    ...     found[0].text, len(index)
    ('cake', 3)
    """

    def __init__(self, directory: str | PathLike[str], embedder: Embedder) -> None:
        self._directory = Path(directory)
        self._collection = _unspoken.Collection.open(self._directory)
        self._embedder = embedder
        self._check()

    @classmethod
    def build(
        cls,
        directory: str | PathLike[str],
        documents: Iterable[Record],
        vectors: npt.ArrayLike | None = None,
        *,
        ids: Iterable[Id] | None = None,
        embed: Embed | None = None,
        embedder: str | None = None,
        recall: float = 0.95,
        link: float = 100.0,
        memory: int | None = None,
        longest: int = 0,
        replace: bool = False,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
    ) -> SearchIndex:
        """Build a collection of documents and open it.

        Documents and vectors are held in memory during the build. The layout is the one whose answers are there first
        over a link of this speed, within this memory.

        Parameters
        ----------
        directory : path
            Directory of the collection; there must be none, unless `replace` is given.
        documents : iterable of str or bytes
            Text is encoded as UTF-8.
        vectors : array_like, optional
            A row of any length but zero for each document. Only directions count: the nearest documents are those of
            the largest cosines. Not needed if `embed` is given.
        ids : iterable of str, bytes or int, optional
            An id for each document, by which it can be changed and deleted; each once. Text is encoded as UTF-8, and
            an integer is stored as its decimal digits.
        embed : callable, optional
            What makes vectors of texts, as for `SearchClient`. It makes those of the documents, unless they are given,
            and those of queries that are texts.
        embedder : str, optional
            Name of what made the vectors, which is stored. Clients that know another name for their own refuse to ask.
            Default: the attribute `name` of `embed`, if it has one.
        recall : float
            Part of the 10 nearest documents that a question should find, above 0 and up to 1.
        link : float
            Speed of the clients' link, in Mbit/s.
        memory : int, optional
            Bytes of memory that the table may take at the service. Default: three for each coordinate, or 256 MiB if
            that is more.
        longest : int
            Length in bytes of the longest document to make room for. There is room for a quarter more than the longest
            one has, at least.
        replace : bool
            Replace the collection that is there. It is served until the new one is complete.
        progress : bool or callable
            `True` draws bars on standard error if that is a terminal; a callable is called with a `Progress`.

        Returns
        -------
        SearchIndex
            Its `info` has the measured recall.

        Raises
        ------
        ArgumentError
            If documents, vectors and ids do not fit together, an id is there twice, or a vector is zero or not finite.
            A `ValueError`.
        ConfigurationError
            If there are neither vectors nor `embed`, or an option is out of range.
        DatabaseError
            If there are no documents, there is a collection already, no layout fits, or files cannot be written.
        DatabaseLockedError
            If another process is changing the collection to replace.
        KeyboardInterrupt
            On Control-C; a collection that is there stays.

        Examples
        --------
        >>> index = unspoken.SearchIndex.build("notes", texts, embed=model.encode, ids=names)  # doctest: +SKIP
        >>> index.info().recall  # doctest: +SKIP
        """
        maker = Embedder(embed, embedder)
        options: _unspoken._SearchOptions = {
            "recall": _number(recall, "recall", "above 0 and up to 1", 1.0),
            "link": _number(link, "link", "a speed in Mbit/s above 0", float("inf")),
            "memory": None if memory is None else _bytes(memory, "memory", 1),
            "embedder": maker.name,
            "longest": _bytes(longest, "longest", 0),
            "replace": bool(replace),
        }
        if vectors is None and embed is None:
            raise ConfigurationError("build: found neither vectors nor embed, needed one of them")
        listed = document_list(documents, ids, "build")
        if not listed:
            raise DatabaseError("build: found no documents, needed one or more")
        rows = document_vectors(listed, vectors, maker, progress, "build")
        _unspoken.Collection.build(Path(directory), listed, rows, options, progress)
        return cls(directory, maker)

    @classmethod
    def open(
        cls, directory: str | PathLike[str], *, embed: Embed | None = None, embedder: str | None = None
    ) -> SearchIndex:
        """Open a collection.

        Parameters
        ----------
        directory : path
            The collection.
        embed : callable, optional
            What makes vectors of texts, for queries and for documents that are added: as for `build`.
        embedder : str, optional
            Name of what `embed` makes, to be compared with the collection's.

        Returns
        -------
        SearchIndex

        Raises
        ------
        DatabaseError
            If there is no collection, or it is damaged.
        MismatchError
            If its documents are embedded by something else.

        Examples
        --------
        >>> index = unspoken.SearchIndex.open("notes", embed=model.encode)  # doctest: +SKIP
        """
        return cls(directory, Embedder(embed, embedder))

    def search(self, query: Query, k: int = 10) -> list[Found]:
        """Find the documents nearest to a query in the clear, as a client finds them without errors of encryption.

        Parameters
        ----------
        query : str or array_like
            A text, if the index has `embed`, or a vector of shape (width,).
        k : int
            Number of documents to find.

        Returns
        -------
        list of Found
            The nearest first; fewer than `k` if the clusters that are asked have fewer documents.

        Raises
        ------
        ArgumentError, ConfigurationError
            As for `SearchClient.search`.

        Examples
        --------
        >>> index.search("How long does bread bake?", k=3)[0].text  # doctest: +SKIP
        """
        number = count(k)
        return self._found(self._embedder.query(query), number)[0]

    def search_many(self, queries: Iterable[Query], k: int = 10) -> list[list[Found]]:
        """Find the documents nearest to each of several queries in the clear, as `SearchClient.search_many`.

        Examples
        --------
        >>> index.search_many(["How long does bread bake?", "When is it done?"], k=3)  # doctest: +SKIP
        """
        number = count(k)
        rows = self._embedder.queries(queries)
        return [] if rows is None else self._found(rows, number)

    def edit(self, *, progress: bool | Callable[[_unspoken.Progress], object] = True) -> SearchEdit:
        """Change documents: all changes of a ``with`` block, or none after an exception.

        A service that serves the collection follows within seconds. One process can change a collection at a time.

        Parameters
        ----------
        progress : bool or callable
            For `SearchEdit.put`: as for `build`.

        Returns
        -------
        SearchEdit

        Raises
        ------
        DatabaseLockedError
            When the block is entered, if another process is changing the collection.

        Examples
        --------
        >>> with index.edit() as change:  # doctest: +SKIP
        ...     change.put(["Bread bakes for 45 minutes."], ids=["bread"])
        ...     change.delete(["cake"])
        """
        return SearchEdit(self._directory, self._embedder, self.info().width, progress, self.refresh)

    def refresh(self) -> bool:
        """Read the newest version, and return whether there was a newer one.

        Raises
        ------
        DatabaseError
            If files are damaged. The version of before stays open.
        MismatchError
            If the collection was replaced by one that is embedded by something else.

        Examples
        --------
        >>> index.refresh()  # doctest: +SKIP
        False
        """
        is_newer = self._collection.refresh()
        self._check()
        return is_newer

    def info(self) -> SearchInfo:
        """Return what the collection contains, and what questions to it take.

        Examples
        --------
        >>> index.info().answer_bytes  # doctest: +SKIP
        """
        return SearchInfo(**self._collection.info())

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._collection)

    @property
    def directory(self) -> Path:
        """The directory of the collection."""
        return self._directory

    def __repr__(self) -> str:
        """Return the directory, and the number and the width of the vectors."""
        return f"<SearchIndex {self._directory}: {len(self)} documents of {self.info().width} coordinates>"

    def _check(self) -> None:
        self._embedder.check(self._collection.info()["embedder"], str(self._directory))

    def _found(self, rows: npt.NDArray[np.float32], k: int) -> list[list[Found]]:
        # Again: the collection may have been replaced.
        self._check()
        check_width(rows, self.info().width, "the collection", "search")
        return [found_documents(hits) for hits in self._collection.search(rows, k)]


def _number(found: float, name: str, needed: str, most: float) -> float:
    """Return an option of `build` that is above 0, and up to `most`."""
    try:
        number = float(found)
    except (TypeError, ValueError):
        number = 0.0
    if not (isfinite(number) and 0 < number <= most):
        raise ConfigurationError(f"build: found {name}={found!r}; needed {needed}")
    return number


def _bytes(found: int, name: str, least: int) -> int:
    """Return an option of `build` that is a number of bytes."""
    try:
        number = as_index(found)
    except TypeError:
        number = -1
    if not least <= number < 2**63:
        raise ConfigurationError(f"build: found {name}={found!r}; needed a number of bytes, from {least}")
    return number

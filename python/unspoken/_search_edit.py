"""Changes of collections for private search."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Callable

import numpy.typing as npt

from unspoken import _unspoken
from unspoken._records import Record
from unspoken._search_documents import Id, document_list, document_vectors, id_list
from unspoken._search_queries import Embedder, check_width
from unspoken.errors import DatabaseError


class SearchEdit:
    """Changes of a collection, made by `SearchIndex.edit`: all of them, or none after an exception.

    The collection can be searched meanwhile; it shows the changes after the ``with`` block.

    Examples
    --------
    >>> with index.edit() as change:  # doctest: +SKIP
    ...     change.put(["Bread bakes for 45 minutes."], vectors, ids=["bread"])
    ...     change.delete(["cake"])
    1
    """

    def __init__(
        self,
        directory: Path,
        embedder: Embedder,
        width: int,
        progress: bool | Callable[[_unspoken.Progress], object],
        refresh: Callable[[], object],
    ) -> None:
        self._directory = directory
        self._embedder = embedder
        self._width = width
        self._progress = progress
        self._refresh = refresh
        self._writer: _unspoken.CollectionWriter | None = None
        self._begun = False
        self._lock = threading.Lock()

    def __enter__(self) -> SearchEdit:
        """Open the newest version for changes. No other process can until the block ends."""
        with self._lock:
            if self._begun:
                raise DatabaseError("edit: found a change that was begun before, needed a new one; call edit() again")
            self._writer = _unspoken.CollectionWriter.open(self._directory)
            self._begun = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit the changes, or discard them after an exception."""
        with self._lock:
            writer, self._writer = self._opened(), None
            try:
                if kind is not None:
                    return
                writer.commit()
            finally:
                # Nobody else can change the collection while this object is there, not even in a traceback.
                del writer
        self._refresh()

    def put(
        self,
        documents: Iterable[Record],
        vectors: npt.ArrayLike | None = None,
        *,
        ids: Iterable[Id] | None = None,
    ) -> None:
        """Add documents; one whose id is there takes the place of the document with this id.

        Let an exception end the ``with`` block, and all changes are discarded.

        Parameters
        ----------
        documents : iterable of str or bytes
            As for `SearchIndex.build`.
        vectors : array_like, optional
            A row for each document; not needed if the index has `embed`.
        ids : iterable of str, bytes or int, optional
            As for `SearchIndex.build`. Documents without ids are added, and cannot be changed or deleted later.

        Raises
        ------
        ArgumentError
            If documents, vectors and ids do not fit together, or an id is there twice. A `ValueError`.
        ConfigurationError
            If there are neither vectors nor `embed`.
        DatabaseError
            If a document is too long, or there is no room near its vector: build the collection again, with
            ``replace=True``. A `ValueError`.
        KeyboardInterrupt
            On Control-C.

        Examples
        --------
        >>> with index.edit() as change:  # doctest: +SKIP
        ...     change.put(["Bread bakes for 45 minutes."], ids=["bread"])
        """
        listed = document_list(documents, ids, "put")
        rows = document_vectors(listed, vectors, self._embedder, self._progress, "put")
        if listed:
            check_width(rows, self._width, "the collection", "put")
        with self._lock:
            writer = self._opened()
            if listed:
                writer.put(listed, rows, self._progress)

    def delete(self, ids: Iterable[Id]) -> int:
        """Delete the documents with these ids, and return how many there were; other ids are passed over.

        Raises
        ------
        ArgumentError
            If an id is neither str, bytes nor int.

        Examples
        --------
        >>> with index.edit() as change:  # doctest: +SKIP
        ...     change.delete(["bread", "no such id"])
        1
        """
        listed = id_list(ids, "delete")
        with self._lock:
            return self._opened().delete(listed)

    def _opened(self) -> _unspoken.CollectionWriter:
        """Return the writer. The caller holds the lock."""
        if self._writer is None:
            raise DatabaseError(
                "edit: found no open change, needed one; change documents in a block: with index.edit()"
            )
        return self._writer

"""Changes of databases for private retrieval."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from operator import index as as_index
from pathlib import Path
from types import TracebackType
from typing import Callable, Union

from unspoken import _unspoken
from unspoken._records import Key, Record, RecordInput, Records, SupportsItems, byte_string, key_bytes, record_pairs
from unspoken.errors import ArgumentError, DatabaseError, NoSuchIndexError, NoSuchKeyError

Which = Union[str, bytes, int]


class DatabaseEdit:
    """Changes of a database, made by `Database.edit`: one version of all of them, or none after an exception.

    Assigning and deleting work as for a dictionary by key, or as for a list by index. Records can be
    read from the database meanwhile; it shows the changes after the ``with`` block.

    Attributes
    ----------
    version : int or None
        Version with the changes; `None` before the end of the block. Without changes it is the version of
        before.

    Examples
    --------
    >>> import tempfile, unspoken
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     db = unspoken.Database.build(parent + "/days", ["Monday", "Tuesday"], capacity=7, progress=False)
    ...     with db.edit() as change:
    ...         change[0] = "Mon"
    ...         change.append("Wed")
    ...     list(db), change.version
    2
    ([b'Mon', b'Tuesday', b'Wed'], 2)
    """

    def __init__(
        self,
        directory: Path,
        progress: bool | Callable[[_unspoken.Progress], object],
        refresh: Callable[[], bool],
    ) -> None:
        self._directory = directory
        self._progress = progress
        self._refresh = refresh
        self._writer: _unspoken.DatabaseWriter | None = None
        self._lock = threading.Lock()
        self.version: int | None = None

    def __enter__(self) -> DatabaseEdit:
        """Open the newest version for changes. No other process can until the block ends."""
        with self._lock:
            if self._writer is not None or self.version is not None:
                raise DatabaseError("edit: found a change that was begun before, needed a new one; call edit() again")
            self._writer = _unspoken.DatabaseWriter.open(self._directory)
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
                self.version = writer.commit()
            finally:
                # Nobody else can change the database while this object is there, not even in a traceback.
                del writer
        self._refresh()

    def __len__(self) -> int:
        """Return the number of records with the changes, as ``len`` of a database."""
        with self._lock:
            return len(self._opened())

    def __setitem__(self, key: Which, record: Record) -> None:
        """Add or overwrite the record of a key, or overwrite the one at an index for which there is room.

        Raises
        ------
        NoSuchIndexError
            If there is no room for this index. An `IndexError`.
        DatabaseError
            If the record is too long, or its buckets are full. Nothing changes.
        TypeError
            If an index is given for a database that is read by key, or the other way round.
        """
        value = byte_string(record, "a record", "change a record")
        with self._lock:
            writer = self._opened()
            if writer.keyed:
                writer.put(key_bytes(key, "change a database by key"), value)
            else:
                writer.set(_index(key), value)

    def __delitem__(self, key: Which) -> None:
        """Delete the record of a key, or at an index; other records keep their indices.

        Raises
        ------
        NoSuchKeyError
            If there is no record with this key. A `KeyError`.
        NoSuchIndexError
            If the index is after the last record. An `IndexError`.
        DatabaseError
            By index, if all records have one length: then each index has a record.
        TypeError
            As for assigning.
        """
        with self._lock:
            writer = self._opened()
            if not writer.keyed:
                number = _index(key)
                if number >= len(writer):
                    raise NoSuchIndexError(f"delete: found index {number}, needed one below {len(writer)}")
                writer.clear(number)
            elif not writer.delete(_key(key)):
                raise NoSuchKeyError(f"delete: no record has the key {key!r}; leave it out", key)

    def append(self, record: Record) -> int:
        """Add a record after the last one and return its index.

        Raises
        ------
        DatabaseError
            If there is no room for another record, or it is too long.
        TypeError
            If the database is read by key.

        Examples
        --------
        >>> with db.edit() as change:  # doctest: +SKIP
        ...     change.append("Sunday")
        """
        value = byte_string(record, "a record", "append")
        with self._lock:
            writer = self._opened()
            _check_kind(writer, keyed=False, operation="append")
            return writer.push(value)

    def update(self, records: SupportsItems | Iterable[tuple[Key, Record]] | Records) -> None:
        """Add or overwrite many records by key.

        As in a dictionary, an error leaves the records before it changed; let the exception end the
        ``with`` block, and all changes are discarded.

        Parameters
        ----------
        records : mapping, iterable of pairs, or Records
            As for `Database.build`.

        Raises
        ------
        DatabaseError
            If a record does not fit; the error has its number, from 0.
        TypeError
            If the database is read by index, or the records have no keys.
        KeyboardInterrupt
            On Control-C.

        Examples
        --------
        >>> with db.edit() as change:  # doctest: +SKIP
        ...     change.update({"B05": "Measles", "B06": "Rubella"})
        """
        self._put_all(records, keyed=True, operation="update")

    def extend(self, records: Iterable[Record] | Records) -> None:
        """Add many records after the last one.

        Parameters
        ----------
        records : iterable of str or bytes, or Records
            As for `Database.build`.

        Raises
        ------
        DatabaseError
            If a record does not fit; the error has its number, from 0.
        TypeError
            If the database is read by key, or the records have keys.
        KeyboardInterrupt
            On Control-C.

        Examples
        --------
        >>> with db.edit() as change:  # doctest: +SKIP
        ...     change.extend(unspoken.read_records("new.csv", value="title"))
        """
        self._put_all(records, keyed=False, operation="extend")

    def _put_all(self, records: RecordInput, *, keyed: bool, operation: str) -> None:
        with self._lock:
            writer = self._opened()
            _check_kind(writer, keyed=keyed, operation=operation)
            needed = "keys" if keyed else "no keys"
            if isinstance(records, Records):
                if records.keyed != keyed:
                    raise ArgumentError(f"{operation}: found {records!r}, needed {needed}; select them with key=")
                writer.put_from(records._used(stacklevel=4), self._progress)
                return
            pairs = record_pairs(records, operation)
            writer.put_all(_checked(pairs, keyed, f"{operation}: record"), self._progress)

    def _opened(self) -> _unspoken.DatabaseWriter:
        """Return the writer. The caller holds the lock."""
        if self._writer is None:
            raise DatabaseError("edit: found no open change, needed one; change records in a block: with db.edit()")
        return self._writer


def _checked(
    pairs: Iterable[tuple[bytes | None, bytes]], keyed: bool, operation: str
) -> Iterable[tuple[bytes | None, bytes]]:
    for number, pair in enumerate(pairs):
        if (pair[0] is not None) != keyed:
            found, needed = ("no key", "a pair of key and record") if keyed else ("a key", "a record alone")
            raise ArgumentError(f"{operation} {number}: found {found}, needed {needed}")
        yield pair


def _check_kind(writer: _unspoken.DatabaseWriter, *, keyed: bool, operation: str) -> None:
    if writer.keyed != keyed:
        found, use = ("index", "append or extend") if keyed else ("key", "update, or change[key] = record")
        raise ArgumentError(f"{operation}: the database is read by {found}; use {use}")


def _key(key: Which) -> bytes:
    return byte_string(key, "a key", "change a database by key")


def _index(key: Which) -> int:
    if isinstance(key, (str, bytes)):
        raise ArgumentError(f"change a database by index: found {type(key).__name__}, needed a number")
    number = as_index(key)
    if not 0 <= number < 2**64:
        raise NoSuchIndexError(f"change a database by index: found {number}, needed a number from 0")
    return number

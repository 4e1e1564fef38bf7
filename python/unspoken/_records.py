"""Records as input of databases: selected from files, or given as Python objects."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from typing import Literal, Protocol, Union

from unspoken import _unspoken
from unspoken._boundary import utf8
from unspoken.errors import ArgumentError

_MOST_NAMED = 20

Key = Union[str, bytes]
Record = Union[str, bytes]
Kind = Literal["csv", "tsv", "jsonl", "json", "sqlite", "parquet", "folder"]


class SupportsItems(Protocol):
    """A dictionary, or any object with its method `items`, such as a series of pandas."""

    def items(self) -> Iterable[tuple[Key, Record]]:
        """Return pairs of key and record."""


RecordInput = Union[SupportsItems, Iterable[Record], Iterable[tuple[Key, Record]], "Records"]


class Records:
    r"""Records of a file or a folder, selected by `read_records`. They are read when they are used, each time anew.

    Iterating gives pairs of key and record, or records if they have no keys; all are bytes.

    Attributes
    ----------
    keyed : bool
        Whether the records have keys.

    Examples
    --------
    >>> import pathlib, tempfile, unspoken
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "codes.csv")
    ...     _ = path.write_text("code,title\nA00,Cholera\nA01,Typhoid\n")
    ...     list(unspoken.read_records(path, key="code"))
    [(b'A00', b'Cholera'), (b'A01', b'Typhoid')]
    """

    def __init__(self, source: _unspoken.RecordSource, path: str) -> None:
        self._source = source
        self._path = path
        self.keyed = source.keyed

    def __iter__(self) -> Iterator[bytes | tuple[bytes, bytes]]:
        """Open the file and return an iterator over its records."""
        return iter(self._used().read())

    def _used(self, stacklevel: int = 3) -> _unspoken.RecordSource:
        """Return the source, to be read now. Warns if hidden files of a folder are left out."""
        left_out = self._source.left_out()
        if left_out:
            more = f", and {len(left_out) - _MOST_NAMED} more" if len(left_out) > _MOST_NAMED else ""
            warnings.warn(
                f"read {self._path}: {len(left_out)} hidden files and folders are left out: "
                f"{', '.join(left_out[:_MOST_NAMED])}{more}; pass hidden=True to take them",
                stacklevel=stacklevel,
            )
        return self._source

    def __repr__(self) -> str:
        """Return the path, and how the records are read."""
        return f"<Records of {self._path}, {'with' if self.keyed else 'without'} keys>"


def read_records(
    path: str | PathLike[str],
    *,
    key: str | None = None,
    value: str | Iterable[str] | None = None,
    table: str | None = None,
    kind: Kind | None = None,
    encoding: str | None = None,
    hidden: bool = False,
) -> Records:
    """Select records of a file or a folder, for `Database.build`, `DatabaseEdit.update` and `DatabaseEdit.extend`.

    Parameters
    ----------
    path : path
        A file whose name ends with .csv, .tsv, .jsonl, .json, .sqlite or .parquet, or a folder of
        files. In a folder, each file is a record, and its path is the key.
    key : str, optional
        Column of the keys. Without it, records have no keys and are read by index.
    value : str or iterable of str, optional
        Column of the record, which is used unchanged; of several, the record is a JSON object.
        Default: all columns but the key; for JSON the whole object.
    table : str, optional
        Table or view of a SQLite database; not needed if there is only one.
    kind : {"csv", "tsv", "jsonl", "json", "sqlite", "parquet", "folder"}, optional
        Default: from the end of the name; a file that begins with ``[`` is ``"json"``, an array of
        objects.
    encoding : str, optional
        Encoding of a CSV or TSV file, for instance ``"windows-1252"``. Default: UTF-8. Rows with other
        bytes are refused.
    hidden : bool
        Whether the hidden files of a folder are records, too: files whose name, or the name of a folder above, begins
        with a dot. If files are left out, using the records warns and names these files.

    Returns
    -------
    Records
        Nothing has been read yet: a missing column is found when the records are used.

    Raises
    ------
    DatabaseError
        If there is no such file, or its kind is unknown. A `ValueError`.
    ConfigurationError
        If there is no such `kind`.

    Examples
    --------
    >>> records = unspoken.read_records("codes.csv", key="code", value="title")  # doctest: +SKIP
    >>> db = unspoken.Database.build("codes", records)  # doctest: +SKIP
    """
    values = [value] if isinstance(value, str) else [] if value is None else list(value)
    return Records(_unspoken.RecordSource(path, kind, table, key, values, encoding, hidden), fspath(path))


def record_pairs(records: RecordInput, operation: str) -> Iterator[tuple[bytes | None, bytes]]:
    """Return pairs of key or `None`, and value; `operation` begins error messages.

    Examples
    --------
    >>> list(record_pairs({"a": "1"}, "build")), list(record_pairs([b"1", "2"], "build"))
    ([(b'a', b'1')], [(None, b'1'), (None, b'2')])
    """
    if isinstance(records, (str, bytes)):
        kind = type(records).__name__
        raise ArgumentError(f"{operation}: found one {kind}, needed several records; put it in a list")
    entries = records.items() if hasattr(records, "items") else records
    return (_pair(entry, f"{operation}: record {number}") for number, entry in enumerate(entries))


def _pair(entry: object, operation: str) -> tuple[bytes | None, bytes]:
    if not isinstance(entry, tuple):
        return None, byte_string(entry, "a record", operation)
    if len(entry) != 2:
        raise ArgumentError(f"{operation}: found a tuple of {len(entry)}, needed a pair of key and record")
    return key_bytes(entry[0], operation), byte_string(entry[1], "a record", operation)


def key_bytes(found: object, operation: str) -> bytes:
    """Return a key that is to be stored, as bytes; there is none without any.

    Examples
    --------
    >>> key_bytes("a", "build")
    b'a'
    """
    key = byte_string(found, "a key", operation)
    if not key:
        raise ArgumentError(f"{operation}: found an empty key, needed one of at least one byte")
    return key


def byte_string(found: object, what: str, operation: str) -> bytes:
    r"""Return `found` as bytes, text encoded as UTF-8; `what` and `operation` are for error messages.

    Examples
    --------
    >>> byte_string("é", "a key", "get")
    b'\xc3\xa9'
    """
    if isinstance(found, str):
        return utf8(found, f"{operation}: {what}")
    if isinstance(found, bytes):
        return found
    raise ArgumentError(f"{operation}: found {what} of type {type(found).__name__}, needed str or bytes")

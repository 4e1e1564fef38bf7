"""Files of encrypted questions and of answers: Parquet, in a directory of this machine or of an object store.

A file belongs to one call of `encrypt`, whose random name is in the names of its files, and to the keys of one client.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from unspoken._key_cache import ID
from unspoken.errors import ConfigurationError, UnspokenError

#: Bytes of queries after which another file begins.
FILE_BYTES = 64 << 20

#: Bytes of a row besides the query or the answer: the other columns, and what Parquet adds to them.
ROW_BYTES = 4096

#: What a file of questions or answers says of itself.
_QUESTIONS, _ANSWERS = "questions 1", "answers 1"

#: Queries of one call, at most.
_MOST = 1 << 48


class Source(NamedTuple):
    """Where a file of questions comes from: a call of `encrypt`, and the id of the keys that it needs."""

    call: str
    key: str


class Query(NamedTuple):
    """A row of a file of questions: an encrypted query, which questions it has, and what only the client can make."""

    first: int
    size: int
    tag: bytes
    query: bytes


class Answer(NamedTuple):
    """A row of a file of answers: an encrypted answer, or why there is none."""

    first: int
    size: int
    tag: bytes
    answer: bytes | None
    error: str | None


class Directory:
    """A directory with files of questions or answers, given as a path or as a URL of ``fsspec``."""

    def __init__(self, url: str | PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        # Both are found out before anything is computed.
        _parquet()
        self._system, root = _fsspec().core.url_to_fs(fspath(url), **(options or {}))
        self._root = root.rstrip("/")

    def names(self) -> list[str]:
        """Return the names of the complete files, in the order of their questions."""
        return sorted(name for name in self._entries() if name.endswith(".parquet"))

    def remove_unfinished(self, names: list[str]) -> None:
        """Delete what interrupted work has left of files that are complete now."""
        for entry in self._entries():
            if entry.endswith(".part") and any(entry.startswith(f"{name}.") for name in names):
                with contextlib.suppress(FileNotFoundError):
                    self._system.rm_file(f"{self._root}/{entry}")

    def fetch(self, home: str, names: list[str], most_bytes: int) -> Directory:
        """Return this directory if it is on this machine, else a copy of these of its files in the directory `home`.

        All files together have `most_bytes` bytes at most.
        """
        if self._is_local():
            return self
        found = sum(self._size(name) for name in names)
        if found > most_bytes:
            raise UnspokenError(
                f"fetch {self._root}: found {found} bytes, needed at most {most_bytes} for these questions; do not "
                "trust whoever wrote them"
            )
        for name in names:
            self._system.get_file(f"{self._root}/{name}", f"{home}/{name}")
        return Directory(home)

    def _size(self, name: str) -> int:
        size: int | None = self._system.size(f"{self._root}/{name}")
        if size is None:
            raise UnspokenError(
                f"fetch {self._root}/{name}: found a file of unknown size, needed its bytes; copy the directory to "
                "this machine yourself"
            )
        return size

    def source(self, name: str) -> Source:
        """Return what a file of questions or answers says of its source."""
        with self._opened(name) as file:
            metadata = file.schema_arrow.metadata or {}
        call, key = (metadata.get(field, b"").decode("ascii", "replace") for field in (b"call", b"key"))
        if ID.fullmatch(call) is None or ID.fullmatch(key) is None:
            raise UnspokenError(f"read {name}: found no ids of its call and keys; encrypt the questions again")
        return Source(call, key)

    def questions(self, name: str, most_bytes: int) -> Iterator[Query]:
        """Read a file of questions, row by row; a query has `most_bytes` bytes at most."""
        for row in self._rows(name, _QUESTIONS, Query, most_bytes):
            query = Query(*row)
            if query.query is None:
                raise UnspokenError(f"read {name}: found a row without a query; encrypt the questions again")
            yield query

    def answers(self, name: str, most_bytes: int) -> Iterator[Answer]:
        """Read a file of answers, row by row; an answer has `most_bytes` bytes at most."""
        for row in self._rows(name, _ANSWERS, Answer, most_bytes):
            answer = Answer(*row)
            if (answer.answer is None) == (answer.error is None):
                raise UnspokenError(f"read {name}: found a row with neither answer nor error; answer the file again")
            yield answer

    @contextlib.contextmanager
    def write_questions(self, name: str, source: Source) -> Iterator[Any]:
        """Write a file of questions: yields a function that adds a row. The file appears when it is complete."""
        with self._writing(name, _QUESTIONS, Query, source) as add:
            yield add

    @contextlib.contextmanager
    def write_answers(self, name: str, source: Source) -> Iterator[Any]:
        """Write a file of answers, in the same way."""
        with self._writing(name, _ANSWERS, Answer, source) as add:
            yield add

    def _entries(self) -> list[str]:
        if not self._system.exists(self._root):
            return []
        return [entry.rstrip("/").rsplit("/", 1)[-1] for entry in self._system.ls(self._root, detail=False)]

    def _is_local(self) -> bool:
        return isinstance(self._system, _fsspec().get_filesystem_class("file"))

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        """Open a file. What its bytes may cause is an error of this package."""
        arrow, parquet = _parquet()
        with self._system.open(f"{self._root}/{name}", "rb") as source:
            try:
                yield parquet.ParquetFile(source, thrift_string_size_limit=1 << 20)
            except (arrow.ArrowException, ValueError, TypeError, KeyError, OverflowError, OSError) as error:
                raise UnspokenError(f"read {name}: found a damaged file ({error}); write it again") from error

    def _rows(self, name: str, mark: str, kind: Any, most_bytes: int) -> Iterator[tuple[Any, ...]]:
        schema = _schema(kind, mark, None)
        with self._opened(name) as file:
            found = (file.schema_arrow.metadata or {}).get(b"unspoken", b"").decode("ascii", "replace")
            if found != mark or not file.schema_arrow.equals(schema):
                raise UnspokenError(
                    f"read {name}: found {found or 'a file of something else'!r}, needed {mark!r} with the columns "
                    f"{', '.join(schema.names)}; unspoken.batches writes such files"
                )
            for group in range(file.metadata.num_row_groups):
                _check_group(name, file.metadata.row_group(group), most_bytes)
                values = file.read_row_group(group).to_pydict()
                first, size, tag, *rest = (values[column][0] for column in schema.names)
                if None in (first, size, tag) or not (0 <= first < _MOST and 1 <= size < _MOST):
                    raise UnspokenError(f"read {name}: found a row for no questions; encrypt them again")
                yield (first, size, tag, *rest)

    @contextlib.contextmanager
    def _writing(self, name: str, mark: str, kind: Any, source: Source) -> Iterator[Any]:
        arrow, parquet = _parquet()
        schema = _schema(kind, mark, source)
        # Another process may write the same file.
        part = f"{self._root}/{name}.{uuid.uuid4().hex}.part"
        self._system.makedirs(self._root, exist_ok=True)
        # Encrypted bytes cannot be compressed. A row has a group of its own, so that readers need no memory for others.
        options = {"compression": "none", "use_dictionary": False}
        try:
            with self._system.open(part, "wb") as target, parquet.ParquetWriter(target, schema, **options) as writer:

                def add(row: Any) -> None:
                    writer.write_batch(arrow.record_batch([[value] for value in row], schema=schema))

                yield add
            self._finish(part, f"{self._root}/{name}")
        except BaseException:
            with contextlib.suppress(Exception):
                self._system.rm_file(part)
            raise

    def _finish(self, part: str, path: str) -> None:
        if not self._is_local():
            self._system.mv(part, path)
            return
        # After a power failure, too, a file with its name is complete.
        with Path(part).open("rb") as written:
            os.fsync(written.fileno())
        Path(part).replace(path)


def read_bytes(url: str, options: Mapping[str, Any] | None) -> bytes | None:
    """Read a whole file of ``fsspec``; nothing, if there is none."""
    system, path = _fsspec().core.url_to_fs(url, **(options or {}))
    try:
        content: bytes = system.cat_file(path)
    except FileNotFoundError:
        return None
    return content


def _schema(kind: Any, mark: str, source: Source | None) -> Any:
    arrow, _ = _parquet()
    types = {
        "first": arrow.int64(),
        "size": arrow.int64(),
        "tag": arrow.binary(),
        "query": arrow.large_binary(),
        "answer": arrow.large_binary(),
        "error": arrow.string(),
    }
    metadata = {"unspoken": mark, **(source._asdict() if source else {})}
    return arrow.schema([(field, types[field]) for field in kind._fields], metadata=metadata)


def _check_group(name: str, group: Any, most_bytes: int) -> None:
    """Check a group of rows before it is read: it must not need more memory than it has bytes in the file."""
    columns = [group.column(index) for index in range(group.num_columns)]
    if group.num_rows != 1 or any(column.compression != "UNCOMPRESSED" for column in columns):
        raise UnspokenError(f"read {name}: found rows in groups or compressed; needed them as unspoken.batches writes")
    # The sizes that the file states for a group may differ from the sizes of its columns, by which it is read.
    stored, plain = (
        sum(getattr(column, size) for column in columns)
        for size in ("total_compressed_size", "total_uncompressed_size")
    )
    found = max(group.total_byte_size, stored, plain)
    if found > most_bytes + ROW_BYTES:
        raise UnspokenError(f"read {name}: found a row of {found} bytes, needed {most_bytes} at most")


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise _missing("pyarrow") from error
    return pyarrow, pyarrow.parquet


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise _missing("fsspec") from error
    return fsspec


def _missing(package: str) -> ConfigurationError:
    return ConfigurationError(f'found no {package}, which files of questions need; pip install "unspoken[batches]"')

"""Files of encrypted questions and of answers: Parquet, in a directory of this machine or of an object store."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any, NamedTuple

from unspoken.errors import ConfigurationError, UnspokenError

#: Bytes of queries after which another file begins.
FILE_BYTES = 64 << 20

_MARK = b"unspoken"
_QUESTIONS = b"questions 1"
_ANSWERS = b"answers 1"


class Query(NamedTuple):
    """A row of a file of questions: an encrypted query, and which questions it has."""

    first: int
    size: int
    key: str
    query: bytes


class Answer(NamedTuple):
    """A row of a file of answers: an encrypted answer, or why there is none."""

    first: int
    size: int
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
        if not self._system.exists(self._root):
            return []
        entries = (entry.rstrip("/").rsplit("/", 1)[-1] for entry in self._system.ls(self._root, detail=False))
        return sorted(name for name in entries if name.endswith(".parquet"))

    def remove_unfinished(self) -> None:
        """Delete what interrupted work has left."""
        for entry in self._system.glob(f"{self._root}/*.part"):
            self._system.rm_file(entry)

    def questions(self, name: str) -> Iterator[Query]:
        """Read a file of questions, row by row."""
        for row in self._rows(name, _QUESTIONS, ["first", "size", "key", "query"]):
            yield Query(*row)

    def answers(self, name: str) -> Iterator[Answer]:
        """Read a file of answers, row by row."""
        for row in self._rows(name, _ANSWERS, ["first", "size", "answer", "error"]):
            yield Answer(*row)

    def errors(self, name: str) -> Iterator[Answer]:
        """Read a file of answers without the answers."""
        for first, size, error in self._rows(name, _ANSWERS, ["first", "size", "error"]):
            yield Answer(first, size, None, error)

    @contextlib.contextmanager
    def write_questions(self, name: str) -> Iterator[Any]:
        """Write a file of questions: yields a function that adds a row. The file appears when it is complete."""
        with self._writing(name, _QUESTIONS, Query) as add:
            yield add

    @contextlib.contextmanager
    def write_answers(self, name: str) -> Iterator[Any]:
        """Write a file of answers, likewise."""
        with self._writing(name, _ANSWERS, Answer) as add:
            yield add

    def _rows(self, name: str, mark: bytes, columns: list[str]) -> Iterator[tuple[Any, ...]]:
        arrow, parquet = _parquet()
        with self._system.open(f"{self._root}/{name}", "rb") as source:
            try:
                file = parquet.ParquetFile(source)
                found = (file.schema_arrow.metadata or {}).get(_MARK)
                if found != mark:
                    raise UnspokenError(
                        f"read {name}: found {_text(found)}, needed {_text(mark)}; questions are written by "
                        "unspoken.batches.encrypt, and answers from them"
                    )
                for batch in file.iter_batches(batch_size=1, columns=columns):
                    values = batch.to_pydict()
                    yield from zip(*(values[column] for column in columns))
            except (arrow.ArrowException, KeyError) as error:
                raise UnspokenError(f"read {name}: found a damaged file ({error}); write it again") from error

    @contextlib.contextmanager
    def _writing(self, name: str, mark: bytes, kind: Any) -> Iterator[Any]:
        arrow, parquet = _parquet()
        types = {
            "first": arrow.int64(),
            "size": arrow.int64(),
            "key": arrow.string(),
            "query": arrow.large_binary(),
            "answer": arrow.large_binary(),
            "error": arrow.string(),
        }
        schema = arrow.schema([(field, types[field]) for field in kind._fields], metadata={_MARK: mark})
        # Another process may write the same file.
        part = f"{self._root}/{name}.{uuid.uuid4().hex}.part"
        self._system.makedirs(self._root, exist_ok=True)
        # Encrypted bytes cannot be compressed.
        options = {"compression": "none", "use_dictionary": False}
        with self._system.open(part, "wb") as target, parquet.ParquetWriter(target, schema, **options) as writer:

            def add(row: Any) -> None:
                writer.write_batch(arrow.record_batch([[value] for value in row], schema=schema))

            yield add
        self._system.mv(part, f"{self._root}/{name}")


def read_bytes(url: str, options: Mapping[str, Any] | None) -> bytes | None:
    """Read a whole file of ``fsspec``; nothing, if there is none."""
    system, path = _fsspec().core.url_to_fs(url, **(options or {}))
    try:
        content: bytes = system.cat_file(path)
    except FileNotFoundError:
        return None
    return content


def _text(mark: bytes | None) -> str:
    return "a file of something else" if mark is None else f"{mark.decode(errors='replace')!r}"


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

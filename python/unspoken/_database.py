"""Databases for private retrieval: building, reading, changing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import index as as_index
from os import PathLike
from pathlib import Path
from typing import Callable, Literal, TypeVar, Union

from unspoken import _unspoken
from unspoken._client_base import Cost
from unspoken._database_edit import DatabaseEdit
from unspoken._records import RecordInput, Records, byte_string, record_pairs
from unspoken.errors import ArgumentError, ConfigurationError, NoSuchIndexError, NoSuchKeyError

Which = Union[str, bytes, int]
Default = TypeVar("Default")


@dataclass(frozen=True)
class DatabaseInfo:
    """What a database contains, and what questions to it take. Returned by `Database.info`.

    Attributes
    ----------
    read_by : {"key", "index"}
        How records are found.
    records : int
        Number of records; by index, one more than the highest index that was written.
    room : int or None
        Number of records that there is room for, by index; `None` by key, where it depends on their
        lengths.
    cells, cell_bytes : int
        Number of cells and bytes of each: a bucket of several records by key, a record by index.
    candidates : int
        Number of cells that a question asks for: the buckets that a key may be in, or 1.
    planes : int
        Tables of the database, and responses for each cell.
    tables : {"transformed", "dense", "wide", "encrypted"}
        Kind of the tables.
    load : float
        Share of the bytes of all buckets that records use; by index, share of the indices.
    table_bytes : int
        Bytes of all tables, which every answer reads.
    changed_entries : int
        Entries of tables that have changed since they were written. `Database.compact` makes it 0.
    version, generation : int
        Number of the version, and of the files.
    preset : str
        Parameter set.
    costs : dict of str to Cost
        For each kind of queries, what one question takes.

    Examples
    --------
    >>> info = unspoken.Database("codes").info()  # doctest: +SKIP
    >>> info.records, info.table_bytes, info.costs["compact"].query_bytes  # doctest: +SKIP
    """

    read_by: Literal["key", "index"]
    records: int
    room: int | None
    cells: int
    cell_bytes: int
    candidates: int
    planes: int
    tables: Literal["transformed", "dense", "wide", "encrypted"]
    load: float
    table_bytes: int
    changed_entries: int
    version: int
    generation: int
    preset: str
    costs: Mapping[str, Cost]


class Database:
    """A database for private retrieval, on disk.

    ``unspoken serve --pir`` serves it, `PirClient` queries it. Its records are read by key,
    or by index from 0. Keys are not stored, only hashes of them, so they cannot be listed.

    One version is read at a time: changes of other processes appear after `refresh`, changes by `edit` at once.

    Parameters
    ----------
    directory : path
        The database. Opening it compares every byte of its files with checksums.

    Raises
    ------
    DatabaseError
        If there is no database, or it is damaged: the error names the file and the bytes.

    Examples
    --------
    >>> import tempfile, unspoken
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     db = unspoken.Database.build(parent + "/codes", {"A00": "Cholera", "B01": "Varicella"}, progress=False)
    ...     with db.edit() as change:
    ...         change["B05"] = "Measles"
    ...         del change["A00"]
    ...     db["B05"], db.get("A00"), "B01" in db, len(db), db.version
    (b'Measles', None, True, 2, 2)
    """

    def __init__(self, directory: str | PathLike[str]) -> None:
        self._directory = Path(directory)
        self._database = _unspoken.Database.open(directory)

    @classmethod
    def build(
        cls,
        directory: str | PathLike[str],
        records: RecordInput,
        *,
        tables: Literal["transformed", "dense", "wide", "encrypted"] = "transformed",
        candidates: int = 2,
        duplicates: Literal["error", "first", "last"] = "error",
        capacity: int = 0,
        longest: int = 0,
        replace: bool = False,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
    ) -> Database:
        """Build a database of all records and open it.

        The records are held in memory during the build; the tables, about 16 bytes for each byte or 1.5
        if they are dense, are not. An error or Control-C leaves what was there before, unless the build
        had just finished.

        Parameters
        ----------
        directory : path
            Directory of the database; it must not exist or be empty, unless `replace` is given.
        records : mapping, iterable or Records
            A dictionary, or another object with `items` such as a series of pandas, is read by key.
            An iterable of records is read by index, an iterable of pairs by key. For files:
            `read_records`. Keys and records are bytes, or text, which is encoded as UTF-8.
        tables : {"transformed", "dense", "wide", "encrypted"}
            Dense tables are for large databases and many clients: they are a tenth as large and read
            faster, but answer packed queries only, of about 147 KB. Wide tables are dense ones with queries
            of about 93 KB, which take a third more memory. A database with encrypted tables is the owner's
            part of one that a service cannot read: ``unspoken pir upload`` encrypts it.
        candidates : {1, 2, 3}
            Buckets that a key may be in. A question asks for all of them; more of them let buckets be
            fuller.
        duplicates : {"error", "first", "last"}
            Which one of several records with the same key is kept.
        capacity : int
            Number of records to make room for, if there are fewer.
        longest : int
            Length in bytes of the longest record to make room for, if all are shorter.
        replace : bool
            Replace the database that is there. It is served until the new one is complete.
        progress : bool or callable
            `True` draws bars on standard error if that is a terminal; a callable is called with a
            `Progress`, whose total is 0 while it is unknown.

        Returns
        -------
        Database

        Raises
        ------
        TypeError
            If a key or a record is neither text nor bytes.
        DatabaseError
            If there are no records, two have the same key, one is too long, the directory is not
            empty, or files cannot be read or written. A `ValueError`.
        DatabaseLockedError
            If another process is changing the database to replace.
        ConfigurationError
            If an option is out of range.
        KeyboardInterrupt
            On Control-C.

        Examples
        --------
        >>> import tempfile, unspoken
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     db = unspoken.Database.build(parent + "/days", ["Monday", "Tuesday"], capacity=7, progress=False)
        ...     db[1], len(db), db.info().room
        (b'Tuesday', 2, 7)
        """
        if candidates not in (1, 2, 3):
            raise ConfigurationError(f"build: found candidates={candidates!r}; needed 1, 2 or 3")
        if capacity < 0 or longest < 0:
            raise ConfigurationError(f"build: found capacity={capacity}, longest={longest}; needed 0 or more")
        options: _unspoken._BuildOptions = {
            "tables": tables,
            "candidates": candidates,
            "duplicates": duplicates,
            "capacity": capacity,
            "longest": longest,
            "replace": replace,
        }
        if isinstance(records, Records):
            _unspoken.Database.build_from(directory, records._used(), options, progress)
        else:
            _unspoken.Database.build(directory, record_pairs(records, "build"), options, progress)
        return cls(directory)

    def __getitem__(self, key: Which) -> bytes:
        """Return the record of a key, or at an index.

        Raises
        ------
        NoSuchKeyError
            If there is no record with this key. A `KeyError`.
        NoSuchIndexError
            If there is no record at this index. An `IndexError`.
        TypeError
            If an index is given for a database that is read by key, or the other way round.
        """
        found = self._find(key)
        if found is not None:
            return found
        if self._database.keyed:
            raise NoSuchKeyError(f"get: no record has the key {key!r}; use get(), which returns None", key)
        raise NoSuchIndexError(f"get: found index {key!r}, needed one of a record, from 0 to {len(self) - 1}")

    def get(self, key: Which, default: Default | None = None) -> bytes | Default | None:
        """Return the record of a key, or at an index; `default` if there is none.

        Raises
        ------
        TypeError
            As for ``db[key]``.

        Examples
        --------
        >>> db.get("A00", b"no such code")  # doctest: +SKIP
        b'Cholera'
        """
        found = self._find(key)
        return default if found is None else found

    def __contains__(self, key: Which) -> bool:
        """Return whether there is a record with this key, or at this index."""
        return self._find(key) is not None

    def __len__(self) -> int:
        """Return the number of records; by index, one more than the highest index that was written."""
        return len(self._database)

    def __iter__(self) -> Iterator[bytes | None]:
        """Return an iterator over the records by index; `None` for a deleted one.

        Raises
        ------
        TypeError
            If the database is read by key.
        """
        if self._database.keyed:
            raise ArgumentError(
                "iterate: the database is read by key, and keys are not stored; ask for the keys you know"
            )
        return (self.get(number) for number in range(len(self)))

    def edit(self, *, progress: bool | Callable[[_unspoken.Progress], object] = True) -> DatabaseEdit:
        """Change records: one version of all changes of a ``with`` block, or none after an exception.

        A service that serves the database follows within a second or two. One process can change a
        database at a time.

        Parameters
        ----------
        progress : bool or callable
            For `DatabaseEdit.update` and `DatabaseEdit.extend`: as for `build`.

        Returns
        -------
        DatabaseEdit

        Raises
        ------
        DatabaseLockedError
            When the block is entered, if another process is changing the database.

        Examples
        --------
        >>> with db.edit() as change:  # doctest: +SKIP
        ...     change["B05"] = "Measles"
        ...     change.update(unspoken.read_records("new.csv", key="code"))
        """
        return DatabaseEdit(self._directory, progress, self.refresh)

    def compact(self, *, progress: bool | Callable[[_unspoken.Progress], object] = True) -> None:
        """Write the tables again with all changes included, which makes answers faster.

        Version and records stay the same, and services continue meanwhile. As much free space is
        needed as the database uses. Worthwhile when `DatabaseInfo.changed_entries` is a hundredth of
        the cells.

        Parameters
        ----------
        progress : bool or callable
            As for `build`.

        Raises
        ------
        DatabaseLockedError
            If another process is changing the database.
        KeyboardInterrupt
            On Control-C; the database stays as it was.

        Examples
        --------
        >>> db.compact(progress=False)  # doctest: +SKIP
        """
        _unspoken.DatabaseWriter.open(self._directory).compact(progress)
        self.refresh()

    def refresh(self) -> bool:
        """Read the newest version, and return whether there was a newer one.

        Raises
        ------
        DatabaseError
            If files are damaged, or the database was replaced by one that was not built with `replace`.
            The version of before stays open.

        Examples
        --------
        >>> db.refresh()  # doctest: +SKIP
        False
        """
        return self._database.refresh()

    def verify(self) -> None:
        """Read all files and all records again, and compare them with their checksums.

        Raises
        ------
        DatabaseError
            If something is damaged: the error names the file and the bytes.

        Examples
        --------
        >>> db.verify()  # doctest: +SKIP
        """
        self._database.verify()

    def info(self) -> DatabaseInfo:
        """Return what the database contains, and what questions to it take. Reads all cells.

        Examples
        --------
        >>> db.info().costs["packed"].answer_bytes  # doctest: +SKIP
        7960
        """
        found = self._database.info()
        costs = {kind: Cost(**cost) for kind, cost in found["costs"].items()}
        return DatabaseInfo(**{**found, "costs": costs})  # type: ignore[arg-type]

    @property
    def version(self) -> int:
        """The number of the version that is read; it grows with each change."""
        return self._database.version

    @property
    def directory(self) -> Path:
        """The directory of the database."""
        return self._directory

    def __repr__(self) -> str:
        """Return the directory, the number of records, how they are read, and the version."""
        kind = "key" if self._database.keyed else "index"
        return f"<Database {self._directory}: {len(self)} records by {kind}, version {self.version}>"

    def _find(self, key: Which) -> bytes | None:
        if self._database.keyed:
            return self._database.get(byte_string(key, "a key", "get from a database by key"))
        if isinstance(key, (str, bytes)):
            raise ArgumentError(f"get: found {type(key).__name__}, needed a number: the database is read by index")
        number = as_index(key)
        return self._database.get_index(number) if 0 <= number < len(self) else None

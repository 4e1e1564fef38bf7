"""Embedding tables, compressed for private lookup."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Callable, Literal

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._labels import unmasked
from unspoken._texts import text_list
from unspoken.errors import ArgumentError, TrainingError


class CompressedTable:
    """An embedding table in which each row is a sum of one column of each of a few subtables.

    Created by `compress` or read by `load`. It has two halves: the tokens and their columns, for
    clients; the subtables, for a service.

    Attributes
    ----------
    tokens : list of str
        In the order of the rows.
    shape : tuple of int
        Number of tokens, and numbers per embedding.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> table = unspoken.compress(np.eye(6), list("abcdef"), columns=8, progress=False)
    >>> table
    <CompressedTable of 6 x 6 numbers in 4 subtables of 8 columns>
    """

    def __init__(self, table: _unspoken.Table, error: float | None = None) -> None:
        self._table = table
        self._error = error
        self._codes = table.codes()
        self.tokens = self._codes.tokens
        self.shape = (len(self.tokens), self._codes.width)

    def reconstruct(self, tokens: str | Iterable[str]) -> npt.NDArray[np.float64]:
        """Return the plaintext embeddings, which a service computes encrypted.

        Parameters
        ----------
        tokens : str or iterable of str
            A token not in the table uses the row ``<unk>``, ``[UNK]`` or ``<UNK>`` if there is one.

        Returns
        -------
        ndarray of float64
            Of shape (width,) for one token, (tokens, width) for several.

        Raises
        ------
        UnknownTokenError
            If a token is not in the table, which has no row for unknown ones. A `KeyError`.

        Examples
        --------
        >>> import numpy as np, unspoken
        >>> table = unspoken.compress(np.eye(6), list("abcdef"), columns=8, progress=False)
        >>> table.reconstruct("b").round(3) + 0.0
        array([0., 1., 0., 0., 0., 0.])
        >>> table.reconstruct(["b", "a", "b"]).shape
        (3, 6)
        """
        if isinstance(tokens, str):
            row: npt.NDArray[np.float64] = self._table.reconstruct([tokens])[0]
            return row
        return self._table.reconstruct(text_list(tokens, "tokens"))

    def error(self, matrix: npt.ArrayLike | None = None) -> float:
        """Return the relative error of compression: ``sum((m - m')**2) / sum(m**2)``.

        Parameters
        ----------
        matrix : array-like, shape (tokens, width), optional
            The table to compare with, its rows in the order of `tokens`. Default: the table that was compressed. A
            table read from files does not have it.

        Examples
        --------
        >>> import numpy as np, unspoken
        >>> table = unspoken.compress(np.eye(6), list("abcdef"), columns=8, progress=False)
        >>> table.error() < 1e-6
        True
        """
        if matrix is not None:
            return self._table.error(_rows(matrix))
        if self._error is None:
            raise ArgumentError("tell the error: found a table read from files, needed its original; pass matrix=")
        return self._error

    def save(self, directory: str | PathLike[str]) -> None:
        """Write both halves into a directory, which is created if missing.

        Give clients the two ``client`` files and nothing else; a service needs the two ``server``
        files.

        Examples
        --------
        >>> import tempfile, numpy as np, unspoken
        >>> table = unspoken.compress(np.eye(6), list("abcdef"), columns=8, progress=False)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     table.save(directory)
        ...     unspoken.CompressedTable.load(directory).shape
        (6, 6)
        """
        self._table.save(directory)

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> CompressedTable:
        """Read both halves of a table; see `save`.

        Raises
        ------
        ModelError
            If the files are missing, damaged, or of two compressions.

        Examples
        --------
        >>> table = unspoken.CompressedTable.load("glove")  # doctest: +SKIP
        """
        return cls(_unspoken.Table.load(directory))

    def __deepcopy__(self, memo: dict[int, object]) -> CompressedTable:
        """Return this table, which never changes: scikit-learn copies the options of its estimators."""
        return self

    def __repr__(self) -> str:
        """Return the shapes."""
        rows, width = self.shape
        subtables, columns = self._codes.subtables, self._codes.columns
        return f"<CompressedTable of {rows} x {width} numbers in {subtables} subtables of {columns} columns>"


def compress(
    matrix: npt.ArrayLike,
    tokens: Iterable[str],
    columns: int = 256,
    seed: int = 0,
    *,
    subtables: int = 4,
    method: Literal["additive", "gumbel"] = "additive",
    rounds: int = 12,
    trials: int = 4,
    epochs: int = 100,
    batch: int = 128,
    rate: float = 0.001,
    temperature: float = 1.0,
    progress: bool | Callable[[_unspoken.Progress], object] = True,
) -> CompressedTable:
    """Compress an embedding table for private lookup.

    The same table, options and seed give the same result bit for bit, on any number of threads of
    one kind of processor.

    Parameters
    ----------
    matrix : array-like of numbers, shape (tokens, width)
        Converted to float32; finite, of magnitude at most a million.
    tokens : iterable of str
        One for each row, all different. One named ``<unk>`` is used for tokens not in the table: the
        mean of all rows is a good choice.
    columns : int
        Columns of each subtable: even, 2 to 4096. More need more time and lose less.
    seed : int
        Seed of the start and of the search.
    subtables : int
        Number of subtables, 1 to 16. A query has one ciphertext for each.
    method : str
        ``"additive"`` alternates between columns and least squares. ``"gumbel"`` trains the encoder
        network of Shu and Nakayama; it takes longer and loses more.
    rounds, trials : int
        Of ``"additive"``: rounds of refinement, and changes tried on each row in each round.
    epochs, batch : int
        Of ``"gumbel"``: epochs of training, and rows of a batch.
    rate, temperature : float
        Of ``"gumbel"``: the rate of the optimiser, and the temperature of the softmax.
    progress : bool or callable
        `True` draws a bar on standard error if that is a terminal; a callable is called with a
        `Progress` after each step.

    Returns
    -------
    CompressedTable

    Raises
    ------
    TypeError
        If `matrix` does not contain real numbers, or a token is not text.
    ValueError
        If `matrix` does not have two axes; a `TrainingError` if rows and tokens do not match, a value is
        not finite, or an option is out of range.
    KeyboardInterrupt
        On Control-C.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> matrix = np.random.default_rng(0).normal(size=(50, 4))
    >>> tokens = [f"word{i}" for i in range(50)]
    >>> table = unspoken.compress(matrix, tokens, columns=16, progress=False)
    >>> table.reconstruct("word7").shape, table.error() < 0.1
    ((4,), True)
    """
    counts = {
        "columns": columns,
        "seed": seed,
        "subtables": subtables,
        "rounds": rounds,
        "trials": trials,
        "epochs": epochs,
        "batch": batch,
    }
    for name, value in counts.items():
        if value < 0:
            raise TrainingError(f"compress: found {name} = {value}, needed 0 or more; change the option")
    options = {"method": method, "rate": rate, "temperature": temperature, **counts}
    table, error = _unspoken.Table.compress(_rows(matrix), text_list(tokens, "tokens"), options, progress)
    return CompressedTable(table, error)


def codes_of(table: str | PathLike[str] | CompressedTable) -> _unspoken.Codes:
    """Return the client half of a table, or read it from a directory."""
    return table._codes if isinstance(table, CompressedTable) else _unspoken.Codes.load(table)


def _rows(matrix: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return `matrix` as float32; values that are too large become infinite and are refused later."""
    given = np.asarray(unmasked(matrix, "matrix"))
    if given.dtype.kind not in "fiu":
        raise ArgumentError(f"read matrix: found entries of type {given.dtype}, needed real numbers; convert them")
    if given.ndim != 2:
        raise ArgumentError(f"read matrix: found shape {given.shape}, needed (tokens, width); reshape it")
    with np.errstate(over="ignore"):
        return given.astype(np.float32, copy=False)

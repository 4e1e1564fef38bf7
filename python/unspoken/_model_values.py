"""What models of one's own take and give: inputs, outputs, rows and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Literal

import numpy as np
import numpy.typing as npt

from unspoken._callers import warn_caller
from unspoken.errors import ArgumentError, UnansweredError

Table = npt.NDArray[np.float64]
Answers = dict[str, npt.NDArray[Any]]
# What a method returns, from the answers; made for the outputs of the model before anything is asked.
Reader = Callable[[Answers], Any]

# Rows without an answer that a message names.
NAMED = 8


class ClipWarning(UserWarning):
    """Numbers were moved into the calibrated ranges, as `clip=True` asked.

    Examples
    --------
    >>> import warnings, unspoken
    >>> warnings.simplefilter("error", unspoken.ClipWarning)  # doctest: +SKIP
    """


@dataclass(frozen=True, eq=False)
class ModelInput:
    """An input of a model.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Of a row.
    table_rows : int or None
        Rows of the table that it points into, if it has indices: whole numbers from 0.
    elements : tuple of str
        A name for each number of a row, such as those of the columns of a data frame; or none.
    low, high : ndarray of float64, of this shape, or None
        The calibrated range of each number, with its margin; `None` for indices.
    """

    name: str
    shape: tuple[int, ...]
    table_rows: int | None
    elements: tuple[str, ...] = ()
    low: npt.NDArray[np.float64] | None = None
    high: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class ModelOutput:
    """An output of a model.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Of a row.
    gives : str
        ``"labels"``, ``"probabilities"``, ``"log_probabilities"`` or ``"numbers"``, as the service says.
    labels : ndarray or None
        The labels that the model names, of its classes.
    """

    name: str
    shape: tuple[int, ...]
    gives: Literal["labels", "probabilities", "log_probabilities", "numbers"]
    labels: npt.NDArray[Any] | None


def described(facts: dict[str, Any]) -> tuple[tuple[ModelInput, ...], tuple[ModelOutput, ...]]:
    """Return inputs and outputs in what the compiled module knows of a model."""

    def shaped(end: npt.NDArray[np.float64] | None, shape: Sequence[int]) -> npt.NDArray[np.float64] | None:
        return None if end is None else end.reshape(shape)

    inputs = (
        ModelInput(name, tuple(shape), rows, tuple(elements), *(shaped(end, shape) for end in ends))
        for name, shape, rows, elements, *ends in facts["inputs"]
    )
    outputs = (
        ModelOutput(name, tuple(shape), gives, None if labels is None else np.array(labels))
        for name, shape, gives, labels in facts["outputs"]
    )
    return tuple(inputs), tuple(outputs)


def input_tables(rows: Any, inputs: Sequence[ModelInput]) -> list[Table]:
    """Return a table for each input, with the numbers of each row one after the other.

    Examples
    --------
    >>> x, y = ModelInput("x", (2,), None), ModelInput("y", (1,), None)
    >>> input_tables([[1, 2], [3, 4]], [x])
    [array([[1., 2.],
           [3., 4.]])]
    >>> [table.shape for table in input_tables({"x": [[1, 2]], "y": [5]}, [y, x])]
    [(1, 1), (1, 2)]
    """
    arrays = _by_input(rows, inputs)
    tables = [_table(array, each.name, each.shape) for array, each in zip(arrays, inputs)]
    counts = {len(table) for table in tables}
    if len(counts) != 1 or 0 in counts:
        found = ", ".join(f"{len(table)} of {each.name!r}" for table, each in zip(tables, inputs))
        raise ArgumentError(f"read rows: found {found}, needed as many of each input, and at least one")
    return tables


def listed_rows(rows: Any, inputs: Sequence[ModelInput], *, clip: bool = False) -> tuple[list[tuple[Table, ...]], int]:
    """Return rows as the compiled module takes them, for each an array for each input; and how many numbers were moved.

    Examples
    --------
    >>> listed_rows([[1, 2], [3, 4]], [ModelInput("x", (2,), None)])
    ([(array([1., 2.]),), (array([3., 4.]),)], 0)
    """
    tables, moved = input_tables(rows, inputs), 0
    if clip:
        tables, moved = _clipped(tables, inputs)
    return list(zip(*tables)), moved


def warn_of_moved(moved: int) -> None:
    """Warn of numbers that were moved. After the exchange: a warning may be an error, and the service sees who asks."""
    if moved:
        warn_caller(f"{moved} numbers were moved into the calibrated ranges", ClipWarning)


def _clipped(tables: Sequence[Table], inputs: Sequence[ModelInput]) -> tuple[list[Table], int]:
    """Return tables whose numbers are moved into the calibrated ranges, and how many were."""
    moved, inside = 0, []
    for table, each in zip(tables, inputs):
        if each.low is None or each.high is None:
            inside.append(table)
            continue
        inside.append(np.clip(table, each.low.ravel(), each.high.ravel()))
        moved += int(np.count_nonzero((inside[-1] != table) & ~np.isnan(table)))
    return inside, moved


def answered(
    outputs: Sequence[ModelOutput],
    read: Sequence[tuple[int, Sequence[Any], dict[int, str]]],
    reader: Reader = lambda answers: answers,
) -> Any:
    """Return what `reader` makes of the answers to all rows. `read` has what the compiled module read of each query.

    Raises
    ------
    UnansweredError
        If rows have none; it has what `reader` makes of the answers to the others.

    Examples
    --------
    >>> y = ModelOutput("y", (), "numbers", None)
    >>> answered([y], [(2, [np.ones(2)], {}), (1, [np.zeros(1)], {})])
    {'y': array([1., 1., 0.])}
    >>> try:
    ...     answered([y], [(2, [np.ones(2)], {}), (2, [np.zeros(1)], {1: "far outside"})])
    ... except UnansweredError as error:
    ...     print(error.answers["y"], error.rows, error.errors)
    [1. 1. 0.] [0 1 2] {3: 'far outside'}
    """
    errors: dict[int, str] = {}
    count = 0
    for rows, _, problems in read:
        errors.update((count + row, problem) for row, problem in problems.items())
        count += rows
    answers = reader(_by_name(outputs, [arrays for _, arrays, _ in read]))
    if errors:
        named = "; ".join(f"row {row}, {problem}" for row, problem in list(errors.items())[:NAMED])
        more = f"; and {len(errors) - NAMED} more" if len(errors) > NAMED else ""
        message = (
            f"found {len(errors)} of {count} rows without an answer; this error has the answers to the others. Do not "
            f"ask a service again because of it: {named}{more}"
        )
        raise UnansweredError(message, answers, np.setdiff1d(np.arange(count), list(errors)), errors)
    return answers


def _by_name(outputs: Sequence[ModelOutput], read: Iterable[Sequence[Any]]) -> Answers:
    """Return the answers joined query after query, by the names of outputs."""
    parts = list(zip(*read))
    return {each.name: np.concatenate([_array(part, each.shape) for part in own]) for each, own in zip(outputs, parts)}


def _array(answers: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the answers of an output as an array; texts come as a list."""
    return answers if isinstance(answers, np.ndarray) else np.array(answers, dtype=np.str_).reshape(-1, *shape)


def _by_input(rows: Any, inputs: Sequence[ModelInput]) -> list[Any]:
    """Return what was given for each input."""
    names = [each.name for each in inputs]
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, Mapping) for row in rows):
        rows = {name: [_field(row, name, f"row {i}, ") for i, row in enumerate(rows)] for name in names}
    if isinstance(rows, Mapping):
        unknown = [name for name in rows if name not in names]
        if unknown:
            raise ArgumentError(f"read rows: found {unknown[0]!r}, needed the inputs {names}")
        return [_field(rows, name) for name in names]
    if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):
        # A data frame: a column for each input, or all numbers of the only one.
        if all(each.name in rows.columns and int(np.prod(each.shape)) == 1 for each in inputs):
            return [rows[name] for name in names]
        if len(inputs) == 1:
            return [_columns(rows, inputs[0])]
        raise ArgumentError(f"read rows: found columns {list(rows.columns)}, needed one for each of the inputs {names}")
    if len(inputs) != 1:
        raise ArgumentError(f"read rows: found one array, needed a dict with one for each of the inputs {names}")
    return [rows]


def element_names(rows: Any, inputs: Sequence[ModelInput]) -> list[list[str]]:
    """Return the names of the columns of a data frame for a model with one input, for each input; otherwise none.

    Examples
    --------
    >>> element_names([[1, 2]], [ModelInput("x", (2,), None)])
    [[]]
    """
    columns = getattr(rows, "columns", None) if hasattr(rows, "to_numpy") else None
    if len(inputs) != 1 or columns is None or not all(isinstance(name, str) for name in columns):
        return [[] for _ in inputs]
    names = [str(name) for name in columns]
    # The name of such an input is that of its column.
    return [[] if names == [inputs[0].name] else names]


def _columns(frame: Any, only: ModelInput) -> Any:
    """Return the columns of a data frame in the order of the names that the model has for them, if it has any."""
    missing = [name for name in only.elements if name not in frame.columns]
    if missing:
        found = list(frame.columns)
        raise ArgumentError(f"read rows: found columns {found} without {missing}, needed those of the calibration")
    return frame[list(only.elements)] if only.elements else frame


def _field(row: Mapping[str, Any], name: str, place: str = "") -> Any:
    if name not in row:
        raise ArgumentError(f"read rows: {place}found no {name!r}, needed all inputs of the model")
    return row[name]


def _table(values: Any, name: str, shape: tuple[int, ...]) -> Table:
    """Return an array whose first axis counts rows as a table."""
    what = f"input {name!r}"
    array = np.asarray(_filled(values))
    if array.dtype.kind in "OUT":
        # A service must not see which cells are no numbers: their rows have no answers.
        cells = [_number(cell) for cell in array.ravel()]
        array = np.array(cells, dtype=np.float64).reshape(array.shape)
    if array.dtype.kind not in "buif":
        raise ArgumentError(f"read rows: {what}: found values of type {array.dtype}, needed numbers; encode them")
    size = int(np.prod(shape))
    if array.ndim == 0 or (array.shape[1:] != shape and int(np.prod(array.shape[1:])) != size):
        needed = ", ".join(["rows", *map(str, shape)])
        raise ArgumentError(
            f"read rows: {what}: found an array of shape {array.shape}, needed ({needed}); put one row in a list"
        )
    return np.ascontiguousarray(array.reshape(len(array), size), dtype=np.float64)


def _filled(values: Any) -> Any:
    """Return values with a NaN for each number that is masked, in lists of arrays too."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "buif":
        plain: Any = values.astype(np.float64)
        return plain.filled(np.nan)
    if isinstance(values, (list, tuple)):
        return [_filled(value) for value in values]
    return values


def _number(cell: Any) -> float:
    """Return a cell as a number, or NaN if it is none."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan

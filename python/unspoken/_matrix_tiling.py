"""Numpy's functions that pad, repeat and multiply out the entries of encrypted matrices, with numpy's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken import _matrix_arithmetic as arithmetic
from unspoken import _matrix_functions as functions
from unspoken._matrix import Matrix
from unspoken._matrix_arithmetic import Array
from unspoken._matrix_numpy import COMPARE, check_defaults, implements, implements_ufunc
from unspoken._matrix_shape import axis_number, axis_numbers, batch, core, integers
from unspoken.errors import ArgumentError, MatrixError

Weights = npt.NDArray[np.float64]
# Modes of numpy.pad that compare entries, and options that have a pair of values for each axis.
_COMPARING = ("maximum", "minimum", "median")
_PAIRS = ("constant_values", "end_values", "stat_length")


# -------------------------------------------------------------------- repetitions


@implements("repeat")
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Matrix:
    matrix = functions._matrix_of("repeat", a)
    if axis is None:
        matrix, axis = matrix.ravel(), 0
    along, extent = functions._core_axis("repeat", matrix, axis)
    counts = integers(repeats, "repeat: repeats")
    if len(counts) not in (1, extent) or min(counts, default=0) < 0:
        raise MatrixError(f"repeat: repeats {repeats}; needed one number, or {extent}, of 0 or more each")
    return _picked(matrix, along, np.repeat(np.arange(extent), counts))


@implements("tile")
def _tile(A: Any, reps: Any) -> Matrix:  # noqa: N803  numpy's name
    matrix = functions._matrix_of("tile", A)
    counts = integers(reps, "tile: reps")
    if min(counts, default=1) < 0:
        raise MatrixError(f"tile: reps {reps}; needed numbers of 0 or more")
    counts = (1,) * (matrix.ndim - len(counts)) + counts
    if len(counts) > matrix.ndim:
        matrix = matrix.reshape((1,) * (len(counts) - matrix.ndim) + matrix.shape)
    for axis, count in enumerate(counts):
        if count != 1:
            along, extent = functions._core_axis("tile", matrix, axis)
            matrix = _picked(matrix, along, np.tile(np.arange(extent), count))
    return matrix


def _picked(a: Matrix, axis: int, places: npt.NDArray[np.intp]) -> Matrix:
    """Return the entries at these places along an axis, counted without the batch."""
    before = axis + int(a._batch is not None)
    return a[(*(slice(None) for _ in range(before)), places)]


@implements("kron")
def _kron(a: Any, b: Any) -> Matrix:
    left, right = arithmetic.array(a), arithmetic.array(b)
    if left.ndim == 0 or right.ndim == 0:
        return arithmetic.multiply(left, right)
    left, right = _aligned(left, right)
    cores = core(left), core(right)
    for axis, (outer, inner) in enumerate(zip(*cores)):
        left = _along(left, axis, np.repeat(np.arange(outer), inner))
        right = _along(right, axis, np.tile(np.arange(inner), outer))
    return arithmetic.multiply(left, right)


def _aligned(a: Array, b: Array) -> tuple[Array, Array]:
    """Return both with the same number of axes besides the batch; new axes come first, as in numpy."""
    ndim, arrays = max(a.ndim, b.ndim), (a, b)
    shapes = [(1,) * (ndim - each.ndim) + each.shape for each in arrays]
    batched = [batch(each) is not None for each in arrays]
    for one, other in ((0, 1), (1, 0)):
        if batched[one] and (batched[other] or arrays[one].ndim < ndim or shapes[other][0] != 1):
            raise MatrixError(
                f"kron: shapes {a.shape} and {b.shape}: the first axis of a batch is not combined with other axes; "
                "needed one batch at most, beside a matrix or a vector"
            )
    first = int(any(batched))
    aligned = [
        each if is_batch else each.reshape(shape[first:]) for each, shape, is_batch in zip(arrays, shapes, batched)
    ]
    return aligned[0], aligned[1]


def _along(a: Array, axis: int, places: npt.NDArray[np.intp]) -> Array:
    if len(places) == core(a)[axis]:
        return a  # all of them, in order
    return np.take(a, places, axis) if isinstance(a, np.ndarray) else _picked(a, axis, places)


# -------------------------------------------------------------------- paddings


@implements("pad")
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Matrix:
    matrix = functions._matrix_of("pad", array)
    if callable(mode):
        raise ArgumentError("numpy.pad: a function as mode= is not available for encrypted matrices: it gets no entry")
    if mode in _COMPARING:
        raise ArgumentError(f"numpy.pad: mode={mode!r} is not available for encrypted matrices: {COMPARE}")
    pairs = {name: _pairs(name, options.pop(name), matrix.ndim) for name in _PAIRS if options.get(name) is not None}
    # Numpy checks the mode and the options, also where nothing is padded.
    _padding(1, (0, 0), mode, {**options, **{name: [[0, 0]] * 2 for name in pairs if name != "stat_length"}})
    for axis, width in enumerate(_widths(pad_width, matrix.ndim)):
        if width == (0, 0):
            continue
        along, extent = functions._core_axis("pad", matrix, axis)
        of_axis = {name: [values[axis], values[axis]] for name, values in pairs.items()}
        weights, rest = _padding(extent, width, mode, {**options, **of_axis})
        matrix = functions._times_along(matrix, weights, along)
        if rest.any():
            matrix = matrix + (rest[:, np.newaxis] if along == 0 and len(matrix._core) == 2 else rest)
    return matrix


def _padding(extent: int, width: tuple[int, int], mode: str, options: dict[str, Any]) -> tuple[Weights, Weights]:
    """Return weights and a rest: padding a vector is the weights times the vector, plus the rest.

    That is so for every mode that compares nothing, so numpy pads the unit vectors, as columns of a matrix.
    """
    columns = np.hstack([np.zeros((extent, 1)), np.eye(extent)])
    try:
        padded = np.pad(columns, [width, (0, 0)], mode, **options)  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise MatrixError(f"pad: {error}") from None
    if mode == "empty":
        padded[: width[0]] = padded[width[0] + extent :] = 0.0
    return np.asarray(padded[:, 1:] - padded[:, :1]), np.asarray(padded[:, 0])


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    """Return the widths before and after each axis, which numpy takes in several forms."""
    if isinstance(pad_width, dict):
        given = {axis_number(axis, ndim): width for axis, width in pad_width.items()}
        return [_widths(given[axis], 1)[0] if axis in given else (0, 0) for axis in range(ndim)]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise ArgumentError(f"numpy.pad: pad_width {pad_width!r}; needed integers")
    pairs = [(int(before), int(after)) for before, after in _pairs("pad_width", widths, ndim)]
    if any(min(pair) < 0 for pair in pairs):
        raise MatrixError(f"pad: pad_width {pad_width!r}; needed widths of 0 or more")
    return pairs


def _pairs(name: str, values: Any, ndim: int) -> Weights:
    """Return a value before and after each axis."""
    values = arithmetic.plain(values)
    try:
        pairs = np.broadcast_to(values, (ndim, 2))
    except ValueError:
        needed = f"one, two, or two for each of {ndim} axes"
        raise MatrixError(f"pad: {name} of shape {values.shape}; needed {needed}") from None
    return pairs.astype(np.intp) if name == "stat_length" else pairs


# -------------------------------------------------------------------- products


@implements_ufunc("multiply.reduce")
def _reduce_multiply(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Matrix:
    return prod(a, axis, dtype, out, keepdims, initial, where)


@implements("prod")
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Matrix:
    """Return the products of the entries along axes, multiplied as a tree: a level for each doubling of their number.

    Each entry is selected first, which consumes a level for each axis.
    """
    check_defaults("prod", dtype=dtype, out=out, initial=initial, where=where)
    matrix = functions._matrix_of("prod", a)
    # From the last axis, so that the numbers of the others stay.
    for each in reversed(axis_numbers(axis, matrix.ndim)):
        _, extent = functions._core_axis("prod", matrix, each)
        before = tuple(slice(None) for _ in range(each))
        parts = [matrix[(*before, slice(i, i + 1) if keepdims else i)] for i in range(extent)]
        matrix = _product(parts)
    return matrix


def _product(factors: list[Matrix]) -> Matrix:
    """Return the product of neighbours, then of their products."""
    while len(factors) > 1:
        pairs = zip(factors[::2], factors[1::2])
        last = factors[-1:] if len(factors) % 2 else []
        factors = [*(a * b for a, b in pairs), *last]
    return factors[0]

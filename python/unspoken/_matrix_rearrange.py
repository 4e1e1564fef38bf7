"""Reshapes, exchanges of axes, and joins of encrypted matrices, with numpy's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from unspoken import _matrix
from unspoken import _matrix_arithmetic as arithmetic
from unspoken._matrix_node import Node
from unspoken._matrix_shape import axis_number, core, integers, reshaped
from unspoken.errors import MatrixError

if TYPE_CHECKING:
    from unspoken._matrix import Matrix, Plain

    Array = Union[Matrix, npt.NDArray[np.float64]]

_MOST_AXES = (
    "needed rows and columns: a third axis is the batch of an input, "
    "which matrix(name, (batch, rows, columns)) encrypts as one array"
)


def reshape(a: Matrix, shape: object) -> Matrix:
    """Return the entries in row-major order in another shape; adding or removing axes of length 1 costs little."""
    wanted = reshaped(shape, a.size)
    if a._batch is None and len(wanted) > 2:
        raise MatrixError(f"reshape: {a.shape} to {wanted}; {_MOST_AXES}")
    if a._batch is not None:
        if not 1 <= len(wanted) <= 3 or wanted[0] != a._batch:
            raise MatrixError(f"reshape: {a.shape} to {wanted}; needed the batch, {a._batch}, as the first of 3 axes")
        wanted = wanted[1:]
    node = a._node
    if len(wanted) == 2:
        return a._made(node.reshape((wanted[0], wanted[1])), (True, True))
    # A vector stays a column or a row of the matrix, if it is one.
    count = int(np.prod(wanted))
    if len(wanted) == 1 and node.shape == (count, 1):
        return a._made(node, (True, False))
    return a._made(node.reshape((1, count)), (False, len(wanted) == 1))


def expand_dims(a: Matrix, axis: object) -> Matrix:
    """Return the same entries with new axes of length 1 at these places of the result."""
    axes = integers(axis, "expand_dims: axis")
    ndim = a.ndim + len(axes)
    new = {axis_number(each, ndim) for each in axes}
    if len(new) < len(axes):
        raise MatrixError(f"repeated axis in {axes}")
    extents = iter(a.shape)
    return reshape(a, [1 if each in new else next(extents) for each in range(ndim)])


def squeeze(a: Matrix, axis: object = None) -> Matrix:
    """Return the same entries without axes of length 1, or without these ones."""
    there = [each for each, extent in enumerate(a.shape) if extent == 1]
    gone = there if axis is None else [axis_number(each, a.ndim) for each in integers(axis, "squeeze: axis")]
    if set(gone) - set(there):
        raise MatrixError(f"cannot select an axis to squeeze out which has size not equal to one: {axis} of {a.shape}")
    if a._batch is not None and 0 in gone:
        raise MatrixError(f"squeeze: the batch, axis 0 of shape {a.shape}, stays; give the other axes: axis=-1")
    return reshape(a, [extent for each, extent in enumerate(a.shape) if each not in gone])


def transpose(a: Matrix, axes: object = None) -> Matrix:
    """Return the matrix with its axes in this order, reversed by default; the batch stays first."""
    order = range(a.ndim)[::-1] if axes is None else integers(axes, "transpose: axes")
    numbers = [axis_number(each, a.ndim) for each in order]
    if sorted(numbers) != list(range(a.ndim)):
        raise MatrixError(f"transpose: axes {axes} of shape {a.shape}; needed each axis once")
    if numbers == list(range(a.ndim)):
        return a
    if a._batch is not None and numbers[0] != 0:
        raise MatrixError(
            f"transpose: a batch of shape {a.shape}; needed the batch as first axis: use .mT, which transposes each"
        )
    return a._made(a._node.transpose(), (True, True))


def swapaxes(a: Matrix, axis1: object, axis2: object) -> Matrix:
    """Return the matrix with two axes exchanged."""
    first, second = axis_number(axis1, a.ndim), axis_number(axis2, a.ndim)
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return transpose(a, order)


def moveaxis(a: Matrix, source: object, destination: object) -> Matrix:
    """Return the matrix with axes moved to other places."""
    sources = [axis_number(each, a.ndim) for each in integers(source, "moveaxis: source")]
    places = [axis_number(each, a.ndim) for each in integers(destination, "moveaxis: destination")]
    if len(sources) != len(places):
        raise MatrixError("moveaxis: needed as many sources as destinations")
    order = [each for each in range(a.ndim) if each not in sources]
    for place, each in sorted(zip(places, sources)):
        order.insert(place, each)
    return transpose(a, order)


def concatenate(arrays: Iterable[Matrix | Plain], axis: Any = 0) -> Matrix:
    """Return the arrays joined along an axis; each encrypted one consumes a level.

    The parts are shifted to their places by products with plaintext matrices, and added.
    """
    parts = [arithmetic.array(each) for each in arrays]
    if axis is None:
        parts, axis = [each.ravel() for each in parts], 0
    if any(each.ndim == 0 for each in parts):
        raise MatrixError("zero-dimensional arrays cannot be concatenated")
    encrypted = [each for each in parts if isinstance(each, _matrix.Matrix)]
    ndim, first = parts[0].ndim, encrypted[0]
    number = axis_number(axis, ndim)
    shapes = [(*each.shape[:number], *each.shape[number + 1 :]) for each in parts]
    if any(each != shapes[0] for each in shapes):
        listed = ", ".join(str(each.shape) for each in parts)
        raise MatrixError(
            "all the input array dimensions except for the concatenation axis must match exactly: "
            f"found shapes {listed} and axis {axis}"
        )
    batched = first._batch is not None
    if len({batched, *(isinstance(each, _matrix.Matrix) and each._batch is not None for each in parts)}) > 1:
        raise MatrixError("concatenate: a batch with an array that is none; needed encrypted batches only")
    if batched and number == 0:
        raise MatrixError(f"concatenate: axis 0 of {first.shape} is the batch, which cannot be joined; use axis 1 or 2")
    if len(first._core) == 2:
        return first._made(_joined(parts, number - int(batched)), (True, True))
    # Vectors are joined as rows or as columns, as the first one is stored.
    along = 0 if first._axes[0] else 1
    return first._made(_joined([_laid(each, along) for each in parts], along), (along == 0, along == 1))


def _laid(vector: Array, along: int) -> Array:
    """Return a vector as a column (0) or row (1)."""
    if isinstance(vector, np.ndarray):
        return vector[:, np.newaxis] if along == 0 else vector[np.newaxis]
    return vector._as_column() if along == 0 else vector._as_row()


def _joined(parts: Sequence[Array], along: int) -> Node:
    """Return matrices joined along their rows (0) or columns (1)."""
    extents = [each.shape[along] if isinstance(each, np.ndarray) else each._node.shape[along] for each in parts]
    places = np.cumsum([0, *extents])
    if len(parts) == 1 and not isinstance(parts[0], np.ndarray):
        return parts[0]._node
    nodes: dict[int, tuple[Node, npt.NDArray[np.float64]]] = {}
    plain: list[npt.NDArray[np.float64]] = []
    for part, place, extent in zip(parts, places, extents):
        if isinstance(part, np.ndarray):
            before_and_after = (int(place), int(places[-1] - place - extent))
            plain.append(np.pad(part, [before_and_after, (0, 0)] if along == 0 else [(0, 0), before_and_after]))
        else:
            _, moves = nodes.setdefault(id(part._node), (part._node, np.zeros((places[-1], extent))))
            moves[place : place + extent] += np.eye(extent)
    placed = [
        node.apply("times_left", payload=moves) if along == 0 else node.apply("times_right", payload=moves.T)
        for node, moves in nodes.values()
    ]
    if plain:
        placed.append(Node.constant(np.asarray(sum(plain))))
    return reduce(lambda node, other: node.apply("add", other), placed)


def stack(arrays: Iterable[Matrix | Plain], axis: Any = 0) -> Matrix:
    """Return numbers or vectors joined along a new axis."""
    parts = [arithmetic.array(each) for each in arrays]
    if any(each.shape != parts[0].shape for each in parts):
        listed = ", ".join(str(each.shape) for each in parts)
        raise MatrixError(f"all input arrays must have the same shape: found {listed}")
    if any(len(core(each)) == 2 for each in parts):
        raise MatrixError(f"stack: arrays of shape {parts[0].shape}; {_MOST_AXES}; concatenate joins rows or columns")
    place = axis_number(axis, parts[0].ndim + 1)
    vectors = [each for each in parts if isinstance(each, _matrix.Matrix) and len(each._core) == 1]
    if vectors and place >= vectors[0].ndim - 1:
        # Joined as they are stored, as columns or as rows; then one transpose, if the other was wanted.
        stored = vectors[0].ndim if vectors[0]._axes[0] else vectors[0].ndim - 1
        joined = concatenate([np.expand_dims(each, stored) for each in parts], stored)
        return joined if place == stored else transpose_each(joined)
    return concatenate([np.expand_dims(each, place) for each in parts], place)


def transpose_each(a: Matrix) -> Matrix:
    """Return the transpose of each matrix."""
    if len(a._core) < 2:
        raise MatrixError(f"mT: shape {a.shape}; needed a matrix, at least two axes")
    return a._made(a._node.transpose(), (True, True))


def atleast_2d(each: Matrix | Plain) -> Array:
    """Return a vector as a row, and a number as a matrix."""
    each = arithmetic.array(each)
    return each if each.ndim >= 2 else each.reshape(1, -1)


def vstack(arrays: Iterable[Matrix | Plain]) -> Matrix:
    """Return the arrays joined as rows."""
    return concatenate([atleast_2d(each) for each in arrays], 0)


def hstack(arrays: Iterable[Matrix | Plain]) -> Matrix:
    """Return the arrays joined along their second axis, or vectors along their only one."""
    parts = [arithmetic.array(each) for each in arrays]
    parts = [each if each.ndim else each.reshape(1) for each in parts]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


def column_stack(arrays: Iterable[Matrix | Plain]) -> Matrix:
    """Return vectors as columns, beside matrices."""
    parts = [arithmetic.array(each) for each in arrays]
    return concatenate([each if each.ndim >= 2 else each.reshape(-1, 1) for each in parts], 1)


def block(arrays: Any) -> Matrix:
    """Return a matrix of blocks, given as a list of rows of blocks or as one row."""
    if not isinstance(arrays, list):
        return arithmetic.array(arrays)  # type: ignore[return-value]
    if not any(isinstance(each, list) for each in arrays):
        return hstack(arrays)
    rows = [[atleast_2d(each) for each in (row if isinstance(row, list) else [row])] for row in arrays]
    return concatenate([np.concatenate(row, 1) for row in rows], 0)  # of plaintext blocks, or as `concatenate` does

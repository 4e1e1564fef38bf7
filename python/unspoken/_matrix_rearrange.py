"""Moves of axes, and joins of encrypted matrices, with numpy's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken import _matrix_arithmetic as arithmetic
from unspoken._matrix import Matrix
from unspoken._matrix_arithmetic import Array, Operand
from unspoken._matrix_node import Node
from unspoken._matrix_shape import MOST_AXES, axis_number, core, integers
from unspoken.errors import MatrixError


def moveaxis(a: Matrix, source: object, destination: object) -> Matrix:
    """Return the matrix with axes moved to other places."""
    sources = [axis_number(each, a.ndim) for each in integers(source, "moveaxis: source")]
    places = [axis_number(each, a.ndim) for each in integers(destination, "moveaxis: destination")]
    if len(sources) != len(places):
        raise MatrixError("moveaxis: needed as many sources as destinations")
    order = [each for each in range(a.ndim) if each not in sources]
    for place, each in sorted(zip(places, sources)):
        order.insert(place, each)
    return a.transpose(order)


def concatenate(arrays: Iterable[Operand], axis: Any = 0) -> Matrix:
    """Return the arrays joined along an axis; each encrypted one consumes a level.

    The parts are shifted to their places by products with plaintext matrices, and added.
    """
    parts = [arithmetic.array(each) for each in arrays]
    if axis is None:
        parts, axis = [each.ravel() for each in parts], 0
    if any(each.ndim == 0 for each in parts):
        raise MatrixError("zero-dimensional arrays cannot be concatenated")
    encrypted = [each for each in parts if isinstance(each, Matrix)]
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
    if len({batched, *(isinstance(each, Matrix) and each._batch is not None for each in parts)}) > 1:
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


def stack(arrays: Iterable[Operand], axis: Any = 0) -> Matrix:
    """Return numbers or vectors joined along a new axis."""
    parts = [arithmetic.array(each) for each in arrays]
    if any(each.shape != parts[0].shape for each in parts):
        listed = ", ".join(str(each.shape) for each in parts)
        raise MatrixError(f"all input arrays must have the same shape: found {listed}")
    if any(len(core(each)) == 2 for each in parts):
        raise MatrixError(f"stack: arrays of shape {parts[0].shape}; {MOST_AXES}; concatenate joins rows or columns")
    place = axis_number(axis, parts[0].ndim + 1)
    vectors = [each for each in parts if isinstance(each, Matrix) and len(each._core) == 1]
    if vectors and place >= vectors[0].ndim - 1:
        # Joined as they are stored, as columns or as rows; then one transpose, if the other was wanted.
        stored = vectors[0].ndim if vectors[0]._axes[0] else vectors[0].ndim - 1
        joined = concatenate([np.expand_dims(each, stored) for each in parts], stored)
        return joined if place == stored else joined.mT
    return concatenate([np.expand_dims(each, place) for each in parts], place)


def atleast_2d(each: Operand) -> Array:
    """Return a vector as a row, and a number as a matrix."""
    each = arithmetic.array(each)
    return each if each.ndim >= 2 else each.reshape(1, -1)


def vstack(arrays: Iterable[Operand]) -> Matrix:
    """Return the arrays joined as rows."""
    return concatenate([atleast_2d(each) for each in arrays], 0)


def hstack(arrays: Iterable[Operand]) -> Matrix:
    """Return the arrays joined along their second axis, or vectors along their only one."""
    parts = [arithmetic.array(each) for each in arrays]
    parts = [each if each.ndim else each.reshape(1) for each in parts]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


def column_stack(arrays: Iterable[Operand]) -> Matrix:
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

"""Products, sums and differences of encrypted matrices, with each other and with plaintext arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unspoken import _matrix
from unspoken._matrix_node import Node
from unspoken._matrix_shape import broadcast_cores, check_inner, mismatch
from unspoken.errors import MatrixError

if TYPE_CHECKING:
    from unspoken._matrix import Matrix, Plain


def matmul(a: Matrix, b: Matrix) -> Matrix:
    """Return ``a @ b``."""
    check_inner(a._core, b._core)
    batch = _joint_batch(a, b)
    if len(a._core) == 1:
        right = b._as_column() if len(b._core) == 1 else b
        return _matrix.Matrix(a._as_row()._node.apply("matmul", right._node), batch, (False, right._axes[1]))
    if len(b._core) == 1 and not b._axes[0]:
        return _matrix.Matrix(a._node.apply("matrix_vector", b._node), batch, (True, False))
    return _matrix.Matrix(a._node.apply("matmul", b._node), batch, (True, b._axes[1]))


def times_plain(a: Matrix, weights: Plain) -> Matrix:
    """Return ``a @ weights``."""
    weights = plain(weights)
    check_inner(a._core, weights.shape)
    laid = a._as_row() if len(a._core) == 1 else a
    columns = weights[:, np.newaxis] if weights.ndim == 1 else weights
    return laid._made(laid._node.apply("times_right", payload=columns), (laid._axes[0], weights.ndim == 2))


def plain_times(weights: Plain, a: Matrix) -> Matrix:
    """Return ``weights @ a``."""
    weights = plain(weights)
    check_inner(weights.shape, a._core)
    rows = weights[np.newaxis] if weights.ndim == 1 else weights
    if len(a._core) == 1 and not a._axes[0]:
        return a._made(a._node.apply("times_right", payload=rows.T), (False, weights.ndim == 2))
    return a._made(a._node.apply("times_left", payload=rows), (weights.ndim == 2, a._axes[1]))


def combine(kind: str, a: Matrix | Plain, b: Matrix | Plain) -> Matrix:
    """Broadcast both, at least one of them encrypted, and apply an elementwise operation."""
    left, right = (each if isinstance(each, _matrix.Matrix) else plain(each) for each in (a, b))
    encrypted = [each for each in (left, right) if isinstance(each, _matrix.Matrix)]
    batch = _joint_batch(encrypted[0], encrypted[-1])
    core = broadcast_cores(left, right)
    # All vectors get the layout of the first.
    vectors = [each for each in encrypted if len(each._core) == 1]
    axes = vectors[0]._axes if len(core) == 1 and vectors else (len(core) == 2, len(core) >= 1)
    shape = (core[0] if axes[0] else 1, core[-1] if axes[1] else 1)

    def node(each: Matrix | npt.NDArray[np.float64]) -> Node:
        if isinstance(each, _matrix.Matrix):
            return _broadcast(each, shape, axes)
        return Node.constant(np.broadcast_to(each, core).reshape(shape))

    return _matrix.Matrix(node(left).apply(kind, node(right)), batch, axes)


def plain(values: Any) -> npt.NDArray[np.float64]:
    """Return a plaintext array of at most two axes."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"operands of encrypted matrices are real numbers; found {array.dtype}")
    if array.ndim > 2:
        raise MatrixError(f"a plaintext array of shape {array.shape}; needed at most two axes: encrypt batches")
    return array.astype(np.float64)


def _broadcast(a: Matrix, shape: tuple[int, int], axes: tuple[bool, bool]) -> Node:
    """Return the node broadcast to a matrix; each broadcast axis consumes a level."""
    if len(a._core) == 1:
        a = a._as_column() if axes == (True, False) else a._as_row()
    node = a._node
    if node.shape[0] != shape[0]:
        node = node.apply("times_left", payload=np.ones((shape[0], 1)))
    if node.shape[1] != shape[1]:
        node = node.apply("times_right", payload=np.ones((1, shape[1])))
    return node


def _joint_batch(a: Matrix, b: Matrix) -> int | None:
    if a._batch is not None and b._batch is not None and a._batch != b._batch:
        raise mismatch(a.shape, b.shape)
    return b._batch if a._batch is None else a._batch

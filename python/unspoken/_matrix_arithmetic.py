"""Products, sums and differences of encrypted matrices, with each other and with plaintext arrays."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import numpy.typing as npt

from unspoken._matrix import Matrix, Plain
from unspoken._matrix_node import Node
from unspoken._matrix_numpy import implements_ufunc
from unspoken._matrix_shape import broadcast_cores, check_inner, core, mismatch
from unspoken.errors import ArgumentError, MatrixError

# At least one operand of a function is encrypted.
Operand = Union[Matrix, Plain]
Array = Union[Matrix, npt.NDArray[np.float64]]


@implements_ufunc("add")
def add(a: Operand, b: Operand) -> Matrix:
    """Return ``a + b``."""
    return _combine("add", a, b)


@implements_ufunc("subtract")
def subtract(a: Operand, b: Operand) -> Matrix:
    """Return ``a - b``."""
    return _combine("subtract", a, b)


@implements_ufunc("multiply")
def multiply(a: Operand, b: Operand) -> Matrix:
    """Return ``a * b``; a number only scales."""
    left, right = array(a), array(b)
    for factor, other in ((left, right), (right, left)):
        if isinstance(factor, np.ndarray) and isinstance(other, Matrix) and factor.ndim == 0:
            return other._made(other._node.apply("scale", payload=float(factor)), other._axes)
    return _combine("multiply", left, right)


@implements_ufunc("divide", "true_divide")
def divide(a: Operand, b: Operand) -> Matrix:
    """Return ``a / b`` for plaintext `b`."""
    if isinstance(b, Matrix):
        raise ArgumentError("an encrypted matrix divides nothing: multiply by approximate inverses instead")
    with np.errstate(divide="raise", invalid="raise"):
        try:
            return multiply(a, 1.0 / plain(b))
        except FloatingPointError as error:
            raise MatrixError(f"divide: {error}; needed divisors other than 0") from None


@implements_ufunc("power")
def power(a: Operand, exponent: Operand) -> Matrix:
    """Return the entries to a positive integer power."""
    number = None if isinstance(exponent, Matrix) else plain(exponent)
    if number is None or number.ndim or not isinstance(a, Matrix):
        raise ArgumentError("power: only an encrypted base and a plaintext integer exponent are possible: a**3")
    if number < 1 or number != np.floor(number) or not np.isfinite(number):
        raise MatrixError(f"power: exponent {number}; needed a positive integer")
    return _power(a, int(number))


def _power(a: Matrix, exponent: int) -> Matrix:
    if exponent == 1:
        return a
    half = _power(a, exponent // 2)
    return half * half if exponent % 2 == 0 else half * half * a


@implements_ufunc("matmul")
def matmul(a: Operand, b: Operand) -> Matrix:
    """Return ``a @ b``."""
    left, right = array(a), array(b)
    check_inner(left, right)
    batched = [isinstance(each, Matrix) and each._batch is not None for each in (left, right)]
    # Numpy treats a batch of vectors as a matrix. That is the same for rows on the left of one matrix.
    if (batched[1] and len(core(right)) == 1) or (all(batched) and len(core(left)) == 1):
        raise MatrixError(
            f"matmul: {left.shape} @ {right.shape}: numpy would treat the batch of vectors as one matrix; "
            "for a product of each with its vector write (a @ x[:, :, None])[:, :, 0]"
        )
    return matmul_each(left, right)


def matmul_each(a: Array, b: Array) -> Matrix:
    """Return the products of the matrices or vectors of two batches, or of one with an array."""
    check_inner(a, b)
    if not isinstance(a, Matrix):
        assert isinstance(b, Matrix)
        return _plain_times(a, b)
    if not isinstance(b, Matrix):
        return _times_plain(a, b)
    batch = _joint_batch(a, b)
    if len(a._core) == 1:
        right = b._as_column() if len(b._core) == 1 else b
        return Matrix(a._as_row()._node.apply("matmul", right._node), batch, (False, right._axes[1]))
    if len(b._core) == 1 and not b._axes[0]:
        return Matrix(a._node.apply("matrix_vector", b._node), batch, (True, False))
    return Matrix(a._node.apply("matmul", b._node), batch, (True, b._axes[1]))


def _times_plain(a: Matrix, weights: npt.NDArray[np.float64]) -> Matrix:
    laid = a._as_row() if len(a._core) == 1 else a
    columns = weights[:, np.newaxis] if weights.ndim == 1 else weights
    return laid._made(laid._node.apply("times_right", payload=columns), (laid._axes[0], weights.ndim == 2))


def _plain_times(weights: npt.NDArray[np.float64], a: Matrix) -> Matrix:
    rows = weights[np.newaxis] if weights.ndim == 1 else weights
    if len(a._core) == 1 and not a._axes[0]:
        return a._made(a._node.apply("times_right", payload=rows.T), (False, weights.ndim == 2))
    return a._made(a._node.apply("times_left", payload=rows), (weights.ndim == 2, a._axes[1]))


def _combine(kind: str, a: Operand, b: Operand) -> Matrix:
    """Broadcast both and apply an elementwise operation."""
    left, right = array(a), array(b)
    encrypted = [each for each in (left, right) if isinstance(each, Matrix)]
    batch = _joint_batch(encrypted[0], encrypted[-1])
    common = broadcast_cores(left, right)
    # All vectors get the layout of the first.
    vectors = [each for each in encrypted if len(each._core) == 1]
    axes = vectors[0]._axes if len(common) == 1 and vectors else (len(common) == 2, len(common) >= 1)
    shape = (common[0] if axes[0] else 1, common[-1] if axes[1] else 1)

    def node(each: Array) -> Node:
        if isinstance(each, Matrix):
            return _broadcast(each, shape, axes)
        return Node.constant(np.broadcast_to(each, common).reshape(shape))

    return Matrix(node(left).apply(kind, node(right)), batch, axes)


def array(values: Operand) -> Array:
    """Return an encrypted matrix unchanged, anything else as a plaintext array."""
    return values if isinstance(values, Matrix) else plain(values)


def plain(values: Any) -> npt.NDArray[np.float64]:
    """Return a plaintext array of at most two axes."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"operands of encrypted matrices are real numbers; found {array.dtype}")
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
        raise mismatch(a, b)
    return b._batch if a._batch is None else a._batch

"""Numpy's functions for encrypted matrices, with numpy's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from unspoken import _matrix_arithmetic as arithmetic
from unspoken import _matrix_rearrange as rearrange
from unspoken._matrix import Matrix
from unspoken._matrix_einsum import einsum as sum_of_products
from unspoken._matrix_encrypted import Encrypted
from unspoken._matrix_numpy import COMPARE, check_defaults, implements, implements_ufunc
from unspoken._matrix_shape import axis_number, expanded, integers
from unspoken.errors import ArgumentError, MatrixError


def _matrix_of(name: str, a: Any) -> Matrix:
    """Return the first argument, if it is encrypted: other arguments cannot be."""
    if not isinstance(a, Matrix):
        raise ArgumentError(
            f"numpy.{name}: found an encrypted matrix as another argument than the first; decrypt it first"
        )
    return a


def _with_core(name: str, a: Any, axes: int) -> Any:
    """Return an operand whose matrices or vectors have `axes` axes."""
    array = arithmetic.array(a)
    if (array.ndim if isinstance(array, np.ndarray) else len(array._core)) != axes:
        raise MatrixError(f"{name}: an operand of shape {array.shape}; needed {axes} axes, besides an encrypted batch")
    return array


@implements_ufunc("negative")
def _negative(a: Matrix) -> Matrix:
    return -a


@implements_ufunc("positive", "conjugate")
def _same(a: Matrix) -> Matrix:
    return a


@implements_ufunc("square")
def _square(a: Matrix) -> Matrix:
    return a * a


@implements_ufunc("matvec")
def _matvec(a: Any, x: Any) -> Matrix:
    return arithmetic.matmul_each(_with_core("matvec", a, 2), _with_core("matvec", x, 1))


@implements_ufunc("vecmat")
def _vecmat(x: Any, a: Any) -> Matrix:
    return arithmetic.matmul_each(_with_core("vecmat", x, 1), _with_core("vecmat", a, 2))


@implements_ufunc("vecdot")
def _vecdot(x: Any, y: Any) -> Matrix:
    product = arithmetic.multiply(x, y)
    if np.shape(x)[-1:] != np.shape(y)[-1:]:
        raise MatrixError(f"vecdot: {np.shape(x)} and {np.shape(y)}: the last axes differ")
    return product.sum(axis=-1)


# -------------------------------------------------------------------- sums and products


@implements_ufunc("add.reduce")
def _reduce_add(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Matrix:
    return _sum(a, axis, dtype, out, keepdims, initial, where)


@implements("sum")
def _sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Matrix:
    check_defaults("sum", initial=initial, where=where)
    return _matrix_of("sum", a).sum(axis, dtype, out, keepdims)


@implements("mean")
def _mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Matrix:
    check_defaults("mean", where=where)
    return _matrix_of("mean", a).mean(axis, dtype, out, keepdims)


@implements("var")
def _var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Matrix:
    check_defaults("var", where=where, mean=mean)
    return _matrix_of("var", a).var(axis, dtype, out, ddof if correction is None else correction, keepdims)


@implements("cumsum")
def _cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Matrix:
    check_defaults("cumsum", dtype=dtype, out=out)
    matrix = _matrix_of("cumsum", a)
    if axis is None:
        matrix, axis = matrix.ravel(), 0
    along, extent = _core_axis("cumsum", matrix, axis)
    return _times_along(matrix, np.tri(extent), along)


@implements("diff")
def _diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Matrix:
    check_defaults("diff", prepend=prepend, append=append)
    matrix = _matrix_of("diff", a)
    along, extent = _core_axis("diff", matrix, axis)
    (times,) = integers(n, "diff: n")
    if not 0 <= times < extent:
        raise MatrixError(f"diff: n={times} of axis {axis} of shape {matrix.shape}; needed from 0 to {extent - 1}")
    return matrix if times == 0 else _times_along(matrix, np.diff(np.eye(extent), times, axis=0), along)


def _core_axis(name: str, a: Matrix, axis: Any) -> tuple[int, int]:
    """Return an axis counted without the batch, and its extent."""
    number = axis_number(axis, a.ndim) - int(a._batch is not None)
    if number < 0:
        raise MatrixError(f"{name}: axis 0 of shape {a.shape} is the batch; needed another axis")
    return number, a._core[number]


def _times_along(a: Matrix, weights: Any, axis: int) -> Matrix:
    """Return the weights times each vector along an axis, counted without the batch."""
    if axis == 0 and len(a._core) == 2:
        return arithmetic.matmul_each(weights, a)
    return arithmetic.matmul_each(a, weights.T)


@implements("dot")
def dot(a: Any, b: Any, out: Any = None) -> Matrix:
    """Return numpy's ``dot``: products of numbers, inner products of vectors, products of matrices."""
    check_defaults("dot", out=out)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return arithmetic.multiply(a, b)
    if np.ndim(b) > 2:
        raise MatrixError(f"dot: {np.shape(a)} and a batch of shape {np.shape(b)}: write a @ b")
    return arithmetic.matmul(a, b)


@implements("vdot")
def _vdot(a: Any, b: Any) -> Matrix:
    a, b = arithmetic.array(a), arithmetic.array(b)
    if a.size != b.size:
        raise MatrixError(f"vdot: shapes {a.shape} and {b.shape}: numbers of entries differ")
    return arithmetic.multiply(a, b).sum() if a.shape == b.shape else arithmetic.matmul(a.ravel(), b.ravel())


@implements("inner")
def _inner(a: Any, b: Any) -> Matrix:
    a, b = arithmetic.array(a), arithmetic.array(b)
    if a.ndim and b.ndim and a.shape[-1] != b.shape[-1]:
        raise MatrixError(f"inner: last axes of shapes {a.shape} and {b.shape} differ")
    return dot(a, b.T if a.ndim and b.ndim == 2 else b)


@implements("outer")
def _outer(a: Any, b: Any, out: Any = None) -> Matrix:
    check_defaults("outer", out=out)
    a, b = arithmetic.array(a).ravel(), arithmetic.array(b).ravel()
    return arithmetic.multiply(a.reshape(-1, 1), b.reshape(1, -1))


@implements("linalg.outer")
def _linalg_outer(a: Any, b: Any, /) -> Matrix:
    if np.ndim(a) != 1 or np.ndim(b) != 1:
        raise MatrixError(f"linalg.outer: shapes {np.shape(a)} and {np.shape(b)}; needed two vectors")
    return _outer(a, b)


@implements("tensordot", "linalg.tensordot")
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Matrix:
    a, b = arithmetic.array(a), arithmetic.array(b)
    if np.ndim(axes) == 0:
        (count,) = integers(axes, "tensordot: axes")
        axes = (range(a.ndim - count, a.ndim), range(count))
    first, second = (
        [axis_number(each, array.ndim) for each in integers(of, "axes")] for of, array in zip(axes, (a, b))
    )
    if len(first) != len(second) or [a.shape[each] for each in first] != [b.shape[each] for each in second]:
        raise MatrixError(f"tensordot: axes {axes} of shapes {a.shape} and {b.shape} do not match")
    left, right = list("abc"[: a.ndim]), list("xyz"[: b.ndim])
    for one, other in zip(first, second):
        right[other] = left[one]
    free = [letter for letter in left + right if (letter in left) != (letter in right)]
    return sum_of_products(f"{''.join(left)},{''.join(right)}->{''.join(free)}", a, b)


@implements("einsum")
def _einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Matrix:
    check_defaults("einsum", out=out, optimize=optimize, **options)
    return sum_of_products(*operands)


@implements("linalg.multi_dot")
def _multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    check_defaults("linalg.multi_dot", out=out)
    return reduce(lambda a, b: a @ b, [arithmetic.array(each) for each in arrays])


@implements("linalg.matrix_power")
def _matrix_power(a: Any, n: Any) -> Matrix:
    matrix = _matrix_of("linalg.matrix_power", a)
    (exponent,) = integers(n, "matrix_power: exponent")
    if exponent < 1 or len(matrix._core) != 2 or matrix._core[0] != matrix._core[1]:
        raise MatrixError(f"matrix_power: shape {matrix.shape}, exponent {n}; needed a square matrix, and 1 or more")
    return _matrix_power_of(matrix, exponent)


def _matrix_power_of(a: Matrix, exponent: int) -> Matrix:
    if exponent == 1:
        return a
    half = _matrix_power_of(a, exponent // 2)
    return half @ half if exponent % 2 == 0 else half @ half @ a


@implements("linalg.matmul")
def _linalg_matmul(x1: Any, x2: Any, /) -> Matrix:
    return arithmetic.matmul(x1, x2)


@implements("linalg.vecdot")
def _linalg_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Matrix:
    if axis != -1:
        raise ArgumentError("numpy.linalg.vecdot: axis= is not available for encrypted matrices; leave it out")
    return _vecdot(x1, x2)


# -------------------------------------------------------------------- diagonals and masks


@implements("diagonal")
def _diagonal(a: Any, offset: int = 0, axis1: Any = 0, axis2: Any = 1) -> Matrix:
    matrix = _matrix_of("diagonal", a)
    if matrix.ndim < 2:
        raise MatrixError(f"diagonal: shape {matrix.shape}; needed at least two axes")
    first, second = (axis_number(axis, matrix.ndim) for axis in (axis1, axis2))
    if first == second:
        raise MatrixError("axis1 and axis2 cannot be the same")
    if len(matrix._core) < 2 or {first, second} != {matrix.ndim - 2, matrix.ndim - 1}:
        raise MatrixError(
            f"diagonal: axes {axis1} and {axis2} of shape {matrix.shape}; needed rows and columns, not the batch"
        )
    (offset,) = integers(offset, "diagonal: offset")
    return _diagonal_of(matrix, offset if first < second else -offset)


def _diagonal_of(a: Matrix, offset: int) -> Matrix:
    rows, columns = a._core
    down, right = max(-offset, 0), max(offset, 0)
    count = min(rows - down, columns - right)
    if count < 1:
        raise MatrixError(f"diagonal: offset {offset} of shape {a.shape}: no entry is there")
    square = a[..., down : down + count, right : right + count]
    return (square * np.eye(count)).sum(axis=-1)


@implements("linalg.diagonal")
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Matrix:
    return _diagonal(x, offset, -2, -1)


@implements("trace")
def _trace(a: Any, offset: int = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None) -> Matrix:
    check_defaults("trace", dtype=dtype, out=out)
    return _diagonal(a, offset, axis1, axis2).sum(axis=-1)


@implements("linalg.trace")
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Matrix:
    return _trace(x, offset, -2, -1, dtype)


@implements("diag")
def _diag(v: Any, k: int = 0) -> Matrix:
    matrix = _matrix_of("diag", v)
    if matrix.ndim == 2:
        return _diagonal(matrix, k)
    if matrix.ndim != 1 or matrix._batch is not None:
        raise MatrixError(f"diag: shape {matrix.shape}; needed a vector or a matrix")
    (offset,) = integers(k, "diag: k")
    extent = len(matrix) + abs(offset)
    shifted = matrix @ np.eye(len(matrix), extent, max(offset, 0)) if offset else matrix
    return shifted * np.eye(extent, k=offset)


@implements("tril")
def _tril(m: Any, k: int = 0) -> Matrix:
    matrix = _matrix_of("tril", m)
    if len(matrix._core) != 2:
        raise MatrixError(f"tril: shape {matrix.shape}; needed rows and columns")
    return matrix * np.tri(*matrix._core, k=k)


@implements("triu")
def _triu(m: Any, k: int = 0) -> Matrix:
    matrix = _matrix_of("triu", m)
    if len(matrix._core) != 2:
        raise MatrixError(f"triu: shape {matrix.shape}; needed rows and columns")
    return matrix * (1.0 - np.tri(*matrix._core, k=k - 1))


@implements("where")
def _where(condition: Any, *choices: Any) -> Matrix:
    if isinstance(condition, Matrix) or len(choices) != 2:
        raise ArgumentError(f"numpy.where: {COMPARE}; a plaintext mask selects: numpy.where(mask, a, b)")
    mask = np.asarray(condition).astype(bool).astype(np.float64)
    return arithmetic.add(*(each * weight for each, weight in zip(map(arithmetic.array, choices), (mask, 1.0 - mask))))


# -------------------------------------------------------------------- axes, joins and selections


@implements("reshape")
def _reshape(a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None) -> Matrix:
    check_defaults("reshape", copy=copy)
    return _matrix_of("reshape", a).reshape(newshape if shape is None else shape, order=order)


@implements("ravel")
def _ravel(a: Any, order: Any = "C") -> Matrix:
    return _matrix_of("ravel", a).ravel(order)


@implements("squeeze")
def _squeeze(a: Any, axis: Any = None) -> Matrix:
    return _matrix_of("squeeze", a).squeeze(axis)


@implements("expand_dims")
def _expand_dims(a: Any, axis: Any) -> Matrix:
    matrix = _matrix_of("expand_dims", a)
    return matrix.reshape(expanded(axis, matrix.shape))


@implements("atleast_1d")
def _atleast_1d(*arrays: Any) -> Any:
    made = tuple(each if each.ndim else each.reshape(1) for each in map(arithmetic.array, arrays))
    return made[0] if len(made) == 1 else made


@implements("atleast_2d")
def _atleast_2d(*arrays: Any) -> Any:
    made = tuple(rearrange.atleast_2d(each) for each in arrays)
    return made[0] if len(made) == 1 else made


@implements("transpose", "permute_dims")
def _transpose(a: Any, axes: Any = None) -> Matrix:
    return _matrix_of("transpose", a).transpose(axes)


@implements("swapaxes")
def _swapaxes(a: Any, axis1: Any, axis2: Any) -> Matrix:
    return _matrix_of("swapaxes", a).swapaxes(axis1, axis2)


@implements("moveaxis")
def _moveaxis(a: Any, source: Any, destination: Any) -> Matrix:
    return rearrange.moveaxis(_matrix_of("moveaxis", a), source, destination)


@implements("matrix_transpose", "linalg.matrix_transpose")
def _matrix_transpose(x: Any, /) -> Matrix:
    return _matrix_of("matrix_transpose", x).mT


@implements("concatenate")
def _concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Matrix:
    check_defaults("concatenate", out=out, dtype=dtype, casting=casting)
    return rearrange.concatenate(arrays, axis)


@implements("stack")
def _stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Matrix:
    check_defaults("stack", out=out, dtype=dtype, casting=casting)
    return rearrange.stack(arrays, axis)


@implements("vstack")
def _vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Matrix:
    check_defaults("vstack", dtype=dtype, casting=casting)
    return rearrange.vstack(tup)


@implements("hstack")
def _hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Matrix:
    check_defaults("hstack", dtype=dtype, casting=casting)
    return rearrange.hstack(tup)


@implements("column_stack")
def _column_stack(tup: Any) -> Matrix:
    return rearrange.column_stack(tup)


@implements("block")
def _block(arrays: Any) -> Matrix:
    return rearrange.block(arrays)


@implements("append")
def _append(arr: Any, values: Any, axis: Any = None) -> Matrix:
    return rearrange.concatenate([arr, values], axis)


@implements("take")
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Matrix:
    check_defaults("take", out=out)
    if mode != "raise":
        raise ArgumentError("numpy.take: needed mode='raise' for encrypted matrices")
    matrix = _matrix_of("take", a)
    if axis is None:
        matrix, axis = matrix.ravel(), 0
    if np.ndim(indices) > 1 and (matrix.ndim > 1 or matrix._batch is not None):
        raise ArgumentError("numpy.take: needed indices of one axis, or axis=None, for encrypted matrices")
    axis = axis_number(axis, matrix.ndim)
    if matrix.ndim == 1:
        return matrix[(np.asarray(indices),)]
    return matrix[(*(slice(None) for _ in range(axis)), indices)]


@implements("flip")
def _flip(m: Any, axis: Any = None) -> Matrix:
    matrix = _matrix_of("flip", m)
    axes = range(matrix.ndim) if axis is None else integers(axis, "flip: axis")
    flipped = {axis_number(each, matrix.ndim) for each in axes}
    return matrix[tuple(slice(None, None, -1 if each in flipped else None) for each in range(matrix.ndim))]


@implements("fliplr")
def _fliplr(m: Any) -> Matrix:
    return _flip(m, 1)


@implements("flipud")
def _flipud(m: Any) -> Matrix:
    return _flip(m, 0)


@implements("rot90")
def _rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Matrix:
    matrix = _matrix_of("rot90", m)
    numbers = [axis_number(axis, matrix.ndim) for axis in integers(axes, "rot90: axes")]
    if len(numbers) != 2 or numbers[0] == numbers[1]:
        raise MatrixError(f"rot90: axes {axes} of shape {matrix.shape}; needed two different axes")
    (turns,) = integers(k, "rot90: k")
    if turns % 2 == 0:
        return _flip(matrix, numbers) if turns % 4 else matrix
    if turns % 4 == 1:
        return _flip(matrix, numbers[1]).swapaxes(*numbers)
    return _flip(matrix.swapaxes(*numbers), numbers[1])


@implements("roll")
def _roll(a: Any, shift: Any, axis: Any = None) -> Matrix:
    matrix = _matrix_of("roll", a)
    if axis is None:
        return _roll(matrix.ravel(), shift, 0).reshape(matrix.shape)
    shifts, axes = integers(shift, "roll: shift"), integers(axis, "roll: axis")
    for each, number in np.broadcast(shifts, axes):
        place = axis_number(number, matrix.ndim)
        matrix = _take(matrix, np.roll(np.arange(matrix.shape[place]), each), place)
    return matrix


@implements("array_split")
def _array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Matrix]:
    matrix = _matrix_of("array_split", ary)
    places = np.arange(matrix.shape[axis_number(axis, matrix.ndim)])
    return [_take(matrix, part, axis) for part in np.array_split(places, indices_or_sections)]


@implements("split")
def _split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Matrix]:
    matrix = _matrix_of("split", ary)
    places = np.arange(matrix.shape[axis_number(axis, matrix.ndim)])
    return [_take(matrix, part, axis) for part in np.split(places, indices_or_sections)]


# -------------------------------------------------------------------- what needs no entries


@implements("copy")
def _copy(a: Any, order: Any = "K", subok: bool = False) -> Matrix:
    check_defaults("copy", order=order, subok=subok or None)
    return _matrix_of("copy", a)


@implements("real")
def _real(val: Any) -> Matrix:
    return _matrix_of("real", val)


@implements("shape")
def _shape(a: Any) -> tuple[int, ...]:
    return _matrix_of("shape", a).shape


@implements("ndim")
def _ndim(a: Any) -> int:
    return _matrix_of("ndim", a).ndim


@implements("size")
def _size(a: Any, axis: Any = None) -> int:
    matrix = _matrix_of("size", a)
    axes = range(matrix.ndim) if axis is None else integers(axis, "size: axis")
    return int(np.prod([matrix.shape[axis_number(each, matrix.ndim)] for each in axes]))


@implements("isrealobj")
def _isrealobj(x: Any) -> bool:
    return isinstance(x, Encrypted)


@implements("iscomplexobj")
def _iscomplexobj(x: Any) -> bool:
    return not isinstance(x, Encrypted)


@implements("zeros_like")
def _zeros_like(a: Any, *arguments: Any, **options: Any) -> Any:
    return np.zeros_like(np.broadcast_to(0.0, a.shape), *arguments, **options)


@implements("ones_like")
def _ones_like(a: Any, *arguments: Any, **options: Any) -> Any:
    return np.ones_like(np.broadcast_to(0.0, a.shape), *arguments, **options)

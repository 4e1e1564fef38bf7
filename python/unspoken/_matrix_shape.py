"""Numpy's rules for shapes, and its error messages."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from unspoken.errors import ArgumentError, MatrixError

# The end of messages about results with more axes.
MOST_AXES = (
    "needed rows and columns: a third axis is the batch of an input, "
    "which matrix(name, (batch, rows, columns)) encrypts as one array"
)


class Shaped(Protocol):
    """An encrypted matrix, as far as rules for shapes need it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as in numpy."""

    @property
    def _core(self) -> tuple[int, ...]:
        """The shape without the batch."""

    @property
    def _batch(self) -> int | None:
        """The number of matrices of a batch, or None."""


Array = Union[Shaped, npt.NDArray[np.float64]]


def integers(values: object, what: str) -> tuple[int, ...]:
    """Return an integer, or several, as a tuple; numbers with a fraction are refused.

    Examples
    --------
    >>> integers(3, "shape"), integers([2, -1], "shape")
    ((3,), (2, -1))
    """
    given = tuple(values) if isinstance(values, Iterable) else (values,)
    try:
        return tuple(operator.index(each) for each in given)
    except TypeError:
        raise ArgumentError(f"{what} {values}; needed integers") from None


def core(array: Array) -> tuple[int, ...]:
    """Return the shape without the batch."""
    return array.shape if isinstance(array, np.ndarray) else array._core


def batch(array: Array) -> int | None:
    """Return the number of matrices of a batch, or None."""
    return None if isinstance(array, np.ndarray) else array._batch


def mismatch(first: Array, second: Array) -> MatrixError:
    """Return the error for shapes that do not broadcast, or whose batches do not.

    Examples
    --------
    >>> import unspoken
    >>> str(mismatch(unspoken.matrix("a", (2, 3)), unspoken.matrix("b", (4, 3))))
    'operands could not be broadcast together with shapes (2, 3) (4, 3)'
    """
    message = f"operands could not be broadcast together with shapes {first.shape} {second.shape}"
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        return MatrixError(message)
    return MatrixError(
        f"{message}: the first axis of an encrypted batch is not combined with other axes; "
        "needed two batches of the same size, or an operand without that axis"
    )


def check_inner(first: Array, second: Array) -> None:
    """Raise unless ``first @ second`` is defined."""
    shapes = f"matmul: {first.shape} @ {second.shape}"
    if not core(first) or not core(second):
        raise MatrixError(f"{shapes}: needed at least one axis of both; for numbers use *")
    inner = core(second)[-2:][0]
    if core(first)[-1] != inner:
        raise MatrixError(f"{shapes}: inner dimensions {core(first)[-1]} and {inner} differ")


def broadcast_cores(first: Array, second: Array) -> tuple[int, ...]:
    """Return the common shape without the batch.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> broadcast_cores(unspoken.matrix("a", (8, 4, 3)), np.ones(3))
    (4, 3)
    """
    cores = [core(first), core(second)]
    # A batch of vectors has two axes: beside a matrix, numpy would treat it as a matrix.
    for each, other in ((first, second), (second, first)):
        if batch(each) is not None and len(core(each)) < len(core(other)):
            raise mismatch(first, second)
    try:
        return np.broadcast_shapes(*cores)
    except ValueError:
        raise mismatch(first, second) from None


def axis_number(axis: Any, ndim: int) -> int:
    """Return an axis counted from the first.

    Examples
    --------
    >>> axis_number(-1, 2)
    1
    """
    (number,) = integers(axis, "axis")
    if not -ndim <= number < ndim:
        raise MatrixError(f"axis {number} is out of bounds for array of dimension {ndim}")
    return number % ndim


def axis_numbers(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes, counted from the first and in order; None means all of them.

    Examples
    --------
    >>> axis_numbers((-1, 0), 3), axis_numbers(None, 2)
    ((0, 2), (0, 1))
    """
    wanted = range(ndim) if axis is None else integers(axis, "axis")
    axes = tuple(sorted(axis_number(each, ndim) for each in wanted))
    if len(set(axes)) < len(axes):
        raise MatrixError(f"duplicate value in axis {axis}")
    return axes


def sum_axis(axis: Any, shape: tuple[int, ...], batched: bool) -> tuple[int, ...]:
    """Return the axes to sum over, counted without the batch.

    Examples
    --------
    >>> sum_axis(-1, (8, 4, 3), batched=True)
    (1,)
    """
    axes = axis_numbers(axis, len(shape))
    if batched and 0 in axes:
        raise MatrixError(
            f"sum: the batch, axis 0 of shape {shape}, cannot be summed; needed axis=-1, -2 or (-2, -1): "
            "sum the decrypted results"
        )
    return tuple(each - int(batched) for each in axes)


def reshaped(shape: object, old: tuple[int, ...], batched: bool) -> tuple[int, ...]:
    """Return the shape, without the batch, that a shape with at most one -1 stands for; `old` is the shape before.

    Examples
    --------
    >>> reshaped((3, -1), (2, 6), batched=False), reshaped((8, -1), (8, 2, 6), batched=True)
    ((3, 4), (12,))
    """
    wanted = integers(shape, "reshape: shape")
    size, known = int(np.prod(old)), int(np.prod([each for each in wanted if each != -1]))
    if wanted.count(-1) > 1:
        raise MatrixError("can only specify one unknown dimension")
    if any(each < 1 and each != -1 for each in wanted) or size % known or (-1 not in wanted and size != known):
        raise MatrixError(f"cannot reshape array of size {size} into shape {wanted}")
    new = tuple(size // known if each == -1 else each for each in wanted)
    if not batched and len(new) > 2:
        raise MatrixError(f"reshape: {old} to {new}; {MOST_AXES}")
    if batched and (not 1 <= len(new) <= 3 or new[0] != old[0]):
        raise MatrixError(f"reshape: {old} to {new}; needed the batch, {old[0]}, as the first of 3 axes")
    return new[int(batched) :]


def expanded(axis: object, old: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with new axes of length 1 at these places of the result.

    Examples
    --------
    >>> expanded((0, -1), (4,))
    (1, 4, 1)
    """
    axes = integers(axis, "expand_dims: axis")
    ndim = len(old) + len(axes)
    new = {axis_number(each, ndim) for each in axes}
    if len(new) < len(axes):
        raise MatrixError(f"repeated axis in {axes}")
    extents = iter(old)
    return tuple(1 if each in new else next(extents) for each in range(ndim))


def squeezed(axis: object, old: tuple[int, ...], batched: bool) -> tuple[int, ...]:
    """Return the shape without axes of length 1, or without these ones.

    Examples
    --------
    >>> squeezed(None, (1, 4), batched=False)
    (4,)
    """
    there = [each for each, extent in enumerate(old) if extent == 1]
    gone = there if axis is None else [axis_number(each, len(old)) for each in integers(axis, "squeeze: axis")]
    if set(gone) - set(there):
        raise MatrixError(f"cannot select an axis to squeeze out which has size not equal to one: {axis} of {old}")
    if batched and 0 in gone:
        raise MatrixError(f"squeeze: the batch, axis 0 of shape {old}, stays; give the other axes: axis=-1")
    return tuple(extent for each, extent in enumerate(old) if each not in gone)


def is_transpose(axes: object, old: tuple[int, ...], batched: bool) -> bool:
    """Return whether this order of axes, reversed by default, exchanges rows and columns; the batch stays first.

    Examples
    --------
    >>> is_transpose(None, (4, 3), batched=False), is_transpose((0, 1), (4, 3), batched=False)
    (True, False)
    """
    order = range(len(old))[::-1] if axes is None else integers(axes, "transpose: axes")
    numbers = [axis_number(each, len(old)) for each in order]
    if sorted(numbers) != list(range(len(old))):
        raise MatrixError(f"transpose: axes {axes} of shape {old}; needed each axis once")
    if numbers == sorted(numbers):
        return False
    if batched and numbers[0] != 0:
        raise MatrixError(
            f"transpose: a batch of shape {old}; needed the batch as first axis: use .mT, which transposes each"
        )
    return True

"""Numpy's rules for shapes, and its error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unspoken.errors import MatrixError

if TYPE_CHECKING:
    from unspoken._matrix import Matrix


def mismatch(first: tuple[int, ...], second: tuple[int, ...]) -> MatrixError:
    """Return the error for shapes that do not broadcast.

    Examples
    --------
    >>> str(mismatch((2, 3), (4, 3)))
    'operands could not be broadcast together with shapes (2, 3) (4, 3)'
    """
    return MatrixError(f"operands could not be broadcast together with shapes {first} {second}")


def check_inner(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    """Raise unless ``first @ second`` is defined; both shapes are without the batch."""
    if not first or not second:
        raise MatrixError(f"matmul: {first} @ {second}: needed at least one axis of both; for numbers use *")
    inner = second[0]
    if first[-1] != inner:
        raise MatrixError(f"matmul: {first} @ {second}: inner dimensions {first[-1]} and {inner} differ")


def broadcast_cores(
    first: Matrix | npt.NDArray[np.float64], second: Matrix | npt.NDArray[np.float64]
) -> tuple[int, ...]:
    """Return the common shape without the batch.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> broadcast_cores(unspoken.matrix("a", (8, 4, 3)), np.ones(3))
    (4, 3)
    """
    cores = [each.shape if isinstance(each, np.ndarray) else each._core for each in (first, second)]
    batches = [None if isinstance(each, np.ndarray) else each._batch for each in (first, second)]
    # A batch of vectors has two axes: beside a matrix, numpy would treat it as a matrix.
    for core, batch, other in zip(cores, batches, cores[::-1]):
        if batch is not None and len(core) < len(other) and batches != [None, None]:
            raise mismatch(first.shape, second.shape)
    try:
        return np.broadcast_shapes(*cores)
    except ValueError:
        raise mismatch(first.shape, second.shape) from None


def sum_axis(axis: int | tuple[int, ...] | None, shape: tuple[int, ...], batched: bool) -> tuple[int, ...]:
    """Return the axes to sum over, counted without the batch.

    Examples
    --------
    >>> sum_axis(-1, (8, 4, 3), batched=True)
    (1,)
    """
    if axis is None:
        axes = tuple(range(len(shape)))
    else:
        wanted = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
        for each in wanted:
            if not -len(shape) <= each < len(shape):
                raise MatrixError(f"axis {each} is out of bounds for array of dimension {len(shape)}")
        axes = tuple(sorted({int(each) % len(shape) for each in wanted}))
    if batched and 0 in axes:
        raise MatrixError(
            f"sum: the batch, axis 0 of shape {shape}, cannot be summed; needed axis=-1, -2 or (-2, -1): "
            "sum the decrypted results"
        )
    return tuple(each - int(batched) for each in axes)

"""Resolution of indices as in numpy."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from unspoken.errors import MatrixIndexError

# Selected positions along an axis (`None`: all, in order), and whether the axis is kept.
Picked = tuple[Optional[list[int]], bool]


def new_axes(key: Any, ndim: int) -> tuple[Any, tuple[int, ...]]:
    """Return the key without None, and the places of the new axes in the result.

    Examples
    --------
    >>> new_axes((None, slice(2), None), 1)
    ((slice(None, 2, None), Ellipsis), (0, 2))
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if not any(each is None for each in keys):
        return key, ()
    if any(np.ndim(each) > 0 for each in keys if each is not None) and any(_is_integer(each) for each in keys):
        raise MatrixIndexError(
            "a list with an integer and a new axis (None) in one index: needed two steps: a[0][:, None]"
        )
    given = sum(each is not None and each is not Ellipsis for each in keys)
    if not any(each is Ellipsis for each in keys):
        keys.append(Ellipsis)
    places, place = [], 0
    for each in keys:
        if each is None:
            places.append(place)
        place += max(ndim - given, 0) if each is Ellipsis else int(not _is_integer(each))
    return tuple(each for each in keys if each is not None), tuple(places)


def _is_integer(key: Any) -> bool:
    return key is not None and key is not Ellipsis and not isinstance(key, slice) and np.ndim(key) == 0


def entries(key: Any, shape: tuple[int, ...]) -> npt.NDArray[np.intp] | None:
    """Return the places in row-major order of the entries that index arrays select, None for other keys.

    Index arrays are one of several axes for a vector, or one for each axis of a matrix, as in numpy. `shape` is the
    shape of a matrix or vector, without the batch.

    Examples
    --------
    >>> entries(([0, 1], [2, 0]), (4, 3))
    array([2, 3])
    >>> entries([[0, 1], [2, 3]], (4,)).shape
    (2, 2)
    >>> entries([0, 1], (4, 3)) is None
    True
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if len(keys) != len(shape) or any(each is None or each is Ellipsis or isinstance(each, slice) for each in keys):
        return None
    arrays = [np.asarray(each) for each in keys]
    several = [array for array in arrays if array.ndim > 0]
    if any(array.dtype.kind not in "iu" for array in arrays) or not several:
        return None
    if len(arrays) == 1 and arrays[0].ndim == 1:
        return None  # a selection along the axis
    if len(arrays) == 2 and ((len(several) == 1 and several[0].ndim == 1) or _is_open_mesh(keys)):
        return None  # selections along the axes
    for axis, (array, extent) in enumerate(zip(arrays, shape)):
        array = array.astype(np.intp)
        beyond = array[(array < -extent) | (array >= extent)]
        if beyond.size:
            raise MatrixIndexError(f"index {beyond.flat[0]} is out of bounds for axis {axis} with size {extent}")
    wrapped = [array.astype(np.intp) % extent for array, extent in zip(arrays, shape)]
    try:
        places = np.ravel_multi_index(np.broadcast_arrays(*wrapped), shape)
    except ValueError:
        found = " and ".join(str(array.shape) for array in arrays)
        raise MatrixIndexError(
            f"shape mismatch: indexing arrays of shapes {found} cannot be broadcast together"
        ) from None
    if not 1 <= places.ndim <= 2 or not places.size:
        raise MatrixIndexError(f"index arrays of shape {places.shape}; needed one entry or more, and one or two axes")
    return np.asarray(places, dtype=np.intp)


def select(key: Any, shape: tuple[int, ...], batched: bool) -> list[Picked]:
    """Return what ``array[key]`` selects along each axis except the batch.

    Examples
    --------
    >>> select((slice(2), [2, 0]), (4, 3), batched=False)
    [([0, 1], True), ([2, 0], True)]
    >>> select(-1, (4, 3), batched=False)
    [([3], False), (None, True)]
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = _without_ellipsis(keys, len(shape))
    if len(keys) > len(shape):
        raise MatrixIndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {len(keys)} were indexed"
        )
    keys += [slice(None)] * (len(shape) - len(keys))
    if batched:
        first = keys.pop(0)
        if not (isinstance(first, slice) and first == slice(None)):
            raise MatrixIndexError("the batch cannot be indexed: use a[:, rows, columns], and select after decrypting")
    extents = shape[1:] if batched else shape
    lists = [i for i, each in enumerate(keys) if np.ndim(each) > 0]
    mesh = len(lists) == 2 and _is_open_mesh(keys)
    if len(lists) == 2 and not mesh:
        raise MatrixIndexError("two lists with a batch, a slice or a mask: use numpy.ix_(rows, columns)")
    return [_along(each, extent, axis, mesh) for axis, (each, extent) in enumerate(zip(keys, extents))]


def _without_ellipsis(keys: list[Any], axes: int) -> list[Any]:
    """Replace ``...`` by the equivalent slices."""
    places = [i for i, each in enumerate(keys) if each is Ellipsis]
    if len(places) > 1:
        raise MatrixIndexError("an index can only have a single ellipsis ('...')")
    if places:
        missing = max(axes - len(keys) + 1, 0)
        keys[places[0] : places[0] + 1] = [slice(None)] * missing
    return keys


def _is_open_mesh(keys: list[Any]) -> bool:
    """Return whether the keys come from ``numpy.ix_``."""
    rows, columns = (np.shape(each) for each in keys)
    return len(rows) == 2 and len(columns) == 2 and rows[1] == 1 and columns[0] == 1


def _along(key: Any, extent: int, axis: int, mesh: bool) -> Picked:
    """Return what a key selects along one axis."""
    if isinstance(key, slice):
        whole = key.indices(extent) == (0, extent, 1)
        return (None if whole else _some(list(range(*key.indices(extent))), axis)), True
    values = np.asarray(key)
    if values.ndim > 1 and not mesh:
        raise MatrixIndexError(f"an index of {values.ndim} axes; needed integers, slices, lists and masks of one axis")
    if values.dtype.kind == "b":
        if values.shape != (extent,):
            raise MatrixIndexError(
                f"boolean index did not match indexed array along axis {axis}; "
                f"size of axis is {extent} but size of corresponding boolean axis is {values.size}"
            )
        return _some([int(i) for i in np.flatnonzero(values)], axis), True
    if values.dtype.kind not in "iu" and values.size:
        raise MatrixIndexError(
            "only integers, slices, ellipsis (`...`) and integer or boolean arrays are valid indices"
        )
    for each in values.flat:
        if not -extent <= each < extent:
            raise MatrixIndexError(f"index {each} is out of bounds for axis {axis} with size {extent}")
    return _some([int(each) % extent for each in values.flat], axis), values.ndim > 0


def _some(indices: list[int], axis: int) -> list[int]:
    if not indices:
        raise MatrixIndexError(
            f"nothing is left along axis {axis}; an encrypted matrix has at least one row and column"
        )
    return indices

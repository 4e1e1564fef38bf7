"""Labels and arrays that callers pass: what cannot be meant is refused, not converted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken.errors import ArgumentError, TrainingError


def unmasked(values: Any, what: str, error: type[Exception] = ArgumentError) -> Any:
    """Return `values` as they are; raise `error` if some are masked, which no operation would respect.

    Examples
    --------
    >>> unmasked([1, 2], "labels")
    [1, 2]
    """
    parts = [values, *values] if isinstance(values, (list, tuple)) else [values]
    if any(np.ma.is_masked(part) for part in parts):
        raise error(f"read {what}: found masked entries, needed an array without any; drop or fill them")
    return values


def label_array(labels: npt.ArrayLike, purpose: str) -> npt.NDArray[Any]:
    """Return one label for each text, as an array with one axis: text, numbers or booleans, none missing.

    Examples
    --------
    >>> label_array(["spam", "ham"], "train")
    array(['spam', 'ham'], dtype='<U4')
    """
    unmasked(labels, "labels", TrainingError)
    # Numpy would turn text and a missing number into two texts.
    given: Any = labels
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) and not hasattr(given, "dtype"):
        given = list(given)
        _check_kinds(given, purpose)
    array = np.asarray(given)
    if array.ndim != 1:
        raise TrainingError(
            f"{purpose}: found labels of shape {array.shape}, needed one label for each text; pass a flat list"
        )
    if array.dtype.kind == "O":
        _check_kinds(array.tolist(), purpose)
    missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)
    if missing.any():
        raise _wrong(purpose, "a missing one (nan)", int(missing.argmax()))
    if array.dtype.kind not in "OUTbiuf":
        raise _wrong(purpose, f"{array.dtype}", 0)
    return array


def _check_kinds(labels: Iterable[Any], purpose: str) -> None:
    """Refuse labels that are missing, bytes, or text beside numbers."""
    texts: set[bool] = set()
    for position, label in enumerate(labels):
        if label is None or type(label).__name__ in ("NAType", "NaTType") or _is_nan(label):
            raise _wrong(purpose, f"a missing one ({label})", position)
        if isinstance(label, (bytes, bytearray)):
            raise _wrong(purpose, "bytes", position)
        texts.add(isinstance(label, str))
        if len(texts) > 1:
            raise _wrong(purpose, "text beside other kinds", position)


def _is_nan(label: Any) -> bool:
    return isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def _wrong(purpose: str, found: str, position: int) -> TrainingError:
    return TrainingError(
        f"{purpose}: found labels of which that at position {position} is {found}, needed labels of one kind (text, "
        "numbers or booleans); convert or drop the others"
    )


def share_right(predicted: npt.NDArray[Any], labels: npt.ArrayLike, classes: npt.NDArray[Any], what: str) -> float:
    """Return the fraction of `predicted` that are the given labels.

    A model that was read from files has its classes as text: labels of other kinds are then compared by
    their text, which `fit` took.

    Examples
    --------
    >>> share_right(np.array(["0", "1"]), [0, 0], np.array(["0", "1"]), "texts")
    0.5
    """
    wanted = label_array(labels, "score")
    if predicted.shape != wanted.shape or len(wanted) == 0:
        raise ArgumentError(
            f"score: found {len(predicted)} {what} and labels of shape {wanted.shape}, "
            "needed as many of each and at least one; pass one label for each"
        )
    if _is_text(wanted) != _is_text(classes):
        predicted, wanted, classes = (np.array([str(label) for label in each]) for each in (predicted, wanted, classes))
    if not np.isin(wanted, classes).any():
        raise ArgumentError(
            f"score: found labels of which none is a class of the model, the first {wanted[0]!r}; needed some of "
            f"{', '.join(str(label) for label in classes[:8])}"
        )
    return float(np.mean(predicted == wanted))


def _is_text(labels: npt.NDArray[Any]) -> bool:
    return labels.dtype.kind in "UT" or (labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels))

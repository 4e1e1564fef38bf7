"""numpy.einsum for encrypted matrices: products of operands with at most two axes each, besides the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspoken import _matrix_arithmetic as arithmetic
from unspoken._matrix import Matrix
from unspoken._matrix_arithmetic import Array
from unspoken.errors import ArgumentError, MatrixError


def einsum(subscripts: Any, *operands: Any) -> Matrix:
    """Return the sum of products that the subscripts describe, from the first operand to the last.

    The batch of encrypted batches is the first letter of each of them and of the result.
    """
    if not isinstance(subscripts, str):
        raise ArgumentError('numpy.einsum: needed subscripts as text for encrypted matrices: "ij,jk->ik"')
    arrays = [arithmetic.array(each) for each in operands]
    terms, result = _letters(subscripts, arrays)
    _check_extents(terms, arrays)
    batch = {term[0] for term, each in zip(terms, arrays) if isinstance(each, Matrix) and each._batch}
    if batch:
        plain = "".join(term for term, each in zip(terms, arrays) if isinstance(each, np.ndarray) or not each._batch)
        if len(batch) > 1 or not batch <= {result[:1]} or any(each in plain + result[1:] for each in batch):
            raise MatrixError(
                f"einsum: '{subscripts}': needed one letter for the batch, first in each encrypted batch and the result"
            )
        letter, result = result[0], result[1:]
        terms = [term.replace(letter, "") for term in terms]
    value, term = _reduced(arrays[0], terms[0], result + "".join(terms[1:]))
    for number in range(1, len(arrays)):
        later = result + "".join(terms[number + 1 :])
        other, other_term = _reduced(arrays[number], terms[number], term + later)
        value, term = _reduced(value, term, other_term + later)
        value, term = _product(value, term, other, other_term, later)
    value, term = _reduced(value, term, result)
    return _aligned(value, term, result)  # type: ignore[return-value]


def _letters(subscripts: str, arrays: list[Array]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result."""
    text = subscripts.replace(" ", "")
    if "." in text:
        raise ArgumentError(
            f"numpy.einsum: '{subscripts}': needed letters for all axes of encrypted matrices, without ..."
        )
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not arrow:
        result = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    if len(terms) != len(arrays):
        raise MatrixError(f"einsum: '{subscripts}' for {len(arrays)} operands; needed {len(terms)}")
    for term, each in zip(terms, arrays):
        if len(term) != each.ndim:
            raise MatrixError(f"einsum: '{term}' for an operand of shape {each.shape}; needed a letter for each axis")
    if len(set(result)) < len(result) or not set(result) <= set(left):
        raise MatrixError(f"einsum: '{subscripts}': needed each letter of the result once, and in an operand")
    return terms, result


def _check_extents(terms: list[str], arrays: list[Array]) -> None:
    extents: dict[str, tuple[int, tuple[int, ...]]] = {}
    for term, each in zip(terms, arrays):
        for letter, extent in zip(term, each.shape):
            known, shape = extents.setdefault(letter, (extent, each.shape))
            if known != extent:
                raise MatrixError(
                    f"einsum: operands could not be broadcast together: '{letter}' has extent {known} in shape {shape} "
                    f"and {extent} in shape {each.shape}"
                )


def _reduced(value: Array, term: str, needed: str) -> tuple[Array, str]:
    """Take the diagonal of a repeated letter, and sum over letters that are not needed."""
    if len(term) == 2 and term[0] == term[1]:
        value, term = value * np.eye(value.shape[-1]), term[0] + "'"
    gone = tuple(-1 - place for place, letter in enumerate(reversed(term)) if letter not in needed)
    kept = "".join(letter for letter in term if letter in needed)
    return (value.sum(axis=gone), kept) if gone else (value, term)


def _product(a: Array, a_term: str, b: Array, b_term: str, later: str) -> tuple[Array, str]:
    """Multiply two operands and sum over the letters that are not needed later."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        term = "".join(letter for letter in dict.fromkeys(a_term + b_term) if letter in later)
        return np.einsum(f"{a_term},{b_term}->{term}", a, b), term
    shared = [letter for letter in a_term if letter in b_term]
    if len(shared) == 1 and shared[0] not in later:
        inner = shared[0]
        left, right = a_term.replace(inner, ""), b_term.replace(inner, "")
        first, second = _aligned(a, a_term, left + inner), _aligned(b, b_term, inner + right)
        return arithmetic.matmul_each(first, second), left + right
    term = "".join(dict.fromkeys(a_term + b_term))
    if len(term) > 2:
        raise MatrixError(f"einsum: '{a_term},{b_term}' has more than two axes before it is summed; needed at most two")
    return _reduced(arithmetic.multiply(_aligned(a, a_term, term), _aligned(b, b_term, term)), term, later)


def _aligned(value: Array, term: str, wanted: str) -> Array:
    """Return the operand with its axes in the wanted order, and axes of length 1 for other letters."""
    if len(term) == 2 and term == "".join(letter for letter in wanted if letter in term)[::-1]:
        value = np.swapaxes(value, -2, -1)
    places = tuple(place - len(wanted) for place, letter in enumerate(wanted) if letter not in term)
    return np.expand_dims(value, places) if places else value

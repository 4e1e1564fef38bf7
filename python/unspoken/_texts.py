"""Checks of texts that callers pass."""

from __future__ import annotations

from collections.abc import Iterable


def text_list(texts: Iterable[str], name: str) -> list[str]:
    """Return `texts` as a list of `str`; `name` is its name in error messages.

    Examples
    --------
    >>> text_list(("a", "b"), "texts")
    ['a', 'b']
    """
    if isinstance(texts, (str, bytes)):
        kind = type(texts).__name__
        raise TypeError(f"read {name}: found one {kind}, needed several texts; put it in a list")
    found = list(texts)
    for position, text in enumerate(found):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise TypeError(f"read {name}: found {kind} at position {position}, needed str; convert or drop it")
    return found

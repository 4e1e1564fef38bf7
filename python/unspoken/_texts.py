"""Checks of texts that callers pass, and warnings about them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


class TextWarning(UserWarning):
    """Texts are longer than the model reads, or most of their words are unknown to it.

    Examples
    --------
    >>> import warnings, unspoken
    >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, [1, 0] * 20)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", unspoken.TextWarning)
    ...     model.predict(["zebra"]).shape
    (1,)
    """


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


def warn_of_texts(messages: list[str], stacklevel: int) -> None:
    """Give each message as a `TextWarning`; `stacklevel` 2 names the line that called the caller of this function.

    Examples
    --------
    >>> warn_of_texts([], 2)
    """
    for message in messages:
        warnings.warn(message, TextWarning, stacklevel=stacklevel + 1)

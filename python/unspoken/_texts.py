"""Texts: reading of labelled texts, checks of texts that callers pass, and warnings about texts."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Literal

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._boundary import utf8
from unspoken._callers import warn_caller
from unspoken.errors import ArgumentError

TextKind = Literal["tab", "fasttext", "csv", "enron-spam", "drug-reviews"]


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


def load_texts(
    path: str | PathLike[str],
    kind: TextKind = "tab",
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    delimiter: str = ",",
) -> tuple[list[str], list[str]]:
    r"""Read labelled texts, as `FastText.fit` takes them.

    Parameters
    ----------
    path : path
        File or folder.
    kind : str
        The format:

        - ``"tab"``: lines with a label, a tab and a text.
        - ``"fasttext"``: lines in which words that begin with ``__label__`` are labels; a line with several
          is a text for each of them.
        - ``"csv"``: a file with a header, in which `text_column` and `label_column` are named.
        - ``"enron-spam"``: Enron-Spam; its folders ``enron1`` to ``enron6``, one of them, or the CSV file
          with the columns ``Subject``, ``Message`` and ``Spam/Ham``.
        - ``"drug-reviews"``: ``drugsComTrain_raw.tsv`` or ``drugsComTest_raw.tsv`` of Drugs.com. Ratings of 1 to 5 have
          the label ``negative``, ratings of 6 to 10 ``positive``.
    text_column, label_column : str, optional
        Names of columns, for ``"csv"`` only.
    delimiter : str
        What is between the fields of ``"csv"``: one ASCII character.

    Returns
    -------
    texts, labels : list of str
        One text and one label for each row, in the order of the file.

    Raises
    ------
    TrainingError
        If a file cannot be read; the message names the line.
    ValueError
        If the kind is unknown, or columns are not named for ``"csv"``.

    Examples
    --------
    >>> import pathlib, tempfile, unspoken
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "messages.tsv")
    ...     _ = path.write_text("spam\twin a prize\nham\tsee you\n")
    ...     unspoken.load_texts(path)
    (['win a prize', 'see you'], ['spam', 'ham'])
    """
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter == '"':
        needed = "one ASCII character that is no letter, digit or quote"
        raise ArgumentError(f"read texts: found delimiter={delimiter!r}; needed {needed}")
    return _unspoken.load_texts(path, kind, text_column, label_column, ord(delimiter))


def text_list(texts: Iterable[str], name: str) -> list[str]:
    """Return `texts` as a list of `str`; `name` is its name in error messages.

    Examples
    --------
    >>> text_list(("a", "b"), "texts")
    ['a', 'b']
    """
    if isinstance(texts, (str, bytes)):
        kind = type(texts).__name__
        raise ArgumentError(f"read {name}: found one {kind}, needed several texts; put it in a list")
    found = list(texts)
    for position, text in enumerate(found):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise ArgumentError(f"read {name}: found {kind} at position {position}, needed str; convert or drop it")
        if not text.isascii():
            utf8(text, f"read {name}: position {position}")
    return found


def labelled(
    read: Iterable[tuple[list[str], npt.NDArray[np.float64]]],
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]:
    """Return the labels and the scores of all texts, joined batch after batch.

    Examples
    --------
    >>> labelled([(["a"], np.ones((1, 2))), (["b"], np.zeros((1, 2)))])[0]
    array(['a', 'b'], dtype='<U1')
    """
    labels, scores = zip(*read)
    return np.array([label for batch in labels for label in batch], dtype=np.str_), np.concatenate(scores)


def warn_of_texts(messages: list[str]) -> None:
    """Give each message as a `TextWarning`, which names the line that called this package.

    Examples
    --------
    >>> warn_of_texts([])
    """
    for message in messages:
        warn_caller(message, TextWarning)

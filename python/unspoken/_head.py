"""Linear heads over pooled embeddings, with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._labels import label_array, unmasked
from unspoken._table import CompressedTable
from unspoken._text_classifier import TextClassifier
from unspoken._texts import text_list, warn_of_texts
from unspoken.errors import ArgumentError, ModelError, TrainingError


class LinearHead(TextClassifier[_unspoken.Head]):
    """A linear classifier over the mean embedding of a text, which a service computes encrypted.

    The scores of a text are ``coef_ @ m + intercept_``, where ``m`` is the mean of the compressed
    embeddings of its tokens. `fit` is a logistic regression; there is nothing random in it. Write the
    head with `save`, serve it with ``unspoken serve --classify DIR,head=FILE``, and ask with
    `ClassifyClient`.

    A text is split into the tokens of the table, whole words or word pieces. A word that the table does
    not have takes the row ``<unk>``, ``[UNK]`` or ``<UNK>``, or is left out if there is none.

    Parameters
    ----------
    table : CompressedTable
        The table, with both halves.
    max_tokens : int
        Maximum tokens of a text, a power of two; later tokens are ignored, with a `TextWarning`. Doubling it halves the
        number of texts in a query.
    ridge : float
        Half of this times the squared weights, of standardised features, is added to the loss of all
        texts.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    coef_ : ndarray of float64, shape (classes, width)
    intercept_ : ndarray of float64, shape (classes,)
    training_accuracy_ : float or None
        Accuracy on the training texts; `None` for a head that was not trained here.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> table = unspoken.compress(np.eye(4), ["good", "bad", "film", "play"], columns=4, progress=False)
    >>> head = unspoken.LinearHead(table).fit(["good film", "bad play", "good play", "bad film"], [1, 0, 1, 0])
    >>> head.predict(["a good play"])
    array([1])
    """

    _native = _unspoken.Head

    def __init__(self, table: CompressedTable, *, max_tokens: int = 128, ridge: float = 1.0) -> None:
        self.table = table
        self.max_tokens = max_tokens
        self.ridge = ridge

    def fit(self, texts: Iterable[str], labels: npt.ArrayLike) -> LinearHead:
        """Train on texts and their labels.

        Parameters
        ----------
        texts : iterable of str
        labels : array-like, shape (texts,)
            Of one kind; 2 to 1024 distinct ones. A file stores their texts, up to 128 bytes each.

        Returns
        -------
        LinearHead
            This object.

        Raises
        ------
        TrainingError
            If the numbers of texts and labels differ, or there are too few or too many labels.
        ModelError
            If an option is out of range.
        KeyboardInterrupt
            On Control-C; the head is not changed.

        Warns
        -----
        TextWarning
            If texts have more than `max_tokens` tokens, or most words are not in the table.
        """
        given = text_list(texts, "texts")
        targets = label_array(labels, "train a head")
        classes, index = np.unique(targets, return_inverse=True)
        # The trainer sorts names; numbers have another order as text.
        keys = [f"{position:04}" for position in range(len(classes))]
        names = [keys[i] for i in index]
        if self.max_tokens < 0:
            raise TrainingError(f"train a head: found max_tokens = {self.max_tokens}, needed a power of two")
        trained, found = _unspoken.Head.fit(self._table()._table, given, names, self.max_tokens, self.ridge)
        head = _unspoken.Head.from_arrays(
            [str(label) for label in classes], self.max_tokens, trained.weights, trained.bias
        )
        self._keep(head, classes, found["training_accuracy"])
        warn_of_texts(found["warnings"])
        return self

    @classmethod
    def from_arrays(
        cls,
        table: CompressedTable,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike,
        classes: Iterable[Any],
        *,
        max_tokens: int = 128,
    ) -> LinearHead:
        """Make a head of given numbers, for instance from a trained ``sklearn`` or ``torch`` model.

        Parameters
        ----------
        table : CompressedTable
        weight : array-like of numbers, shape (classes, width)
            With two classes also shape (1, width), as in ``coef_`` of scikit-learn: the score of the second class minus
            the score of the first.
        bias : array-like of numbers, shape (classes,)
            Or of shape (1,) with one row of weights.
        classes : iterable
            Labels, in the order of the rows.
        max_tokens : int
            Maximum tokens of a text.

        Raises
        ------
        ModelError
            If the shapes do not fit the table and the classes, or a number is not finite.

        Examples
        --------
        >>> import numpy as np, unspoken
        >>> table = unspoken.compress(np.eye(4), ["good", "bad", "film", "play"], columns=4, progress=False)
        >>> head = unspoken.LinearHead.from_arrays(table, [[1, -1, 0, 0]], [0], ["bad", "good"])
        >>> head.predict(["good film", "bad film"])
        array(['good', 'bad'], dtype='<U4')
        """
        rows = np.array(unmasked(weight, "weights", ModelError), dtype=np.float64)
        constants = np.array(unmasked(bias, "bias", ModelError), dtype=np.float64)
        names = np.asarray(list(classes))
        if len(names) == 2 and rows.ndim == 2 and len(rows) == 1 and constants.shape == (1,):
            rows = np.concatenate([-rows, rows]) / 2
            constants = np.concatenate([-constants, constants]) / 2
        width = table.shape[1]
        if rows.shape != (len(names), width) or constants.shape != (len(names),):
            raise ModelError(
                f"make a head: found weights of shape {rows.shape} and a bias of shape {constants.shape}, needed "
                f"{(len(names), width)} and {(len(names),)} for {len(names)} classes and this table"
            )
        head = cls(table, max_tokens=max_tokens)
        native = _unspoken.Head.from_arrays([str(name) for name in names], max_tokens, rows, constants)
        head._keep(native, names, None)
        return head

    def save(self, path: str | PathLike[str]) -> None:
        """Write the head into a safetensors file, ``head.safetensors`` for instance.

        It has the tensors ``weight`` and ``bias``, and in its metadata the names of the classes and
        `max_tokens`; see ``docs/model-format.md``. The table is not in it. Labels are stored as text.

        Examples
        --------
        >>> head.save("head.safetensors")  # doctest: +SKIP
        """
        self._fitted("save the head").save(path)

    @classmethod
    def load(cls, path: str | PathLike[str], table: CompressedTable) -> LinearHead:
        """Read a head that `save` wrote, or ``unspoken embed train``, or another program in this format.

        Raises
        ------
        ModelError
            If the file is missing or is not a linear head, or its width differs from the table's.

        Examples
        --------
        >>> head = unspoken.LinearHead.load("head.safetensors", table)  # doctest: +SKIP
        """
        native = _unspoken.Head.load(path)
        if native.width != table.shape[1]:
            raise ModelError(
                f"join head and table: found weights for {native.width} numbers of an embedding, needed "
                f"{table.shape[1]}; train the head on this table"
            )
        head = cls(table, max_tokens=native.max_tokens)
        head._keep(native, np.array(native.classes), None)
        return head

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to pickle: the table is not a part of the head."""
        raise ArgumentError("pickle a head: found a LinearHead, needed its file; write it with save")

    def _table(self) -> CompressedTable:
        """Return the table; raise an error if it is something else."""
        if not isinstance(self.table, CompressedTable):
            kind = type(self.table).__name__
            raise ArgumentError(f"use the table: found {kind}, needed a CompressedTable; see compress and its load")
        return self.table

    def _scores(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return `scores`; warnings name the line that called the caller of this method."""
        head, table = self._fitted("score texts"), self._table()
        given = text_list(texts, "texts")
        warn_of_texts(table._codes.coverage(given, head.max_tokens)["warnings"])
        return head.scores(table._table, given)

    def _keep(self, head: _unspoken.Head, classes: npt.NDArray[Any], training_accuracy: float | None) -> None:
        """Store a head whose classes are these."""
        self._model = head
        self.classes_ = classes
        self.coef_, self.intercept_ = head.weights, head.bias
        self.training_accuracy_ = training_accuracy

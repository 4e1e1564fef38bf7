"""The fastText classifier, with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Callable, Literal

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._labels import label_array
from unspoken._text_classifier import TextClassifier
from unspoken._texts import text_list, warn_of_texts
from unspoken.errors import TrainingError


class FastText(TextClassifier[_unspoken.Model]):
    """A text classifier with a compressed embedding table, which allows encrypted lookups.

    Each word is one column in each of a few subtables; a text's scores are the sums over its words. `fit` trains both,
    and the same seed, data and options give the same model bit for bit. Words are words of Unicode, in lower case,
    without digits and punctuation; each character of Chinese, Japanese (but Katakana) and Thai is a word, for which
    `bigrams` helps. It works with scikit-learn's tools where that is installed, and does not need it.

    Parameters
    ----------
    dim : int
        Embedding dimension in training, 1 to 4096. Does not affect the cost of queries.
    subtables : int
        Number of subtables, 1 to 16. A query has one ciphertext for each.
    columns : int
        Columns of each subtable: even, 2 to 4096.
    seed : int
        Seed of the initial weights, the order of examples and the validation part.
    bigrams : bool
        Whether adjacent pairs of words are tokens too.
    max_tokens : int
        Maximum tokens of a text; later tokens are ignored, with a `TextWarning`. A service needs a power of two;
        doubling it halves the number of messages in a query.
    min_count : int
        Minimum count of a word in training; rarer words are unknown.
    max_vocabulary : int
        Maximum number of known words; the most frequent are kept.
    unknown_share : float
        Fraction of training words hidden as unknown, 0 to 0.5.
    validation_share : float
        Fraction of the examples set aside to choose the best checkpoint, 0 to 0.5.
    batch : int
        Examples per batch.
    relaxed_epochs, hard_epochs : int
        Epochs before and after each word's columns are fixed.
    rate, code_rate, weight_decay : float
        Rates of the optimiser for weights and for codes, and its weight decay.
    final_temperature : float
        Temperature of the last relaxed epoch, 0.001 to 1.
    entropy_weight, confidence_weight : float
        Weights in the loss of the entropy of the distributions over columns, and of 1 minus their
        largest probability, 0 to 10. They pull each word towards one column in the relaxed epochs.
    class_weight : dict or "balanced", optional
        How much the examples of each class count in the loss, by label; 1 for the others. ``"balanced"``
        lets rare classes count as much as frequent ones. By default every example counts once.
    progress : bool or callable
        `True` draws a bar on standard error if that is a terminal; a callable is called with a
        `Progress` after each epoch.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
        The labels seen in training, sorted.
    class_count_ : ndarray of int, shape (classes,)
        Number of the texts passed to `fit` of each class. Not stored in files.
    validation_accuracy_ : float or None
        Accuracy on the validation part; `None` without one.
    coverage_ : float
        Share of the tokens in the texts passed to `fit` that the model knows. A text without words
        counts as one unknown token. Not stored in files.
    cut_ : int
        Number of the texts passed to `fit` that have more than `max_tokens` tokens. Not stored in
        files.

    Examples
    --------
    >>> import unspoken
    >>> texts = ["win a free prize", "see you at home"] * 20
    >>> labels = ["spam", "ham"] * 20
    >>> model = unspoken.FastText(dim=8, columns=16).fit(texts, labels)
    >>> model
    FastText(dim=8, columns=16)
    >>> model.score(texts, labels)
    1.0
    """

    _native = _unspoken.Model

    def __init__(
        self,
        dim: int = 50,
        subtables: int = 4,
        columns: int = 256,
        seed: int = 0,
        *,
        bigrams: bool = False,
        max_tokens: int = 128,
        min_count: int = 1,
        max_vocabulary: int = 1 << 18,
        unknown_share: float = 0.05,
        validation_share: float = 0.1,
        batch: int = 128,
        relaxed_epochs: int = 8,
        hard_epochs: int = 5,
        rate: float = 0.003,
        code_rate: float = 0.03,
        weight_decay: float = 0.01,
        final_temperature: float = 0.1,
        entropy_weight: float = 0.0,
        confidence_weight: float = 0.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
    ) -> None:
        self.dim = dim
        self.subtables = subtables
        self.columns = columns
        self.seed = seed
        self.bigrams = bigrams
        self.max_tokens = max_tokens
        self.min_count = min_count
        self.max_vocabulary = max_vocabulary
        self.unknown_share = unknown_share
        self.validation_share = validation_share
        self.batch = batch
        self.relaxed_epochs = relaxed_epochs
        self.hard_epochs = hard_epochs
        self.rate = rate
        self.code_rate = code_rate
        self.weight_decay = weight_decay
        self.final_temperature = final_temperature
        self.entropy_weight = entropy_weight
        self.confidence_weight = confidence_weight
        self.class_weight = class_weight
        self.progress = progress

    def fit(self, texts: Iterable[str], labels: npt.ArrayLike) -> FastText:
        """Train on texts and their labels.

        Parameters
        ----------
        texts : iterable of str
        labels : array-like, shape (texts,)
            Strings, numbers or booleans, all of one kind and none missing; at least two different ones.

        Returns
        -------
        FastText
            This object.

        Raises
        ------
        TrainingError
            If an option is out of range, the numbers of texts and labels differ, a label is missing, masked
            or of another kind, or there are fewer than two classes.
        KeyboardInterrupt
            On Control-C; the model is not changed.

        Warns
        -----
        TextWarning
            If texts have more than `max_tokens` tokens, or most tokens are unknown.

        Examples
        --------
        >>> import unspoken
        >>> model = unspoken.FastText(dim=4, columns=8)
        >>> model.fit(["good", "bad"] * 20, [1, 0] * 20).classes_
        array([0, 1])
        """
        given = text_list(texts, "texts")
        targets = label_array(labels, "train")
        try:
            classes, index = np.unique(targets, return_inverse=True)
        except TypeError as error:
            raise TrainingError(
                f"train: found labels that cannot be sorted ({error}), needed labels of one kind; "
                "convert or drop the others"
            ) from error
        names = [str(label) for label in classes]
        options = self.get_params()
        progress = options.pop("progress")
        options["balanced"] = isinstance(self.class_weight, str)
        options["class_weight"] = _weights(self.class_weight)
        model = _unspoken.Model.fit(given, [names[i] for i in index], options, progress)
        self._keep(model, classes)
        names_kept = [str(label) for label in self.classes_]
        self.class_count_ = np.bincount(index, minlength=len(classes))[[names.index(name) for name in names_kept]]
        coverage = model.coverage(given)
        self.coverage_, self.cut_ = coverage["known_share"], coverage["cut"]
        warn_of_texts(coverage["warnings"])
        return self

    def save(self, directory: str | PathLike[str]) -> None:
        """Write both halves into a directory, which is created if missing.

        Give clients the two ``client`` files and nothing else; a service needs the two ``server``
        files. Labels are stored as text.

        Examples
        --------
        >>> import tempfile, unspoken
        >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, ["+", "-"] * 20)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     model.save(directory)
        ...     unspoken.FastText.load(directory).predict(["good"])
        array(['+'], dtype='<U1')
        """
        super().save(directory)

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> FastText:
        """Read both halves of a model; see `save`.

        Options that the files do not contain have their defaults, and the labels are text.

        Raises
        ------
        ModelError
            If the files are missing, damaged, or of two training runs.

        Examples
        --------
        >>> model = unspoken.FastText.load("model")  # doctest: +SKIP
        """
        loaded = _unspoken.Model.load(directory)
        model = cls(**loaded.training)
        model._keep(loaded, np.array(loaded.labels))
        return model

    def _scores(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return `scores`; warnings name the line that called the caller of this method."""
        model = self._fitted("score texts")
        given = text_list(texts, "texts")
        warn_of_texts(model.coverage(given)["warnings"])
        return np.ascontiguousarray(model.scores(given)[:, self._order])

    def _proba(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return `predict_proba`."""
        model = self._fitted("find probabilities")
        given = text_list(texts, "texts")
        warn_of_texts(model.coverage(given)["warnings"])
        return np.ascontiguousarray(model.probabilities(given)[:, self._order])

    def _keep(self, model: _unspoken.Model, classes: npt.NDArray[Any]) -> None:
        """Store a model trained on these sorted labels; its label names are their texts."""
        column = {name: index for index, name in enumerate(model.labels)}
        # A label that only occurs in the validation part is not a class of the model.
        known = np.array([str(label) in column for label in classes])
        self._model = model
        self.classes_ = classes[known]
        self._order = np.array([column[str(label)] for label in self.classes_])
        self.validation_accuracy_ = model.validation_accuracy


def _weights(weights: Mapping[Any, float] | str | None) -> dict[str, float]:
    """Return weights by the text of the label, which is its name in a model; none for "balanced".

    Examples
    --------
    >>> _weights({1: 2})
    {'1': 2.0}
    """
    if weights is None or (isinstance(weights, str) and weights == "balanced"):
        return {}
    if not isinstance(weights, Mapping):
        raise TrainingError(f"train: found class_weight = {weights!r}, needed a dict by label, or 'balanced'")
    return {str(label): float(weight) for label, weight in weights.items()}

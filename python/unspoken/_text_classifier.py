"""Base class of trained classifiers of texts, with the interface of scikit-learn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from unspoken._estimator import Estimator, ModelT
from unspoken._labels import share_right


class TextClassifier(Estimator[ModelT]):
    """Scores, predictions and accuracy of a classifier of texts that `fit` trains.

    Subclasses define `_scores`, and set `classes_`.
    """

    classes_: npt.NDArray[Any]

    def scores(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return the plaintext score of each class, which a service computes encrypted.

        Returns
        -------
        ndarray of float64, shape (texts, classes)
            In the order of `classes_`.

        Warns
        -----
        TextWarning
            If texts have more than `max_tokens` tokens, or most tokens are unknown. So do the
            methods that use the scores.

        Examples
        --------
        >>> import unspoken
        >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, [1, 0] * 20)
        >>> model.scores(["good", "bad", "bad"]).shape
        (3, 2)
        """
        return self._scores(texts)

    def decision_function(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return confidences, in the form of scikit-learn.

        Returns
        -------
        ndarray of float64
            With two classes, shape (texts,): the second class's score minus the first's. With
            more, shape (texts, classes): `scores`.

        Examples
        --------
        >>> import unspoken
        >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, [1, 0] * 20)
        >>> model.decision_function(["good", "bad"]) > 0
        array([ True, False])
        """
        scores = self._scores(texts)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return the probability of each class, as training saw it.

        For `FastText` it is the softmax of the mean over the tokens of a text, of which `scores` is the sum;
        for `LinearHead` the softmax of `scores`.

        Returns
        -------
        ndarray of float64, shape (texts, classes)
            In the order of `classes_`; each row sums to 1.

        Examples
        --------
        >>> import unspoken
        >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, [1, 0] * 20)
        >>> model.predict_proba(["good"]).round().tolist()
        [[0.0, 1.0]]
        """
        return self._proba(texts)

    def predict(self, texts: Iterable[str]) -> npt.NDArray[Any]:
        """Return the label of the largest score for each text; of equal ones, the first.

        Examples
        --------
        >>> import unspoken
        >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, [1, 0] * 20)
        >>> model.predict(["good"])
        array([1])
        """
        return self._labels(self._scores(texts))

    def score(self, texts: Iterable[str], labels: npt.ArrayLike) -> float:
        """Return the fraction of texts whose predicted label is the given one.

        A model that was read from files has its labels as text; labels of other kinds are compared by
        their text.

        Raises
        ------
        ValueError
            If there is not one label for each text, or none of them is a class.

        Examples
        --------
        >>> import unspoken
        >>> model = unspoken.FastText(dim=4, columns=8).fit(["good", "bad"] * 20, [1, 0] * 20)
        >>> model.score(["good", "bad"], [1, 1])
        0.5
        """
        return share_right(self._labels(self._scores(texts)), labels, self.classes_, "texts")

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags of a classifier of texts. Only scikit-learn calls it."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    @abstractmethod
    def _scores(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return `scores`; warnings name the line that called the caller of this method."""

    def _proba(self, texts: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return `predict_proba`: the softmax of the scores."""
        scores = self._scores(texts)
        likelihood = np.exp(scores - scores.max(axis=1, keepdims=True))
        proba: npt.NDArray[np.float64] = likelihood / likelihood.sum(axis=1, keepdims=True)
        return proba

    def _labels(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return the label of the largest score in each row."""
        labels: npt.NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return labels

"""Predictions of a model of one's own, with the habits of scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from unspoken._model_values import Answers, ModelInput, ModelOutput, Reader
from unspoken.errors import ArgumentError


class Predictor(ABC):
    """What a model gives for rows.

    Subclasses say how rows are answered, and what the model is.
    """

    @abstractmethod
    def _answer(self, rows: Any, clip: bool, reader: Callable[[Sequence[ModelOutput]], Reader]) -> Any:
        """Return what `reader` makes of the answers to rows. It refuses models without the wanted output."""

    @abstractmethod
    def _describe(self) -> tuple[tuple[ModelInput, ...], tuple[ModelOutput, ...]]:
        """Return inputs and outputs of the model."""

    def ask(self, X: Any, *, clip: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Return all outputs of the model.

        Parameters
        ----------
        X : array-like, data frame or mapping
            Any number of rows, which the first axis counts. For a model with several inputs: a mapping with an array
            for each, or a data frame with a column for each. The columns of a data frame for one input are its numbers:
            found by their names, if the model was compiled on a data frame; otherwise in their order.
        clip : bool
            Move numbers into the calibrated ranges, with a `ClipWarning`. By default a row with a number outside has no
            answer, because the model is wrong there.

        Returns
        -------
        dict of str to ndarray
            The outputs by name; the first axis counts rows.

        Raises
        ------
        ArgumentError
            If rows have another form than the model needs: nothing was sent.
        UnansweredError
            If a number is outside its range, or missing: a client asks as if it were inside, so that the service cannot
            see it. The error names rows, inputs and elements, and has the answers to all other rows. Do not ask again
            because of it.

        Examples
        --------
        >>> model.ask([[5.1, 3.5, 1.4, 0.2]])["probabilities"]  # doctest: +SKIP
        """
        answers: Answers = self._answer(X, clip, lambda _outputs: lambda answers: answers)
        return answers

    def predict(self, X: Any, *, clip: bool = False) -> npt.NDArray[Any]:
        """Return the label of each row, or the numbers that a regression gives.

        Parameters
        ----------
        X, clip
            As for `ask`.

        Returns
        -------
        ndarray
            Of a classifier, shape (rows,): the labels of the model, or the numbers of the classes if it has only
            probabilities or their logarithms. Otherwise its numbers: shape (rows,), or with several for a row
            (rows, ...).

        Raises
        ------
        ArgumentError
            As for `ask`, or if the model has several outputs and none of labels.
        UnansweredError
            As for `ask`; it has the labels or numbers of all other rows.

        Examples
        --------
        >>> model.predict([[5.1, 3.5, 1.4, 0.2]])  # doctest: +SKIP
        array([0])
        """
        predicted: npt.NDArray[Any] = self._answer(X, clip, _prediction)
        return predicted

    def predict_proba(self, X: Any, *, clip: bool = False) -> npt.NDArray[np.float64]:
        """Return the probability of each class.

        Parameters
        ----------
        X, clip
            As for `ask`.

        Returns
        -------
        ndarray of float64, shape (rows, classes)
            In the order of `classes_`.

        Raises
        ------
        ArgumentError
            As for `ask`, or if the model gives no probabilities: a regression, a support vector machine.
        UnansweredError
            As for `ask`; it has the probabilities of all other rows.

        Examples
        --------
        >>> model.predict_proba([[5.1, 3.5, 1.4, 0.2]]).shape  # doctest: +SKIP
        (1, 3)
        """
        probabilities: npt.NDArray[np.float64] = self._answer(X, clip, _probabilities)
        return probabilities

    @property
    def inputs(self) -> tuple[ModelInput, ...]:
        """The inputs of the model. A client connects to the service on first use."""
        return self._describe()[0]

    @property
    def outputs(self) -> tuple[ModelOutput, ...]:
        """The outputs of the model. A client connects to the service on first use."""
        return self._describe()[1]

    @property
    def classes_(self) -> npt.NDArray[Any] | None:
        """The labels of the classes; `None` of a regression. A client connects to the service on first use."""
        return _classes(self._describe()[1])


def _only(outputs: Sequence[ModelOutput], gives: str) -> ModelOutput | None:
    """Return the output that gives this, if there is exactly one."""
    found = [each for each in outputs if each.gives == gives]
    return found[0] if len(found) == 1 else None


def _likely(outputs: Sequence[ModelOutput]) -> ModelOutput | None:
    """Return the output of probabilities, or of their logarithms, if there is exactly one."""
    return _only(outputs, "probabilities") or _only(outputs, "log_probabilities")


def _classes(outputs: Sequence[ModelOutput]) -> npt.NDArray[Any] | None:
    probabilities = _likely(outputs)
    for each in (_only(outputs, "labels"), probabilities):
        if each is not None and each.labels is not None:
            return each.labels
    return None if probabilities is None else np.arange(probabilities.shape[0])


def _prediction(outputs: Sequence[ModelOutput]) -> Reader:
    labels, probabilities = _only(outputs, "labels"), _likely(outputs)
    if labels is None and probabilities is not None:
        classes, name = _classes(outputs), probabilities.name
        assert classes is not None
        return lambda answers: classes[answers[name].argmax(axis=1)]
    chosen = labels or (outputs[0] if len(outputs) == 1 else None)
    if chosen is None:
        raise ArgumentError(f"predict: found the outputs {_shown(outputs)}, needed one of labels; use ask")
    one = int(np.prod(chosen.shape)) == 1
    return lambda answers: answers[chosen.name].reshape(-1) if one else answers[chosen.name]


def _probabilities(outputs: Sequence[ModelOutput]) -> Reader:
    chosen = _likely(outputs)
    if chosen is None:
        raise ArgumentError(f"predict_proba: found the outputs {_shown(outputs)}, needed one of probabilities; use ask")
    if chosen.gives == "log_probabilities":
        return lambda answers: np.exp(answers[chosen.name])
    return lambda answers: answers[chosen.name]


def _shown(outputs: Sequence[ModelOutput]) -> str:
    return ", ".join(f"{each.name!r} ({each.gives})" for each in outputs)

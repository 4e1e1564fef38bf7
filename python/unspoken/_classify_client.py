"""Classification of texts without revealing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import PreparingClient, ServiceOptions
from unspoken._fasttext import FastText
from unspoken._sharing import refuse_uncertain
from unspoken._table import CompressedTable, codes_of
from unspoken._texts import labelled, text_list, warn_of_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ClassifyClient(PreparingClient):
    """A client of one classifier of a service. The service never sees messages, their lengths, scores or labels.

    Classifiers are models of `FastText`, or linear heads over an embedding table (`LinearHead`).

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    model : path, FastText or CompressedTable
        A directory with the client half of the model (``client.json`` and ``client.safetensors``), or a fitted
        `FastText`; of a linear head the client half of its table, or a table of `compress`.
    cut : bool
        Whether to ignore the rest of a message that has more tokens than a linear head reads, with a `TextWarning`. By
        default such a message is an error: an empty one is sent in its place. Models of `FastText` always cut.
    **options
        The application, how to connect, where keys are stored: see `ServiceOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.
    ModelError, NotFittedError
        If `model` is not a model.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.ClassifyClient("http://127.0.0.1:8080", model="model") as client:  # doctest: +SKIP
    ...     labels, scores = client.classify(["win a free prize", "see you at home"])
    ...     print(labels, client.usage.query_bytes)
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | PathLike[str] | FastText | CompressedTable,
        cut: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(url, **options)
        self._model = _client_half(model)
        self._cut = cut
        self._kind = "classify" if isinstance(self._model, _unspoken.Words) else "layer"

    def classify(self, messages: Iterable[str]) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]:
        """Classify messages without revealing them.

        Parameters
        ----------
        messages : iterable of str
            Any number; they are sent in batches of the service's size.

        Returns
        -------
        labels : ndarray of str, shape (messages,)
            The label of the largest score.
        scores : ndarray of float64, shape (messages, classes)
            In the order of the client's `labels`. They carry the error of the encryption, which depends on the
            secret key: for scores that others will see use `classify_to_share`.

        Warns
        -----
        TextWarning
            If messages have more words than the model reads, or most of their words are unknown to it.

        Raises
        ------
        ValueError
            If a message has more tokens than a linear head reads, unless `cut` is set. The service was asked about
            empty messages instead.
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> labels, scores = client.classify(["win a free prize"])  # doctest: +SKIP
        """
        answers: tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]
        answers, _ = self._answered(text_list(messages, "messages"))
        return answers

    def classify_to_share(
        self, messages: Iterable[str], bits: int, *, uncertain: bool = False
    ) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]:
        """Classify messages without revealing them, with scores that may be shared.

        Parameters
        ----------
        messages : iterable of str
            As for `classify`.
        bits : int
            Gaussian noise with a standard deviation of ``2**bits`` times the bound of the error is
            added to every score. All ``n`` scores ever shared under one key are then distributed as
            if they had been computed without error, up to a statistical distance of
            ``sqrt(n) / 2 * 2**-bits``. This requires a service that computes correctly. With a linear head the size of
            the noise shows the number of tokens of a message up to a factor of two.
        uncertain : bool
            Return labels that the noise may have decided. `False`, the default, raises `UncertainError` if the
            probability that the exact scores give the same label may be below 0.95.

        Returns
        -------
        labels, scores
            As for `classify`; the label has the largest noisy score.

        Warns
        -----
        TextWarning
            As for `classify`.

        Raises
        ------
        MismatchError
            If the service does not know a bound of the error, as with full compact queries, or `bits` is
            not from 1 to 45. Nothing was sent.
        UncertainError
            If the noise may have decided a label; the exception has labels, scores and probabilities.
        UnspokenError
            As for `classify`.

        Examples
        --------
        >>> labels, scores = client.classify_to_share(["win a free prize"], bits=10)  # doctest: +SKIP
        """
        (labels, scores), certainties = self._answered(text_list(messages, "messages"), bits)
        refuse_uncertain(labels, scores, certainties, bits, uncertain=uncertain)
        return labels, scores

    @property
    def labels(self) -> list[str]:
        """Label names, in the order of the scores. With a linear head it connects to the service on first use."""
        if isinstance(self._model, _unspoken.Words):
            return self._model.labels
        with self._use_connection() as connection:
            labels: list[str] = connection.facts()["labels"]
            return labels

    def _listed(self, _connection: _unspoken.Connection, questions: Sequence[Any]) -> Sequence[Any]:
        """Return texts."""
        return text_list(questions, "messages")

    def _joined(self, connection: _unspoken.Connection, questions: Sequence[Any], read: list[Any]) -> Any:
        """Return labels and scores."""
        warn_of_texts(self._warnings(connection, questions))
        return labelled(read)

    def _warnings(self, connection: _unspoken.Connection, texts: Sequence[str]) -> list[str]:
        """Return what the model does not read of texts."""
        if isinstance(self._model, _unspoken.Words):
            return self._model.coverage(texts)["warnings"]
        warnings: list[str] = self._model.coverage(texts, connection.facts()["max_tokens"])["warnings"]
        return warnings

    def _part(self) -> _unspoken.Words | tuple[_unspoken.Codes, bool]:
        """Return the client half of the model; of a linear head also whether texts are cut."""
        return self._model if isinstance(self._model, _unspoken.Words) else (self._model, self._cut)


def _client_half(model: str | PathLike[str] | FastText | CompressedTable) -> _unspoken.Words | _unspoken.Codes:
    """Return the client half of a fitted model, of a table, or of a directory."""
    if isinstance(model, FastText):
        return model._fitted("ask with the model").words()
    if isinstance(model, CompressedTable) or _unspoken.Codes.is_in(model):
        return codes_of(model)
    return _unspoken.Words.load(model)

"""Private predictions of models that owners bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from unspoken import _unspoken
from unspoken._client_base import PreparingClient
from unspoken._model_values import ModelInput, ModelOutput, Reader, answered, described, listed_rows, warn_of_moved
from unspoken._predictor import Predictor


class ModelClient(Predictor, PreparingClient):
    """A client of one model of a service. The service sees neither rows, nor results, nor their labels.

    It needs no part of the model, which stays with the service: see `compile`. More rows than one query has room for
    are sent in several queries, each of the same size.

    Results carry the error of the encryption, which depends on the secret key: keep numbers and probabilities to
    yourself.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    **options
        As for `ClassifyClient`: see `ServiceOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.ModelClient("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     labels = client.predict(rows)
    ...     print(client.classes_, client.predict_proba(rows), client.usage.query_bytes)
    """

    _kind = "model"

    def _answer(self, rows: Any, clip: bool, reader: Callable[[Sequence[ModelOutput]], Reader]) -> Any:
        with self._use_connection() as connection:
            inputs, outputs = described(connection.facts())
            read = reader(outputs)
            listed, moved = listed_rows(rows, inputs, clip=clip)
            answers, _ = connection.ask(listed, None, self._progress)
            warn_of_moved(moved)
            return answered(outputs, [answers], read)

    def _describe(self) -> tuple[tuple[ModelInput, ...], tuple[ModelOutput, ...]]:
        with self._use_connection() as connection:
            return described(connection.facts())

    def _listed(self, connection: _unspoken.Connection, questions: Sequence[Any]) -> Sequence[Any]:
        """Return rows, each with an array for each input."""
        return listed_rows(questions, described(connection.facts())[0])[0]

    def _joined(self, connection: _unspoken.Connection, _questions: Sequence[Any], read: list[Any]) -> Any:
        """Return the outputs by name."""
        return answered(described(connection.facts())[1], read)

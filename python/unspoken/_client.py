"""Asking a classifier without showing it the messages."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Callable

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._asking import ServiceClient
from unspoken._fasttext import FastText
from unspoken._texts import text_list


class Client(ServiceClient[_unspoken.Connection]):
    """A client of one classifier of a service. The service never sees messages, scores or labels.

    Making a client checks the arguments and sends nothing. The first call of `connect` or
    `classify` makes the keys and uploads them, which takes seconds to minutes; they are kept, and
    later clients with the same `state_dir`, service and application use them again.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    model : path or FastText
        A directory with the client half of the model (``client.json`` and
        ``client.safetensors``), or a fitted `FastText`.
    application : str, optional
        What to ask, for instance ``"classify/spam"``. Left out: the only one the service offers.
    token : str, optional
        Bearer token, if the service wants one. Never sent in the clear to another machine.
    ca_file : path, optional
        Certificate authorities to trust besides the system's, as PEM.
    state_dir : path, optional
        Directory for the secret key; whoever reads it can read the queries. The default is that of
        the `unspoken` command: ``$UNSPOKEN_STATE``, or ``~/.local/share/unspoken``. One client at
        a time makes keys for a service and application.
    progress : bool or callable
        `True` draws bars on standard error while that is a terminal; a callable is handed a
        `Progress` instead.
    patience : float
        Seconds to keep trying when the service cannot be reached or is busy.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.
    ModelError, NotFittedError
        If `model` is none.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.Client("http://127.0.0.1:8080", model="model") as client:  # doctest: +SKIP
    ...     labels, scores = client.classify(["win a free prize", "see you at home"])
    ...     print(labels, client.usage.query_bytes)
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | PathLike[str] | FastText,
        application: str | None = None,
        token: str | None = None,
        ca_file: str | PathLike[str] | None = None,
        state_dir: str | PathLike[str] | None = None,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
        patience: float = 30.0,
    ) -> None:
        super().__init__(
            url,
            application=application,
            token=token,
            ca_file=ca_file,
            state_dir=state_dir,
            progress=progress,
            patience=patience,
        )
        self._words = _words(model)

    def classify(self, messages: Iterable[str]) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.float64]]:
        """Classify messages without showing them.

        Parameters
        ----------
        messages : iterable of str
            Any number; they are sent in batches of the size the service gives.

        Returns
        -------
        labels : ndarray of str, shape (messages,)
            The label of the largest score.
        scores : ndarray of float64, shape (messages, classes)
            In the order of `labels`. They carry the noise of the encryption: do not publish them
            as they are.

        Raises
        ------
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> labels, scores = client.classify(["win a free prize"])  # doctest: +SKIP
        """
        texts = text_list(messages, "messages")
        with self._asking() as connection:
            labels, scores = connection.classify(texts, self._progress)
        return np.array(labels, dtype=np.str_), scores

    @property
    def labels(self) -> list[str]:
        """Label names, in the order of the scores."""
        return self._words.labels

    def _open(self) -> _unspoken.Connection:
        """Make keys and upload them, unless the service has them."""
        return _unspoken.Connection.open(self._service, self._application, self._words, self._state_dir, self._progress)


def _words(model: str | PathLike[str] | FastText) -> _unspoken.Words:
    """Return the client half of a fitted model, or of a directory."""
    if isinstance(model, FastText):
        return model._fitted("ask with the model").words()
    return _unspoken.Words.load(model)

"""Asking a classifier without showing it the messages."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Callable

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._fasttext import FastText
from unspoken._state import default_state_directory
from unspoken._texts import text_list
from unspoken.errors import KeysExpiredError, UnspokenError


@dataclass(frozen=True)
class Usage:
    """Bytes that travelled and seconds that passed.

    Attributes
    ----------
    messages : int
        Messages asked about.
    key_bytes : int
        Bytes of the keys uploaded; 0 if the service had them already.
    query_bytes, answer_bytes : int
        Bytes of all queries and of all answers.
    key_seconds : float
        Seconds making and uploading keys, or finding them in place.
    client_seconds : float
        Seconds encrypting and decrypting here.
    server_seconds : float
        Seconds waiting for the service, the network included.

    Examples
    --------
    >>> import unspoken
    >>> (unspoken.Usage(messages=2) + unspoken.Usage(messages=3)).messages
    5
    """

    messages: int = 0
    key_bytes: int = 0
    query_bytes: int = 0
    answer_bytes: int = 0
    key_seconds: float = 0.0
    client_seconds: float = 0.0
    server_seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both, field by field."""
        names = [field.name for field in fields(self)]
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names})


class Client:
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
        authorities = None if ca_file is None else Path(ca_file).read_bytes()
        self._service = _unspoken.Service(url, token, authorities, patience)
        self._words = _words(model)
        self._url = url
        self._application = application
        self._state_dir = default_state_directory() if state_dir is None else Path(state_dir)
        self._progress = progress
        self._connection: _unspoken.Connection | None = None
        self._past = self._usage = Usage()
        self._closed = False
        self._lock = threading.Lock()

    def connect(self) -> Client:
        """Make the keys and upload them, unless the service has them; return this client.

        Raises
        ------
        ConfigurationError
            If no application was named and the service offers none or several.
        ConnectionFailedError, RefusedError
            If the service cannot be reached, or says no.
        MismatchError
            If the service has another model than this client.
        KeyboardInterrupt
            On Control-C. An upload goes on where it stopped when this is called again.

        Examples
        --------
        >>> client = unspoken.Client("http://127.0.0.1:8080", model="model")  # doctest: +SKIP
        >>> client.connect().usage.key_bytes  # doctest: +SKIP
        """
        with self._lock:
            self._connected()
        return self

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
        with self._lock:
            connection = self._connected()
            try:
                labels, scores = connection.classify(texts, self._progress)
            except KeysExpiredError:
                self._connection = None
                raise
            finally:
                self._usage = self._past + Usage(**connection.usage)
        return np.array(labels, dtype=np.str_), scores

    @property
    def labels(self) -> list[str]:
        """Label names, in the order of the scores."""
        return self._words.labels

    @property
    def application(self) -> str | None:
        """What is asked; `None` until it is known."""
        return self._application

    @property
    def usage(self) -> Usage:
        """Bytes and seconds since this client was made, as of the last call that ended."""
        return self._usage

    def close(self) -> None:
        """Close the connection. The keys stay, here and at the service, for the next client.

        Examples
        --------
        >>> client.close()  # doctest: +SKIP
        """
        with self._lock:
            self._connection = None
            self._closed = True

    def __enter__(self) -> Client:
        """Return this client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def __repr__(self) -> str:
        """Return address, application and state; never the token."""
        state = "closed" if self._closed else "connected" if self._connection else "not connected"
        return f"<Client of {self._url}, application {self._application}, {state}>"

    def _connected(self) -> _unspoken.Connection:
        """Return the connection, made when there is none. The caller holds the lock."""
        if self._closed:
            raise UnspokenError("use the client: it is closed, needed an open one; make a new one")
        if self._connection is None:
            self._past = self._usage
            self._connection = _unspoken.Connection.open(
                self._service, self._application, self._words, self._state_dir, self._progress
            )
            self._application = self._connection.application
            self._usage = self._past + Usage(**self._connection.usage)
        return self._connection


def _words(model: str | PathLike[str] | FastText) -> _unspoken.Words:
    """Return the client half of a fitted model, or of a directory."""
    if isinstance(model, FastText):
        return model._fitted("ask with the model").words()
    return _unspoken.Words.load(model)

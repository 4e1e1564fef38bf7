"""Base classes, options and statistics of all clients of a service."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, TypedDict, TypeVar

from unspoken import _unspoken
from unspoken._boundary import made
from unspoken._state import default_state_directory
from unspoken.errors import ConfigurationError, KeysExpiredError, UnspokenError

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Usage:
    """Bytes sent and received, and seconds used.

    Attributes
    ----------
    messages : int
        Number of messages, tokens, images or records queried; for text generation, of requests.
    key_bytes : int
        Bytes of uploaded keys; 0 if the service had them already.
    query_bytes, answer_bytes : int
        Bytes of all queries and of all answers.
    key_seconds : float
        Seconds for generating and uploading keys, or for checking that the service has them.
    client_seconds : float
        Seconds for encrypting and decrypting in this process.
    server_seconds : float
        Seconds waiting for the service, including the network.

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


@dataclass(frozen=True)
class Cost:
    """What questions will take, before anything is sent.

    Attributes
    ----------
    questions : int
        Number of messages, tokens, images, records, computations or passes.
    batch : int
        Maximum number of them in one query. Except for retrieval and short queries, a query with
        fewer is as long.
    queries : int
        Number of queries.
    key_bytes : int
        Bytes of the keys to upload, once; 0 if the service has them.
    query_bytes, answer_bytes : int
        Bytes of all queries, and of all answers as the service describes them.

    Examples
    --------
    >>> import unspoken
    >>> unspoken.Cost(2, 256, 1, 0, 8_160_000, 530_000).queries
    1
    """

    questions: int
    batch: int
    queries: int
    key_bytes: int
    query_bytes: int
    answer_bytes: int


ClientT = TypeVar("ClientT", bound="ServiceClient")


class ConnectionOptions(TypedDict, total=False):
    """Options for the connection to a service and the storage of keys, as keyword arguments.

    Attributes
    ----------
    token : str, optional
        Bearer token, if the service requires one. Not sent unencrypted to another machine, unless
        `insecure_http` allows it.
    ca_file : path, optional
        Certificate authorities to trust in addition to the system's, in PEM or DER.
    insecure_http : bool
        Allow plain HTTP to another machine. Anyone on the network path then sees the token, and the
        times and sizes of requests. `False` by default; not needed for a service on this machine.
    state_dir : path, optional
        Directory for the secret key; anyone who can read it can read the queries. The default is the same as for the
        `unspoken` command: ``$UNSPOKEN_STATE``, or ``unspoken`` in ``$XDG_DATA_HOME`` or in ``~/.local/share``. One
        client at a time generates keys for a service and application.
    progress : bool or callable
        `True`, the default, draws bars on standard error if that is a terminal; a callable is
        called with a `Progress` instead.
    insecure_parameters : bool
        Accept a service whose parameters are for tests and protect nothing. `False` by default.
    timeout : float, optional
        Seconds after which an answer is given up, retries and the service's work included; for an
        upload, each chunk. By default 10 if the service accepts no connection, 120 if it is busy or
        the connection was lost, 1200 for an answer. Errors that cannot heal, such as a name that does
        not exist or a certificate that is not trusted, are raised at once. Waiting is logged once
        as a warning of the logger ``"unspoken"`` and reported to `progress`.

    Examples
    --------
    >>> import unspoken
    >>> options: unspoken.ConnectionOptions = {"token": "unspoken_...", "timeout": 5}
    >>> client = unspoken.PirClient("https://example.org", "pir/codes", **options)  # doctest: +SKIP
    """

    token: str | None
    ca_file: str | PathLike[str] | None
    insecure_http: bool
    insecure_parameters: bool
    state_dir: str | PathLike[str] | None
    progress: bool | Callable[[_unspoken.Progress], object]
    timeout: float | None


class ServiceOptions(ConnectionOptions, total=False):
    """Options of a client that encrypts vectors, as keyword arguments.

    Attributes
    ----------
    application : str, optional
        Application to query, for instance ``"classify/spam"``. Default: the only one of the service.
    burst : int
        Number of queries whose slow part of encryption is done in advance, so that they can be sent
        at once with little work; a thread prepares them on one core and refills. 0, the default,
        encrypts on demand, which takes milliseconds. Each preparation is used once. Do not use this
        in a process whose memory may be restored from a snapshot.
    pool_bytes : int
        Maximum bytes of memory for these encryptions; 256 MiB by default. A query needs 0.1 to 10 MiB.
    token, ca_file, insecure_http, insecure_parameters, state_dir, progress, timeout
        See `ConnectionOptions`.

    Examples
    --------
    >>> import unspoken
    >>> options: unspoken.ServiceOptions = {"token": "unspoken_...", "timeout": 5}
    >>> client = unspoken.ClassifyClient("https://example.org", model="model", **options)  # doctest: +SKIP
    """

    application: str | None
    burst: int
    pool_bytes: int


class ServiceClient:
    """A client of one application of a service. It connects on first use and counts its usage.

    The constructor checks the arguments and sends nothing. The first call of `connect`, or the first
    query, generates the keys and uploads them, which takes seconds to minutes. Keys are stored, and
    later clients with the same `state_dir`, service and application use them again.
    """

    #: Kind of the applications that it asks.
    _kind: str

    def __init__(
        self,
        url: str,
        *,
        application: str | None = None,
        token: str | None = None,
        ca_file: str | PathLike[str] | None = None,
        insecure_http: bool = False,
        insecure_parameters: bool = False,
        state_dir: str | PathLike[str] | None = None,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
        timeout: float | None = None,
    ) -> None:
        authorities = None if ca_file is None else _authorities(ca_file)
        options = (token, authorities, insecure_http, timeout, insecure_parameters)
        self._service = made(_unspoken.Service, "make a client", url, *options)
        self._url = self._service.url
        self._application = application
        self._state_dir = default_state_directory() if state_dir is None else Path(state_dir)
        self._progress = progress
        self._ready = (0, 0)
        self._connection: _unspoken.Connection | None = None
        self._past = self._usage = Usage()
        self._closed = False
        self._lock = threading.Lock()
        _open_clients.add(self)

    def _part(self) -> Any:
        """Return what the client brings to an application of its kind, as the compiled module takes it."""
        return None

    def _place(self) -> tuple[_unspoken.Service, str | None, str, Any, Path]:
        """Return where the application is and what the client brings."""
        return self._service, self._application, self._kind, self._part(), self._state_dir

    def _open(self) -> _unspoken.Connection:
        """Make keys and upload them, unless the service has them."""
        return _unspoken.Connection.open(*self._place(), self._ready, self._progress)

    def cost(self, questions: int) -> Cost:
        """Return what `questions` questions will take. Sends no query and no keys.

        Parameters
        ----------
        questions : int
            Number of messages, tokens, images, records, computations or passes.

        Raises
        ------
        ConnectionFailedError, RefusedError, MismatchError
            As for `connect`.

        Examples
        --------
        >>> client = unspoken.ClassifyClient("http://127.0.0.1:8080", model="model")  # doctest: +SKIP
        >>> cost = client.cost(1)  # doctest: +SKIP
        >>> cost.key_bytes, cost.query_bytes, cost.answer_bytes  # doctest: +SKIP
        """
        if questions < 0:
            raise ConfigurationError(f"predict a cost: found questions={questions}; needed 0 or more")
        return Cost(**_unspoken.Connection.cost(*self._place(), questions))

    def connect(self: ClientT) -> ClientT:
        """Make the keys and upload them, unless the service has them; return this client.

        Raises
        ------
        ConfigurationError
            If no application was named and the service offers none or several.
        ConnectionFailedError, RefusedError
            If the service cannot be reached, or refuses.
        MismatchError
            If the service has another model or table than this client.
        KeyboardInterrupt
            On Control-C. The next call resumes an upload where it stopped.

        Examples
        --------
        >>> client = unspoken.ClassifyClient("http://127.0.0.1:8080", model="model")  # doctest: +SKIP
        >>> client.connect().usage.key_bytes  # doctest: +SKIP
        """
        with self._lock:
            self._connected()
        return self

    @property
    def application(self) -> str | None:
        """The application; `None` until it is known."""
        return self._application

    @property
    def usage(self) -> Usage:
        """Bytes and seconds since this client was created, up to the last completed call."""
        return self._usage

    def close(self) -> None:
        """Close the connection. The keys stay stored, locally and at the service, for the next client.

        Examples
        --------
        >>> client.close()  # doctest: +SKIP
        """
        with self._lock:
            self._connection = None
            self._closed = True

    def __enter__(self: ClientT) -> ClientT:
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
        return f"<{type(self).__name__} of {self._url}, application {self._application}, {state}>"

    @contextmanager
    def _use_connection(self) -> Iterator[_unspoken.Connection]:
        """Use the connection for one call; count its usage, and drop the connection if keys are lost."""
        with self._lock:
            connection = self._connected()
            try:
                yield connection
            except KeysExpiredError:
                self._connection = None
                raise
            finally:
                self._usage = self._past + Usage(**connection.usage)

    def _connected(self) -> _unspoken.Connection:
        """Return the connection, opening it if necessary. The caller holds the lock."""
        if self._closed:
            raise UnspokenError("use the client: it is closed, needed an open one; make a new one")
        if self._connection is None:
            self._past = self._usage
            self._connection = self._open()
            self._application = self._connection.application
            self._usage = self._past + Usage(**self._connection.usage)
        return self._connection


# Clients of this process, for its children.
_open_clients: weakref.WeakSet[ServiceClient] = weakref.WeakSet()


def _after_fork() -> None:
    """Free clients of calls that other threads of the parent were in: they never end in a child."""
    for client in list(_open_clients):
        if client._lock.locked():
            client._connection = None
            client._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _authorities(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file of certificate authorities."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"read ca_file={path!r}: {error}; name a file in PEM or DER") from error


class PreparingClient(ServiceClient, ABC):
    """A client that encrypts vectors and can do the slow part of encryption in advance."""

    def __init__(
        self,
        url: str,
        *,
        application: str | None = None,
        burst: int = 0,
        pool_bytes: int = 1 << 28,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        if burst < 0 or pool_bytes < 0:
            raise ConfigurationError(f"make a client: found burst={burst}, pool_bytes={pool_bytes}; needed 0 or more")
        super().__init__(url, application=application, **options)
        self._ready = (burst, pool_bytes)

    @abstractmethod
    def _listed(self, connection: _unspoken.Connection, questions: Sequence[Any]) -> Sequence[Any]:
        """Return questions as the compiled module takes them."""

    @abstractmethod
    def _joined(self, connection: _unspoken.Connection, questions: Sequence[Any], read: list[Any]) -> Any:
        """Return what the decrypted answers to all queries are together."""

    def _answered(self, questions: Any, bits: int | None = None) -> tuple[Any, list[float]]:
        """Return the joined answers to listed questions; with `bits`, to be shared, and how certain each label is."""
        with self._use_connection() as connection:
            read, certainties = connection.ask(questions, bits, self._progress)
            # After the last answer: the time between requests must not depend on the questions, so warnings come now.
            return self._joined(connection, questions, [read]), certainties

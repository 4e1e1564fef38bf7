"""What all clients of a service have in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Generic, Protocol, TypedDict, TypeVar

from unspoken import _unspoken
from unspoken._state import default_state_directory
from unspoken.errors import ConfigurationError, KeysExpiredError, UnspokenError

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Usage:
    """Bytes that travelled and seconds that passed.

    Attributes
    ----------
    messages : int
        Messages, tokens, images or records asked about.
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


class _Connected(Protocol):
    """What a connection of any application has."""

    @property
    def application(self) -> str: ...
    @property
    def usage(self) -> Any: ...


ConnectionT = TypeVar("ConnectionT", bound=_Connected)
ClientT = TypeVar("ClientT", bound="ServiceClient[Any]")


class ConnectionOptions(TypedDict, total=False):
    """How a client reaches a service, and where its keys lie, as keyword arguments.

    Attributes
    ----------
    token : str, optional
        Bearer token, if the service wants one. Not sent in the clear to another machine, unless
        `insecure_http` allows it.
    ca_file : path, optional
        Certificate authorities to trust besides the system's, as PEM.
    insecure_http : bool
        Talk plain HTTP to another machine. Whoever is on the way sees the token, when is asked and
        how much. `False` if not said; a service on this machine needs no such option.
    state_dir : path, optional
        Directory for the secret key; whoever reads it can read the queries. The default is that of
        the `unspoken` command: ``$UNSPOKEN_STATE``, or ``~/.local/share/unspoken``. One client at
        a time makes keys for a service and application.
    progress : bool or callable
        `True`, the default, draws bars on standard error while that is a terminal; a callable is
        handed a `Progress` instead.
    patience : float
        Seconds to keep trying when the service cannot be reached or is busy; 30 if not said.

    Examples
    --------
    >>> import unspoken
    >>> options: unspoken.ConnectionOptions = {"token": "unspoken_...", "patience": 5}
    >>> client = unspoken.RetrievalClient("https://example.org", "pir/codes", **options)  # doctest: +SKIP
    """

    token: str | None
    ca_file: str | PathLike[str] | None
    insecure_http: bool
    state_dir: str | PathLike[str] | None
    progress: bool | Callable[[_unspoken.Progress], object]
    patience: float


class ServiceOptions(ConnectionOptions, total=False):
    """What a client that encrypts vectors can be told, as keyword arguments.

    Attributes
    ----------
    application : str, optional
        What to ask, for instance ``"classify/spam"``. Left out: the only one the service offers.
    burst : int
        Queries to keep the slow part of encryption ready for, so that so many can go out at once
        with the least work here; a thread prepares them, on one core, and refills. 0, the default,
        encrypts when asked, which takes milliseconds. Each preparation is used once. Not in a
        process whose memory may be restored from a snapshot.
    pool_bytes : int
        Most bytes of memory for that; 256 MiB if not said. A query takes 0.1 to 10 MiB.
    token, ca_file, insecure_http, state_dir, progress, patience
        See `ConnectionOptions`.

    Examples
    --------
    >>> import unspoken
    >>> options: unspoken.ServiceOptions = {"token": "unspoken_...", "patience": 5}
    >>> client = unspoken.Client("https://example.org", model="model", **options)  # doctest: +SKIP
    """

    application: str | None
    burst: int
    pool_bytes: int


class ServiceClient(ABC, Generic[ConnectionT]):
    """A client of one application of a service: connects when first asked, counts, and closes.

    Making a client checks the arguments and sends nothing. The first call of `connect`, or the
    first question, makes the keys and uploads them, which takes seconds to minutes; they are kept,
    and later clients with the same `state_dir`, service and application use them again.
    """

    def __init__(
        self,
        url: str,
        *,
        application: str | None = None,
        token: str | None = None,
        ca_file: str | PathLike[str] | None = None,
        insecure_http: bool = False,
        state_dir: str | PathLike[str] | None = None,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
        patience: float = 30.0,
    ) -> None:
        authorities = None if ca_file is None else Path(ca_file).read_bytes()
        self._service = _unspoken.Service(url, token, authorities, insecure_http, patience)
        self._url = url
        self._application = application
        self._state_dir = default_state_directory() if state_dir is None else Path(state_dir)
        self._progress = progress
        self._connection: ConnectionT | None = None
        self._past = self._usage = Usage()
        self._closed = False
        self._lock = threading.Lock()

    @abstractmethod
    def _open(self) -> ConnectionT:
        """Make keys and upload them, unless the service has them."""

    def connect(self: ClientT) -> ClientT:
        """Make the keys and upload them, unless the service has them; return this client.

        Raises
        ------
        ConfigurationError
            If no application was named and the service offers none or several.
        ConnectionFailedError, RefusedError
            If the service cannot be reached, or says no.
        MismatchError
            If the service has another model or table than this client.
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
    def _asking(self) -> Iterator[ConnectionT]:
        """Give one question the connection; count what it used, and forget lost keys."""
        with self._lock:
            connection = self._connected()
            try:
                yield connection
            except KeysExpiredError:
                self._connection = None
                raise
            finally:
                self._usage = self._past + Usage(**connection.usage)

    def _connected(self) -> ConnectionT:
        """Return the connection, made when there is none. The caller holds the lock."""
        if self._closed:
            raise UnspokenError("use the client: it is closed, needed an open one; make a new one")
        if self._connection is None:
            self._past = self._usage
            self._connection = self._open()
            self._application = self._connection.application
            self._usage = self._past + Usage(**self._connection.usage)
        return self._connection


class PreparingClient(ServiceClient[ConnectionT]):
    """A client that encrypts vectors, and can keep the slow part of that ready."""

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

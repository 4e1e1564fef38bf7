"""Fetching records of a database without revealing which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from unspoken._client_base import ConnectionOptions, ServiceClient
from unspoken._records import Key, byte_string
from unspoken.errors import ArgumentError, ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Unpack

Query = Literal["packed", "bits", "compact", "session"]

QUERIES = ("packed", "bits", "compact", "session")


class PirClient(ServiceClient):
    """A client of one database of a service. The service sees neither keys nor indices nor records.

    It needs no part of the database.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    application : str, optional
        The database, for instance ``"pir/codes"``. Default: the only application of the service.
    query : {"packed", "bits", "compact", "session"}
        Kind of queries. Packed queries have at most 352 bytes and the smallest keys, a few MB; bits have 32
        bytes and 5 bits for each bit of the index, and larger keys; compact ones have 36 bytes and
        the largest keys. Session queries are compact ones of 4 bytes: their counter is stored in the
        state directory, which must never be restored from a copy. Larger keys serve the smaller
        kinds too. A database with dense or wide tables answers packed queries only, of about 147 or 93 KB.
    oprf : str, optional
        Application of the same service that gives the keys of sealed records, for instance
        ``"oprf/codes"``. Records are then opened with them. Each question counts there, whether
        its record exists or not. Its bytes are in `usage`, but not in `cost`.
    public_key : str, optional
        Public key of the sealed database, in hexadecimal, as its owner tells it. Default: the key that the service
        describes first. Only with `oprf`.
    **options
        How to connect, where keys are stored: see `ConnectionOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token, the certificates or the kind of queries cannot be used, or there is
        a public key without `oprf`.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.PirClient("http://127.0.0.1:8080", "pir/codes") as client:  # doctest: +SKIP
    ...     record = client.get("A00.1")
    ...     print(record, client.usage.query_bytes)
    """

    _kind = "retrieve"

    def __init__(
        self,
        url: str,
        application: str | None = None,
        *,
        query: Query = "packed",
        oprf: str | None = None,
        public_key: str | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        if query not in QUERIES:
            raise ConfigurationError(f"make a client: found query={query!r}; needed one of {', '.join(QUERIES)}")
        if public_key is not None and oprf is None:
            raise ConfigurationError("make a client: found public_key without oprf; name the application")
        super().__init__(url, application=application, **options)
        self._query = query
        self._oprf = None if oprf is None else (oprf, public_key)
        self._version: int | None = None

    def get(self, key: Key) -> bytes | None:
        """Fetch the record of a key without revealing the key.

        Parameters
        ----------
        key : str or bytes
            Text is encoded as UTF-8.

        Returns
        -------
        bytes or None
            The record; `None` if there is none with this key, which the service does not learn.

        Raises
        ------
        ConfigurationError
            If the database is read by index.
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        MismatchError
            If `oprf` is given and the record is not sealed, or is sealed with another key.
        RefusedError
            If more keys of sealed records were asked for than the service allows; it says when to ask
            again.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> client.get("A00.1")  # doctest: +SKIP
        b'Cholera due to Vibrio cholerae 01, biovar eltor'
        """
        return self.get_many([key])[0]

    def get_many(self, keys: Iterable[Key]) -> list[bytes | None]:
        """Fetch the records of keys without revealing the keys.

        Parameters
        ----------
        keys : iterable of str or bytes
            Any number; a request contains several, and each request is answered from one version of
            the database.

        Returns
        -------
        list of bytes or None
            As `get`, in the order of the keys.

        Raises
        ------
        UnspokenError
            As for `get`.

        Examples
        --------
        >>> client.get_many(["A00.1", "A00.9"])  # doctest: +SKIP
        """
        if isinstance(keys, (str, bytes)):
            raise ArgumentError(f"get_many: found one {type(keys).__name__}, needed several keys; use get for one")
        wanted = [byte_string(key, "a key", "get") for key in keys]
        return self._fetched(wanted)

    def get_index(self, index: int) -> bytes | None:
        """Fetch the record at an index without revealing the index.

        Parameters
        ----------
        index : int
            From 0.

        Returns
        -------
        bytes or None
            The record; `None` if there is none at this index.

        Raises
        ------
        NoSuchIndexError
            If the index is out of range. An `IndexError`. A query was sent all the same, so that
            the service does not learn this.
        ConfigurationError
            If the database is read by key.
        UnspokenError
            As for `get`.

        Examples
        --------
        >>> client.get_index(0)  # doctest: +SKIP
        """
        # Out of range for every database, so it is refused like every index that is too large: after a query.
        if not 0 <= index < 2**64:
            index = 2**64 - 1
        return self._fetched([index])[0]

    @property
    def version(self) -> int | None:
        """The database version of the last answer; `None` before the first."""
        return self._version

    def _fetched(self, questions: list[bytes] | list[int]) -> list[bytes | None]:
        """Fetch the records of keys or indices."""
        records: list[bytes | None]
        with self._use_connection() as connection:
            (records, version), _ = connection.ask(questions, None, self._progress)
        if records:
            self._version = version
        return records

    def _part(self) -> tuple[str, tuple[str, str | None] | None]:
        """Return the kind of queries, and the application and the public key for sealed records."""
        return self._query, self._oprf

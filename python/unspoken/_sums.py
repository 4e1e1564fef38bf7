"""Exact sums of what many clients send encrypted to a service that sees no value."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import ConnectionOptions, ServiceClient
from unspoken._files import write_new
from unspoken._labels import unmasked
from unspoken.errors import ArgumentError, ConfigurationError, RefusedError, StateError, SumsError, UnspokenError
from unspoken.exact import _integers

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LOGGER = logging.getLogger("unspoken")

Range = Union[int, "tuple[int, int]"]


@dataclass(frozen=True)
class Sums:
    """The sums of a collection.

    Attributes
    ----------
    contributions : int
        Number of contributions.
    sums : dict of str to int
        The sum of each column, exact.
    means : dict of str to float
        The sum of each column divided by the number of contributions.

    Examples
    --------
    >>> import unspoken
    >>> unspoken.Sums(2, {"visits": 5}, {"visits": 2.5}).sums["visits"]
    5
    """

    contributions: int
    sums: dict[str, int]
    means: dict[str, float]


class SumsCollection:
    """A collection of encrypted contributions: the collector's two files.

    The public file is for the service (``unspoken serve --offer sums=visits.public``); everybody may
    see it. The private file decrypts the sums; the collector keeps it. `create` makes a collection.

    Examples
    --------
    >>> import unspoken
    >>> survey = unspoken.SumsCollection.create({"visits": 60, "change": (-6, 6)}, most=1000, least=50)
    >>> survey
    <SumsCollection of visits, change; 50 to 1000 contributions, n12_exact30>
    """

    _compiled: _unspoken.SumsCollection

    @classmethod
    def create(cls, columns: Mapping[str, Range], *, most: int, least: int) -> SumsCollection:
        """Make a collection, with secure parameters that hold its sums.

        Parameters
        ----------
        columns : dict of str to int or (int, int)
            For each column the largest value of one contribution, or the smallest and the largest. The
            range contains 0.
        most : int
            Most contributions that are added.
        least : int
            Contributions below which the service does not release the sum, at least 2.

        Raises
        ------
        SumsError
            If a range or a number cannot be used, or no parameters hold the sums.

        Examples
        --------
        >>> survey = unspoken.SumsCollection.create({"visits": 60}, most=1000, least=50)  # doctest: +SKIP
        """
        ranges = ((name, *((0, each) if isinstance(each, int) else each)) for name, each in columns.items())
        for what, number in (("most", most), ("least", least)):
            if not 0 <= number < 1 << 32:
                raise SumsError(f"make a collection: found {what}={number}; needed 2 or more")
        return cls._of(_unspoken.SumsCollection.create(list(ranges), most, least))

    @classmethod
    def load(cls, name: str | PathLike[str]) -> SumsCollection:
        """Read the files ``NAME.public`` and ``NAME.private``.

        Raises
        ------
        StateError
            If a file cannot be read.
        MismatchError
            If a file is damaged or belongs to another collection.

        Examples
        --------
        >>> survey = unspoken.SumsCollection.load("survey")  # doctest: +SKIP
        """
        path = os.fspath(name)
        parts = []
        for ending in ("public", "private"):
            try:
                with open(f"{path}.{ending}", "rb") as file:  # noqa: PTH123 (a name is no path)
                    parts.append(file.read(1 << 26))
            except OSError as error:
                message = f"read the collection {path}.{ending}: {error}; give the name that it was saved under"
                raise StateError(message) from error
        return cls._of(_unspoken.SumsCollection.from_bytes(*parts))

    def save(self, name: str | PathLike[str]) -> None:
        """Write ``NAME.public`` and ``NAME.private``. Only its owner can read ``NAME.private``.

        Raises
        ------
        StateError
            If a file exists (none is ever overwritten) or cannot be written.

        Examples
        --------
        >>> survey.save("survey")  # doctest: +SKIP
        """
        path = os.fspath(name)
        parts = (("private", 0o600, self._compiled.private_bytes()), ("public", 0o666, self._compiled.public_bytes()))
        for ending, mode, data in parts:
            try:
                write_new(f"{path}.{ending}", data, mode=mode)
            except OSError as error:
                raise StateError(f"write the collection {path}.{ending}: {error}; give a new name") from error

    @property
    def fingerprint(self) -> str:
        """Identifies the collection with all its fields: give it to contributors, 64 hexadecimal digits."""
        return self._compiled.fingerprint

    @property
    def preset(self) -> str:
        """The parameter set."""
        return self._compiled.preset

    @property
    def columns(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest value of one contribution, by column."""
        return _columns(self._compiled.columns)

    def __reduce__(self) -> Any:
        """Raise: a collection is saved with `save`."""
        raise ArgumentError("a collection is not pickled: use save() and load()")

    def __repr__(self) -> str:
        """Return columns and limits, and no bit of the secret."""
        own = self._compiled
        return f"<SumsCollection of {', '.join(self.columns)}; {own.least} to {own.most} contributions, {own.preset}>"

    @classmethod
    def _of(cls, compiled: _unspoken.SumsCollection) -> SumsCollection:
        collection = cls.__new__(cls)
        collection._compiled = compiled
        return collection


class SumsClient(ServiceClient):
    """A client of a collection at a service: sends contributions, or fetches the sums as its collector.

    The service learns who sends and when, and no value. The collector learns sums only.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    application : str, optional
        The collection, for instance ``"sums/survey"``. Default: the only application of the service.
    fingerprint : str, optional
        Fingerprint of the collection, as its collector tells it: nothing is sent to another one.
        `send` needs it, or `trust_first`; `count` and `fetch` need neither, because the collector's own
        files say which collection it is.
    trust_first : bool
        Send to the collection that the service describes first, and later only to the same. A service
        that puts its own key there reads every number. `False` by default.
    **options
        How to connect: see `ConnectionOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used, or both `fingerprint` and
        `trust_first` are given.

    Examples
    --------
    >>> fingerprint = survey.fingerprint  # of the collector, by another way  # doctest: +SKIP
    >>> with unspoken.SumsClient("http://127.0.0.1:8080", fingerprint=fingerprint) as client:  # doctest: +SKIP
    ...     client.send({"visits": 3, "change": -1})
    """

    _kind = "sums"

    def __init__(
        self,
        url: str,
        application: str | None = None,
        *,
        fingerprint: str | None = None,
        trust_first: bool = False,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        if fingerprint is not None and trust_first:
            raise ConfigurationError("make a client: found fingerprint= and trust_first=True; needed one of them")
        super().__init__(url, application=application, **options)
        self._fingerprint = fingerprint
        self._trust_first = trust_first

    def send(self, values: Mapping[str, npt.ArrayLike]) -> int:
        """Encrypt and send one contribution, or many, and return how many are in the sum now.

        A request that is repeated because its answer was lost counts once. A second call of `send` is
        another contribution. If the call fails after it began to send, the text of the exception says how
        many contributions were acknowledged, and how many others may have been added. With `trust_first`
        the logger ``"unspoken"`` warns once which collection it is, before anything is sent.

        Parameters
        ----------
        values : dict of str to int or array_like
            A value for each column: an integer for one contribution; for many, arrays of one length.
            Many are encrypted with encryptions of zero that a thread makes in memory.

        Raises
        ------
        SumsError
            If a column is missing or unknown, or a value is out of range; nothing was sent.
        ExactError
            If a value is 2**63 or more; nothing was sent.
        RefusedError
            If the collection is closed or full.
        MismatchError
            If the service offers another collection than `fingerprint` names, or than before.
        ConfigurationError
            If the client has neither a `fingerprint` nor `trust_first`; nothing was sent.

        Examples
        --------
        >>> client.send({"visits": 3, "change": -1})  # doctest: +SKIP
        >>> client.send({"visits": [3, 0], "change": [1, 1]})  # doctest: +SKIP
        """
        with self._use_connection() as connection:
            rows = _rows(list(_columns(connection.facts()["columns"])), values)
            try:
                return int(connection.ask(rows, None, self._progress)[0])
            except UnspokenError as error:
                refused = isinstance(error, RefusedError) and error.code == "not_allowed"
                error.args = (
                    str(error) + _unfinished(*connection.facts()["sending"], refused=refused),
                    *error.args[1:],
                )
                if isinstance(error, RefusedError):
                    error.message = error.args[0]
                raise

    def count(self, collection: SumsCollection) -> int:
        """Return how many contributions a collection has; for its collector. Changes nothing.

        Raises
        ------
        MismatchError
            If the service offers another collection.

        Examples
        --------
        >>> client.count(survey)  # doctest: +SKIP
        """
        own = collection._compiled
        return own.count(self._service, self._application, self._state_dir, self._progress)

    def fetch(self, collection: SumsCollection) -> Sums:
        """Close a collection and return its sums; for its collector.

        The service adds nothing after that: two sums would tell what came between. Later calls return
        the same sums.

        Raises
        ------
        RefusedError
            If there are too few contributions.
        SumsError
            If contributions in range cannot give these sums.
        MismatchError
            If the service offers another collection.

        Examples
        --------
        >>> client.fetch(survey).means["visits"]  # doctest: +SKIP
        """
        own = collection._compiled
        contributions, columns = own.fetch(self._service, self._application, self._state_dir, self._progress)
        sums = {name: total for name, total, _ in columns}
        return Sums(contributions, sums, {name: mean for name, _, mean in columns})

    @property
    def columns(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest value of one contribution, by column. Connects, if necessary."""
        with self._use_connection() as connection:
            return _columns(connection.facts()["columns"])

    def _open(self) -> _unspoken.Connection:
        """Register this client with the service."""
        if self._fingerprint is None and not self._trust_first:
            raise ConfigurationError(
                "send: found no fingerprint=; needed the one that the collector tells (SumsCollection.fingerprint), "
                "not the service: one that describes a collection with a key of its own could read every number. "
                "trust_first=True takes the service's word"
            )
        connection = super()._open()
        if self._trust_first:
            fingerprint = connection.facts()["fingerprint"]
            _LOGGER.warning("collection %s, on the word of the service (trust_first=True)", fingerprint)
        return connection

    def _part(self) -> str | None:
        """Return the fingerprint of the collection, if the caller knows it."""
        return self._fingerprint


def _columns(columns: list[tuple[str, int, int]]) -> dict[str, tuple[int, int]]:
    return {name: (smallest, largest) for name, smallest, largest in columns}


def _unfinished(acknowledged: int, sent: int, *, refused: bool = False) -> str:
    """Return what became of contributions when sending failed: text to append to the error's.

    A request that the collection itself `refused` added nothing.

    Examples
    --------
    >>> _unfinished(16, 64)[:72]
    '; 16 contributions were acknowledged, and up to 48 others may have been '
    >>> _unfinished(16, 64, refused=True)
    '; 16 contributions were acknowledged, and no other was added'
    >>> _unfinished(0, 0)
    ''
    """
    if not sent:
        return ""
    if refused:
        return f"; {acknowledged} contributions were acknowledged, and no other was added"
    others = f"up to {sent - acknowledged} others may have been added: sending them again counts them again"
    return f"; {acknowledged} contributions were acknowledged, and {others}"


def _rows(columns: list[str], values: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.int64]:
    """Return contributions of shape (contributions, columns).

    Examples
    --------
    >>> _rows(["a", "b"], {"b": 2, "a": 1})
    array([[1, 2]])
    """
    missing = [name for name in columns if name not in values]
    unknown = [name for name in values if name not in columns]
    if missing or unknown:
        raise SumsError(f"send: found columns {', '.join(values)}; needed {', '.join(columns)}")
    arrays = [np.atleast_1d(np.asarray(unmasked(values[name], name, SumsError))) for name in columns]
    for name, array in zip(columns, arrays):
        if array.dtype.kind not in "iub":
            raise ArgumentError(f"send: found entries of {array.dtype} in {name}; needed integers")
        if array.ndim != 1 or array.size != arrays[0].size:
            raise SumsError(f"send: found {name} of shape {array.shape}; needed ({arrays[0].size},), as {columns[0]}")
    return np.ascontiguousarray(np.stack([_integers(array) for array in arrays], axis=1))

"""Lookup of embeddings without revealing the tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import PreparingClient, ServiceOptions
from unspoken._table import CompressedTable, codes_of
from unspoken._texts import text_list

if TYPE_CHECKING:
    from typing_extensions import Unpack


class EmbeddingClient(PreparingClient):
    """A client of one embedding table of a service. The service sees neither tokens nor embeddings.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    table : path or CompressedTable
        A directory with the client half of a compressed table (``client.json`` and
        ``client.safetensors``), or a table of `compress`.
    **options
        As for `ClassifyClient`: see `ServiceOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token or the certificates cannot be used.
    ModelError
        If `table` is not a table.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.EmbeddingClient("http://127.0.0.1:8080", table="glove") as client:  # doctest: +SKIP
    ...     embeddings = client.embed(["a", "good", "film"])
    ...     print(embeddings.shape, client.usage.query_bytes)
    """

    _kind = "embed"

    def __init__(
        self, url: str, *, table: str | PathLike[str] | CompressedTable, **options: Unpack[ServiceOptions]
    ) -> None:
        super().__init__(url, **options)
        self._codes = codes_of(table)

    def embed(self, tokens: Iterable[str]) -> npt.NDArray[np.float64]:
        """Look up tokens without revealing them.

        Parameters
        ----------
        tokens : iterable of str
            Any number, with or without repetition; they are sent in batches of the
            service's size, each padded to it. A token not in the table uses the row ``<unk>``,
            ``[UNK]`` or ``<UNK>`` if there is one.

        Returns
        -------
        ndarray of float64, shape (tokens, width)
            The values of `CompressedTable.reconstruct` plus the noise of the encryption: do not
            publish these numbers.

        Raises
        ------
        UnknownTokenError
            If a token is not in the table, which has no row for unknown ones. A `KeyError`;
            nothing was sent.
        KeysExpiredError
            If the service no longer has the keys; the next call makes new ones.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> client.embed(["good", "film"]).mean(axis=0)  # doctest: +SKIP
        """
        embeddings: npt.NDArray[np.float64]
        embeddings, _ = self._answered(self._codes.ids(text_list(tokens, "tokens")))
        return embeddings

    @property
    def tokens(self) -> list[str]:
        """The tokens that can be looked up, in the order of the table's rows."""
        return self._codes.tokens

    def _listed(self, _connection: _unspoken.Connection, questions: Sequence[Any]) -> Sequence[Any]:
        """Return the rows of tokens."""
        return self._codes.ids(text_list(questions, "tokens"))

    def _joined(self, _connection: _unspoken.Connection, _questions: Sequence[Any], read: list[Any]) -> Any:
        """Return embeddings."""
        return np.concatenate(read)

    def _part(self) -> _unspoken.Codes:
        """Return the client half of the table."""
        return self._codes

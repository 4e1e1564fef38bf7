"""Finding documents by meaning without revealing what is looked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._client_base import ConnectionOptions, ServiceClient
from unspoken._search_queries import Embed, Embedder, Found, Query, check_width, count, found_documents

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SearchClient(ServiceClient):
    """A client of one collection of a service: it finds the documents nearest to a query.

    The service sees neither the query, nor the scores, nor which documents are found and fetched. It sees that a
    question is asked, and how many documents are fetched: `k`, or all if the collection has fewer.

    Parameters
    ----------
    url : str
        ``https://host:port``, or ``http://`` for a service on this machine.
    application : str, optional
        The collection, for instance ``"search/notes"``. Default: the only one of the service.
    embed : callable, optional
        What makes vectors of texts: it gets a list of `str` and returns an array of shape (n, width), or n lists. It
        must be what embedded the documents. ``model.encode`` of sentence-transformers and model2vec and
        ``embeddings.embed_documents`` of LangChain are such callables, and so is `unspoken.embedders.minilm`'s result.
        It runs in this process; a callable that sends texts to another service shows them to that service.
    embedder : str, optional
        Name of what `embed` makes. Default: the attribute `name` of `embed`, if it has one. If the service knows
        another name for the vectors of its documents, nothing is asked.
    **options
        How to connect, where keys are stored: see `ConnectionOptions`.

    Raises
    ------
    ConfigurationError
        If the address, the token, the certificates, `embed` or `embedder` cannot be used.

    Examples
    --------
    >>> import unspoken
    >>> with unspoken.SearchClient("http://127.0.0.1:8080", embed=model.encode) as client:  # doctest: +SKIP
    ...     for found in client.search("How long does bread bake?", k=3):
    ...         print(found.cosine, found.text)
    """

    _kind = "search"

    def __init__(
        self,
        url: str,
        application: str | None = None,
        *,
        embed: Embed | None = None,
        embedder: str | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(url, application=application, **options)
        self._embedder = Embedder(embed, embedder)

    def search(self, query: Query, k: int = 10) -> list[Found]:
        """Find the documents nearest to a query, and fetch them.

        Parameters
        ----------
        query : str or array_like
            A text, if the client has `embed`, or a vector of shape (width,), of any length but zero.
        k : int
            Number of documents to find. The service learns it.

        Returns
        -------
        list of Found
            The nearest first; fewer than `k` if the clusters that are asked have fewer documents.

        Raises
        ------
        ArgumentError
            If the vector has another width than the collection, coordinates that are not finite, or only zeros, or
            `k` is less than 1. A `ValueError`; nothing is asked.
        ConfigurationError
            If the query is a text and the client has no `embed`.
        MismatchError
            If the documents of the service are embedded by something else than the queries.
        UnreadableAnswerError
            If an answer was decrypted and is none of an honest service. Do not ask again because of it.
        UnspokenError
            As for `connect`.

        Examples
        --------
        >>> client.search("How long does bread bake?", k=3)[0].text  # doctest: +SKIP
        """
        number = count(k)
        return self._found(self._embedder.query(query), number)[0]

    def search_many(self, queries: Iterable[Query], k: int = 10) -> list[list[Found]]:
        """Find the documents nearest to each of several queries, and fetch them.

        Parameters
        ----------
        queries : iterable of str, iterable of array_like, or array_like
            Several texts, if the client has `embed`, or several vectors, for instance the rows of an array. The
            service learns how many they are.
        k : int
            Number of documents for each query.

        Returns
        -------
        list of list of Found
            As `search`, in the order of the queries.

        Raises
        ------
        UnspokenError
            As for `search`.

        Examples
        --------
        >>> client.search_many(["How long does bread bake?", "When is it done?"], k=3)  # doctest: +SKIP
        """
        number = count(k)
        rows = self._embedder.queries(queries)
        return [] if rows is None else self._found(rows, number)

    @property
    def embedder(self) -> str | None:
        """The name of what embedded the documents; `None` if the service does not know it. Connects on first use."""
        return str(self._facts()["embedder"]) or None

    @property
    def width(self) -> int:
        """Number of coordinates of a vector. Connects as `embedder` does."""
        return int(self._facts()["width"])

    @property
    def documents(self) -> int:
        """Number of documents of the collection, when this client connected. Connects as `embedder` does."""
        return int(self._facts()["documents"])

    @property
    def error(self) -> float:
        """Predicted standard deviation of the error of a cosine. Connects as `embedder` does."""
        return float(self._facts()["error"])

    def _facts(self) -> dict[str, Any]:
        with self._use_connection() as connection:
            return connection.facts()

    def _open(self) -> _unspoken.Connection:
        """Open the connection, and refuse a collection whose vectors are none of this client's queries."""
        connection = super()._open()
        self._embedder.check(connection.facts()["embedder"], f"{connection.application} at {self._url}")
        return connection

    def _found(self, rows: npt.NDArray[np.float32], k: int) -> list[list[Found]]:
        with self._use_connection() as connection:
            check_width(rows, connection.facts()["width"], "the collection of the service", "search")
            answers, _ = connection.ask((rows, k), None, self._progress)
        return [found_documents(hits) for hits in answers]

"""A retriever for LlamaIndex that looks documents up privately. Needs ``pip install "unspoken[llama-index]"``.

Callbacks and tracing of LlamaIndex see queries and documents: with tracing to another service, they are not private.

Examples
--------
>>> import unspoken, unspoken.llama_index
>>> client = unspoken.SearchClient("http://127.0.0.1:8080", embed=model.encode)  # doctest: +SKIP
>>> retriever = unspoken.llama_index.UnspokenRetriever(client, k=4)  # doctest: +SKIP
>>> retriever.retrieve("How long does bread bake?")[0].text  # doctest: +SKIP
"""

from __future__ import annotations

from functools import partial
from typing import Any

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise ImportError('unspoken.llama_index needs llama-index-core: pip install "unspoken[llama-index]"') from error

from unspoken._search_client import SearchClient
from unspoken._search_queries import Found, Query, count
from unspoken.aio import _AsyncClient

__all__ = ["UnspokenRetriever"]


class UnspokenRetriever(BaseRetriever):
    """A retriever of LlamaIndex whose service sees neither queries nor documents that are found.

    Parameters
    ----------
    client : SearchClient
        A client. If it has `embed`, that makes the vector of a query, the mean if a query has several texts to embed;
        otherwise a query must have its `embedding`. Calls of one client wait for each other.
    k : int
        Number of documents of an answer.
    **options
        As for ``llama_index.core.retrievers.BaseRetriever``.

    Notes
    -----
    The score of a node is the cosine. Its metadata has ``cosine``, ``id`` and ``position`` of `Found`; the id is a
    text, or `None`. Cancelling an asynchronous call ends its work.

    Examples
    --------
    >>> retriever = unspoken.llama_index.UnspokenRetriever(client)  # doctest: +SKIP
    >>> nodes = await retriever.aretrieve("How long does bread bake?")  # doctest: +SKIP
    """

    def __init__(self, client: SearchClient, k: int = 10, **options: Any) -> None:
        super().__init__(**options)
        self._client = client
        self._k = count(k)
        self._asynchronous = _AsyncClient(client)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(found) for found in self._search(query_bundle)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = await self._asynchronous._run(partial(self._search, query_bundle))
        return [_node(found) for found in hits]

    def _search(self, bundle: QueryBundle) -> list[Found]:
        return self._client.search(self._query(bundle), self._k)

    def _query(self, bundle: QueryBundle) -> Query:
        embedder = self._client._embedder
        # A retriever with another model may have left its own embedding in the bundle.
        if embedder.embed is None and bundle.embedding is not None:
            return bundle.embedding
        texts = bundle.embedding_strs or [bundle.query_str]
        return texts[0] if len(texts) == 1 else embedder.rows(texts, "search").mean(axis=0)


def _node(found: Found) -> NodeWithScore:
    key = found._id_text()
    node = TextNode(
        text=found.text,
        metadata={"cosine": found.cosine, "id": key, "position": found.position},
        excluded_embed_metadata_keys=["cosine", "id", "position"],
        excluded_llm_metadata_keys=["cosine", "position"],
    )
    if key is not None:
        node.id_ = key
    return NodeWithScore(node=node, score=found.cosine)

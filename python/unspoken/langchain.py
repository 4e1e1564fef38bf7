"""A retriever for LangChain that looks documents up privately. Needs ``pip install "unspoken[langchain]"``.

Callbacks and tracing of LangChain see queries and documents: with tracing to another service, they are not private.

Examples
--------
>>> import unspoken, unspoken.langchain
>>> client = unspoken.SearchClient("http://127.0.0.1:8080", embed=embeddings.embed_documents)  # doctest: +SKIP
>>> retriever = unspoken.langchain.UnspokenRetriever(client=client, k=4)  # doctest: +SKIP
>>> retriever.invoke("How long does bread bake?")[0].page_content  # doctest: +SKIP
"""

from __future__ import annotations

from functools import partial
from typing import Any

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise ImportError('unspoken.langchain needs langchain-core: pip install "unspoken[langchain]"') from error

from pydantic import Field, PrivateAttr

from unspoken._search_client import SearchClient
from unspoken._search_queries import Found
from unspoken.aio import _AsyncClient

__all__ = ["UnspokenRetriever"]


class UnspokenRetriever(BaseRetriever):
    """A retriever of LangChain whose service sees neither queries nor documents that are found.

    Parameters
    ----------
    client : SearchClient
        A client with `embed`. Calls of one client wait for each other.
    k : int
        Number of documents of an answer; 10 by default.

    Notes
    -----
    A document has the metadata ``cosine``, ``id`` and ``position`` of `Found`; the id is a text, or `None`.
    Cancelling an asynchronous call ends its work.

    Examples
    --------
    >>> retriever = unspoken.langchain.UnspokenRetriever(client=client)  # doctest: +SKIP
    >>> documents = await retriever.ainvoke("How long does bread bake?")  # doctest: +SKIP
    """

    client: SearchClient
    k: int = Field(default=10, ge=1)

    _asynchronous: Any = PrivateAttr(default=None)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
    ) -> list[Document]:
        return [_document(found) for found in self.client.search(query, self.k)]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
    ) -> list[Document]:
        if self._asynchronous is None:
            self._asynchronous = _AsyncClient(self.client)
        hits: list[Found] = await self._asynchronous._run(partial(self.client.search, query, self.k))
        return [_document(found) for found in hits]


def _document(found: Found) -> Document:
    metadata = {"cosine": found.cosine, "id": found._id_text(), "position": found.position}
    return Document(page_content=found.text, metadata=metadata, id=found._id_text())

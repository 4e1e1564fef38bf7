"""Retrievers of LangChain and LlamaIndex, with the real packages."""

from __future__ import annotations

import asyncio
import importlib
import sys

import pytest
from conftest import embed_notes, note_vectors

import unspoken

# Of these packages; older interpreters cannot have the retrievers.
OLDEST_FOR_RETRIEVERS = (3, 10)

pytestmark = pytest.mark.skipif(
    sys.version_info < OLDEST_FOR_RETRIEVERS, reason="LangChain and LlamaIndex need a newer Python"
)


@pytest.fixture
def client(search_service, state):
    with unspoken.SearchClient(
        search_service.url, "search/notes", embed=embed_notes, state_dir=state, progress=False
    ) as client:
        yield client


def test_langchain_retrieves_documents(client):
    from langchain_core.retrievers import BaseRetriever

    from unspoken.langchain import UnspokenRetriever

    retriever = UnspokenRetriever(client=client, k=3)
    assert isinstance(retriever, BaseRetriever)
    documents = retriever.invoke("note 7")
    assert [len(documents), documents[0].id] == [3, "N007"]
    assert documents[0].page_content == "t" * 7 + " note 7"
    assert documents[0].metadata["id"] == "N007"
    assert documents[0].metadata["cosine"] == pytest.approx(1, abs=0.02)
    assert isinstance(documents[0].metadata["position"], int)
    assert UnspokenRetriever(client=client).k == 10
    # As a step of a chain.
    assert (retriever | len).invoke("note 8") == 3

    async def both():
        return await asyncio.gather(retriever.ainvoke("note 7"), retriever.ainvoke("note 9"))

    first, second = asyncio.run(both())
    assert [document.id for document in first] == [document.id for document in documents]
    assert second[0].id == "N009"
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        UnspokenRetriever(client=client, k=0)


def test_llama_index_retrieves_nodes(client):
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import MetadataMode, QueryBundle

    from unspoken.llama_index import UnspokenRetriever

    retriever = UnspokenRetriever(client, k=3)
    assert isinstance(retriever, BaseRetriever)
    nodes = retriever.retrieve("note 7")
    assert [len(nodes), nodes[0].node.id_] == [3, "N007"]
    assert nodes[0].text == "t" * 7 + " note 7"
    assert nodes[0].score == nodes[0].metadata["cosine"] == pytest.approx(1, abs=0.02)
    # A language model is shown the id, and no numbers.
    shown = nodes[0].node.get_content(MetadataMode.LLM)
    assert "N007" in shown
    assert "cosine" not in shown

    async def both():
        return await asyncio.gather(retriever.aretrieve("note 7"), retriever.aretrieve("note 9"))

    first, second = asyncio.run(both())
    assert [node.node.id_ for node in first] == [node.node.id_ for node in nodes]
    assert second[0].node.id_ == "N009"
    # Texts to embed in the place of the query, as HyDE has them; and an embedding that another retriever left there.
    bundle = QueryBundle("a question", custom_embedding_strs=["note 4", "note 5"], embedding=note_vectors()[9].tolist())
    middle = note_vectors()[4:6].mean(axis=0)
    expected = [found.id.decode() for found in client.search(middle, k=3)]
    assert [node.node.id_ for node in UnspokenRetriever(client, k=3).retrieve(bundle)] == expected
    for k in (0, "3"):
        with pytest.raises(unspoken.ArgumentError):
            UnspokenRetriever(client, k)


def test_llama_index_takes_the_embedding_of_a_query(search_service, state):
    from llama_index.core.schema import QueryBundle

    from unspoken.llama_index import UnspokenRetriever

    options = {"state_dir": state, "progress": False}
    with unspoken.SearchClient(search_service.url, "search/notes", **options) as client:
        bundle = QueryBundle("a question", embedding=note_vectors()[9].tolist())
        assert UnspokenRetriever(client, k=1).retrieve(bundle)[0].node.id_ == "N009"
        with pytest.raises(unspoken.ConfigurationError, match="no embed"):
            UnspokenRetriever(client, k=1).retrieve("note 9")


@pytest.mark.parametrize(
    ("module", "package", "said"),
    [
        ("unspoken.langchain", "langchain_core", r'needs langchain-core: pip install "unspoken\[langchain\]"'),
        ("unspoken.llama_index", "llama_index", r'needs llama-index-core: pip install "unspoken\[llama-index\]"'),
    ],
)
def test_a_missing_package_is_named(monkeypatch, module, package, said):
    for name in [name for name in sys.modules if name == module or name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=said):
        importlib.import_module(module)


def test_ids_that_are_no_text_are_escaped():
    assert unspoken.Found(b"a", 0.5, 1, b"\xff1")._id_text() == "\\xff1"

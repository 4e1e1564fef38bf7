"""Collections for private search on disk: building, searching in the clear, changing."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import NOTES, embed_notes, note_vectors

import unspoken
from unspoken import SearchIndex

TEXTS = [f"note {i}" for i in range(NOTES)]


def built(directory: Path, documents=TEXTS, vectors=None, **options) -> SearchIndex:
    vectors = note_vectors() if vectors is None and "embed" not in options else vectors
    return SearchIndex.build(directory, documents, vectors, progress=False, **options)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> SearchIndex:
    return built(tmp_path_factory.mktemp("index") / "notes", embed=embed_notes, ids=range(NOTES))


def test_a_collection_is_built_and_searched(index):
    assert (len(index), index.directory.name) == (NOTES, "notes")
    info = index.info()
    assert (info.documents, info.width, info.embedder) == (NOTES, 16, "notes-16")
    assert (info.removed, info.positions >= NOTES, info.preset[:3]) == (0, True, "n11")
    assert 0.9 <= info.recall <= 1
    assert 1 <= info.asked <= info.blocks
    assert min(info.groups, info.memory_bytes, info.query_bytes, info.answer_bytes, info.core_seconds) > 0
    assert pickle.loads(pickle.dumps(info)) == info
    assert repr(index).endswith("notes: 300 documents of 16 coordinates>")
    found = index.search("note 42", k=3)
    assert (found[0].id, found[0].text, len(found)) == (b"42", "note 42", 3)
    assert found[0].cosine == pytest.approx(1, abs=0.02)
    assert pickle.loads(pickle.dumps(found)) == found
    many = index.search_many(note_vectors()[:7], k=1)
    assert [hits[0].id for hits in many] == [str(i).encode() for i in range(7)]
    assert index.search_many([]) == []


def test_an_opened_collection_finds_the_same(index):
    again = SearchIndex.open(index.directory)
    assert again.search(note_vectors()[42], k=5) == index.search("note 42", k=5)
    assert again.info() == index.info()
    assert again.info().embedder == "notes-16"
    with pytest.raises(unspoken.ConfigurationError, match="found texts and no embed"):
        again.search("note 42")
    with pytest.raises(unspoken.ArgumentError, match="15 coordinates, needed 16"):
        again.search(np.ones(15))
    with pytest.raises(unspoken.MismatchError, match=r"'notes-16'.*'other'"):
        SearchIndex.open(index.directory, embedder="other")
    with pytest.raises(unspoken.DatabaseError):
        SearchIndex.open(index.directory.parent / "absent")


def test_ids_are_text_bytes_or_integers(tmp_path):
    index = built(tmp_path / "notes", ["a", b"b", "c"], np.eye(3), ids=["é", b"\xff", np.int64(7)])
    found = {hit.document: hit.id for hit in index.search([1, 2, 3], k=3)}
    assert found == {b"a": "é".encode(), b"b": b"\xff", b"c": b"7"}
    assert built(tmp_path / "plain", ["a"], [[1, 2]]).search([1, 2])[0].id is None


@pytest.mark.parametrize(
    ("documents", "options", "said"),
    [
        ("one text", {}, "needed several documents"),
        ({"a": "text"}, {}, "found a dict, needed a list; pass its values, and its keys as ids="),
        ([5], {}, "document 0: found a document of type int"),
        (["half \udc80"], {}, "surrogate"),
        (["a", "b"], {}, "found 1 vectors and 2 documents"),
        (["a"], {"ids": ["x", "y"]}, "found 2 ids and 1 documents"),
        (["a"], {"ids": "x"}, "needed several ids"),
        (["a"], {"ids": [""]}, "id 0: found an empty key"),
        (["a"], {"ids": [1.5]}, "id 0: found an id of type float, needed str, bytes or int"),
        (["a"], {"ids": [True]}, "type bool"),
        (["a"], {"ids": [np.array([1, 2])]}, "type ndarray"),
        (["a"], {"ids": [None]}, "type NoneType"),
        (["a", "b"], {"ids": ["1", 1], "vectors": [[1], [2]]}, "found the id b'1' at documents 0 and 1"),
        (["a"], {"vectors": [[0, 0]]}, "only zeros in row 0 of vectors"),
        (["a", "b"], {"vectors": [[1, 0], [np.nan, 0]]}, "NaN, infinite or beyond float32 in row 1"),
        (["a"], {"vectors": [1, 2]}, r"shape \(2,\)"),
        ([b"\xff"], {"vectors": None, "embed": embed_notes}, "document 0: found a byte that is not UTF-8 at 0"),
    ],
)
def test_documents_that_do_not_fit_are_refused(tmp_path, documents, options, said):
    options = {"vectors": [[1, 2]], **options}
    with pytest.raises(unspoken.ArgumentError, match=said):
        SearchIndex.build(tmp_path / "notes", documents, progress=False, **options)
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recall": 0}, "recall=0; needed above 0"),
        ({"recall": 1.1}, "recall=1.1"),
        ({"recall": "high"}, "recall='high'"),
        ({"link": -1}, "link=-1"),
        ({"link": float("nan")}, "link=nan"),
        ({"memory": 0}, "memory=0"),
        ({"memory": 1.5}, "memory=1.5"),
        ({"longest": -1}, "longest=-1; needed a number of bytes, from 0"),
        ({"embed": 5}, "needed a callable"),
        ({"vectors": None}, "neither vectors nor embed"),
    ],
)
def test_options_are_checked(tmp_path, options, said):
    with pytest.raises(unspoken.ConfigurationError, match=said):
        SearchIndex.build(tmp_path / "notes", ["a"], **{"vectors": [[1, 2]], "progress": False, **options})


def test_collections_are_replaced_on_request_only(tmp_path):
    built(tmp_path / "notes", ["a"], [[1, 2]])
    with pytest.raises(unspoken.DatabaseError, match="replace=True"):
        built(tmp_path / "notes", ["b"], [[1, 2]])
    with pytest.raises(unspoken.DatabaseError, match="found no documents"):
        built(tmp_path / "notes", [], np.empty((0, 2)), replace=True)
    assert built(tmp_path / "notes", ["b", "c"], [[1, 2], [3, 1]], replace=True).search([1, 2])[0].text == "b"


def test_queries_stay_with_the_embedder_of_the_collection(tmp_path):
    index = built(tmp_path / "notes", embed=embed_notes)
    built(tmp_path / "notes", TEXTS, note_vectors(), embedder="other-16", replace=True)
    assert index.search("note 7", k=1)[0].text == "note 7"
    for call in (index.refresh, lambda: index.search("note 7")):
        with pytest.raises(unspoken.MismatchError, match=r"'other-16'.*'notes-16'"):
            call()


def test_embedding_shows_progress(tmp_path):
    seen, calls = [], []

    def embed(texts):
        calls.append(len(texts))
        return np.arange(2 * len(texts)).reshape(-1, 2) + 1

    documents = [f"note {i}" for i in range(2500)]
    SearchIndex.build(tmp_path / "notes", documents, embed=embed, progress=seen.append)
    assert calls == [1024, 1024, 452]
    assert [each.done for each in seen if each.stage == "embedding"][-1] == 2500


def test_changes_are_all_made_or_none(tmp_path):
    index = built(tmp_path / "notes", TEXTS[:20], note_vectors()[:20], ids=range(20))
    reader = SearchIndex.open(tmp_path / "notes")
    # One of the first twenty, further from its vector than note 25, which comes.
    with index.edit(progress=False) as change:
        change.put(["note 25", "note 3 again"], note_vectors()[[25, 3]], ids=[25, 3])
        assert change.delete([4, "no such id"]) == 1
        change.put([], ids=[])
        assert len(index) == 20
    assert len(index) == 20
    assert index.search(note_vectors()[25], k=1)[0].text == "note 25"
    assert index.search(note_vectors()[3], k=1)[0].text == "note 3 again"
    assert b"4" not in {found.id for found in index.search(note_vectors()[4], k=20)}
    # Another reader sees the changes when it is told to look.
    assert reader.search(note_vectors()[3], k=1)[0].text == "note 3"
    assert reader.refresh()
    assert not reader.refresh()
    assert reader.search(note_vectors()[3], k=1)[0].text == "note 3 again"

    def fail():
        with index.edit(progress=False) as change:
            change.delete(range(20))
            raise RuntimeError("my own")

    with pytest.raises(RuntimeError, match="my own"):
        fail()
    index.refresh()
    assert len(index) == 20


def test_changes_are_checked(tmp_path):
    index = built(tmp_path / "notes", TEXTS[:20], ids=range(20), embed=embed_notes)
    with index.edit(progress=False) as change:
        change.put(["note 30"], ids=["30"])
        for call, said in (
            (lambda: change.put(["a"], [[1.0, 2.0]]), "put: found vectors of 2 coordinates, needed 16"),
            (lambda: change.put(["a"], np.zeros((1, 16))), "only zeros"),
            (lambda: change.put(["a", "b"], note_vectors()[:2], ids=["x", "x"]), "the id b'x' at documents 0 and 1"),
            (lambda: change.put("a", note_vectors()[:1]), "several documents"),
            (lambda: change.delete("30"), "needed several ids"),
        ):
            with pytest.raises(unspoken.ArgumentError, match=said):
                call()
        with pytest.raises(unspoken.DatabaseLockedError), index.edit():
            pass
    assert index.search("note 30", k=1)[0].id == b"30"
    for call in (lambda: change.delete([1]), lambda: change.put(["note 1"])):
        with pytest.raises(unspoken.DatabaseError, match=r"with index\.edit\(\)"):
            call()
    with pytest.raises(unspoken.DatabaseError, match="begun before"), change:
        pass
    without = SearchIndex.open(tmp_path / "notes")
    with without.edit() as change, pytest.raises(unspoken.ConfigurationError, match="put: found texts and no embed"):
        change.put(["note 1"])

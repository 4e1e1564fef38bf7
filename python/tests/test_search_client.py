"""Searching a collection at a service: what is found, what is refused before anything is asked, and changes."""

from __future__ import annotations

import os
import textwrap
import time

import numpy as np
import pytest
from conftest import NOTES, Child, embed_notes, note_vectors

import unspoken
from unspoken import SearchClient, SearchIndex

NOWHERE = "http://127.0.0.1:9"
# Of coordinates of 8 bits; a cosine of vectors of 16 coordinates has a larger one than of wider vectors.
ERROR = 0.02


def quiet(url, application="search/notes", **options):
    return SearchClient(url, application, progress=False, **options)


def queries(number: int) -> np.ndarray:
    """Vectors near those of the first notes, of other lengths."""
    noise = np.random.default_rng(12).normal(size=(number, 16))
    return 30 * (note_vectors()[:number] + 0.3 * noise)


def cosines(vectors: np.ndarray) -> np.ndarray:
    def directions(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    return directions(np.asarray(vectors)) @ directions(note_vectors()).T


def test_the_nearest_documents_are_found(search_service, tmp_path):
    asked = queries(5)
    exact = cosines(asked)
    with quiet(search_service.url, state_dir=tmp_path) as client:
        answers = client.search_many(asked, k=10)
        assert (client.application, client.width, client.embedder) == ("search/notes", 16, "notes-16")
        assert client.documents >= NOTES
        assert 0 < client.error < ERROR
        used = client.usage
        assert client.search(asked[0], k=1)[0].id == answers[0][0].id
        assert client.search_many([]) == []
        assert client.search_many(np.empty((0, 16))) == []
    for line, hits in zip(exact, answers):
        assert len(hits) == 10
        numbers = [int(found.id[1:]) for found in hits]
        assert len(set(numbers)) == 10
        assert numbers[0] == line.argmax()
        assert [found.text.split()[-1] for found in hits] == [str(number) for number in numbers]
        found = np.array([found.cosine for found in hits])
        assert (np.diff(found) <= 0).all()
        np.testing.assert_allclose(found, line[numbers], atol=ERROR)
        assert line[numbers].min() >= np.sort(line)[-10] - 2 * ERROR
    assert used.messages == 5
    assert min(used.query_bytes, used.answer_bytes) > 1000
    assert min(used.client_seconds, used.server_seconds) > 0


def test_every_question_sends_the_same_bytes(search_service, state):
    with quiet(search_service.url, state_dir=state) as client:
        client.connect()
        sent = []
        for vector in (note_vectors()[0], -note_vectors()[0], np.eye(16)[3]):
            before = client.usage
            client.search(vector, k=4)
            sent.append(
                (client.usage.query_bytes - before.query_bytes, client.usage.answer_bytes - before.answer_bytes)
            )
        assert len(set(sent)) == 1
        cost = client.cost(2)
        assert cost.questions == 2
        assert cost.query_bytes > 0


def test_texts_are_embedded_here(search_service, state):
    seen = []

    def embed(texts):
        seen.append(texts)
        return embed_notes(texts).tolist()

    with quiet(search_service.url, embed=embed, embedder="notes-16", state_dir=state) as client:
        first, second = client.search_many(["where is note 7", "and note 9"], k=1)
        assert (first[0].id, second[0].id) == (b"N007", b"N009")
        assert first[0].text == "t" * 7 + " note 7"
        assert first[0].document == first[0].text.encode()
        assert client.search("note 9", k=1)[0].document == second[0].document
    assert seen == [["where is note 7", "and note 9"], ["note 9"]]


def test_more_may_be_asked_for_than_there_are(search_service, state):
    with quiet(search_service.url, state_dir=state) as client:
        hits = client.search(note_vectors()[3], k=NOTES + 100)
        # All of the blocks of clusters that were asked.
        assert 10 < len(hits) <= client.documents + 1
        assert len({found.position for found in hits}) == len(hits)


def test_the_only_collection_is_found_without_its_name(search_service, state):
    with quiet(search_service.url, None, state_dir=state) as client:
        assert client.search(note_vectors()[5], k=1)[0].id == b"N005"
        assert client.application == "search/notes"


def test_queries_of_another_embedder_are_refused(search_service, state):
    with quiet(search_service.url, embed=embed_notes, embedder="other-16", state_dir=state) as client:
        for call in (client.connect, lambda: client.search("note 7"), lambda: client.search(note_vectors()[0])):
            with pytest.raises(unspoken.MismatchError, match=r"'notes-16' in search/notes at .*needed .*'other-16'"):
                call()
        assert client.usage.messages == 0
    for options in ({}, {"embedder": "notes-16"}, {"embed": embed_notes}, {"embed": lambda texts: embed_notes(texts)}):
        quiet(search_service.url, state_dir=state, **options).connect().close()


def test_vectors_of_another_width_are_refused(search_service, state):
    with quiet(search_service.url, state_dir=state) as client:
        client.connect()
        for width in (1, 15, 17):
            with pytest.raises(ValueError, match=f"found vectors of {width} coordinates, needed 16"):
                client.search(np.ones(width))
        assert client.usage.query_bytes == 0


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ([1.0, np.nan], "NaN, infinite or beyond float32 in row 0"),
        ([1.0, np.inf], "NaN, infinite"),
        ([1.0, 1e39], "beyond float32"),
        ([0.0, 0.0], "found only zeros in row 0 of a query, needed a direction"),
        ([1e-60, 0.0], "only zeros"),
        ([], "needed"),
        (3.0, r"shape \(\), needed \(width,\)"),
        ([[1.0, 2.0]], "use search_many for several"),
        ([[1.0], [1.0, 2.0]], "no array"),
        ([1j, 2], "type complex128, needed real numbers"),
        ([True, False], "type bool"),
        ([None, 1.0], "type object"),
        (b"note 7", "found a query of type bytes"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
        ("half \udc80", "surrogate"),
    ],
)
def test_wrong_queries_are_refused_before_anything_is_asked(query, said, tmp_path):
    with quiet(NOWHERE, embed=embed_notes, state_dir=tmp_path, timeout=0.1) as client:
        with pytest.raises(unspoken.ArgumentError, match=said) as caught:
            client.search(query)
        assert "half" not in str(caught.value).replace("half of a surrogate", "")
        if not isinstance(query, (str, bytes)):
            with pytest.raises(unspoken.ArgumentError):
                client.search_many([query, query])


def test_wrong_arguments_are_refused(tmp_path):
    client = quiet(NOWHERE, state_dir=tmp_path, timeout=0.1)
    assert repr(client).startswith("<SearchClient of http://127.0.0.1:9, application search/notes")
    for k in (0, -1):
        with pytest.raises(unspoken.ArgumentError, match=f"found k={k}, needed 1 or more"):
            client.search([1.0], k)
    for k in (1.5, "2", None):
        with pytest.raises(unspoken.ArgumentError, match="needed an integer"):
            client.search_many([[1.0]], k)
    with pytest.raises(unspoken.ConfigurationError, match="found texts and no embed"):
        client.search("note 7")
    with pytest.raises(unspoken.ArgumentError, match="use search for one"):
        client.search_many("note 7")
    with pytest.raises(unspoken.ArgumentError, match="found 1 texts among 2 queries"):
        client.search_many(["note 7", [1.0, 2.0]])
    with pytest.raises(unspoken.ArgumentError, match=r"shape \(2,\), needed \(n, width\)"):
        client.search_many(np.ones(2))
    with pytest.raises(unspoken.ConfigurationError, match="found str, needed a callable"):
        quiet(NOWHERE, embed="model")
    with pytest.raises(unspoken.ConfigurationError, match="embedder: found int"):
        quiet(NOWHERE, embedder=3)
    for wrong, said in ((lambda _: np.ones((2, 3)), "2 vectors from embed, needed 1"), (lambda _: np.ones(3), "shape")):
        with pytest.raises(unspoken.ArgumentError, match=said):
            quiet(NOWHERE, embed=wrong, timeout=0.1).search("note 7")
    with pytest.raises(unspoken.ConnectionFailedError):
        client.search([1.0, 2.0])


def test_errors_of_embed_stay_as_they_are():
    def fail(_texts):
        raise TypeError("my own")

    with pytest.raises(TypeError, match="my own") as caught:
        quiet(NOWHERE, embed=fail).search("note 7")
    assert not isinstance(caught.value, unspoken.UnspokenError)


def test_a_document_that_is_no_text_has_its_bytes():
    found = unspoken.Found(b"\xff\x00", 0.5, 3)
    assert found.id is None
    with pytest.raises(unspoken.ArgumentError, match="not UTF-8 at 0"):
        _ = found.text


def until(found, seconds: float = 10):
    start = time.monotonic()
    while not found():
        assert time.monotonic() - start < seconds, "the change was not served in time"
        time.sleep(0.1)


def test_changes_are_found_while_serving(search_service, state):
    index = SearchIndex.open(search_service.path, embed=embed_notes)
    vector = np.sign(note_vectors()[0]) * 7
    with quiet(search_service.url, state_dir=state) as client:

        def nearest():
            return client.search(vector, k=1)[0]

        before = nearest().id
        with index.edit(progress=False) as change:
            change.put(["a new note"], [vector], ids=["new"])
        until(lambda: nearest().id == b"new")
        assert nearest().text == "a new note"
        with index.edit(progress=False) as change:
            change.put(["another text"], [vector], ids=["new"])
        until(lambda: nearest().text == "another text")
        with index.edit() as change:
            assert change.delete(["new"]) == 1
        until(lambda: nearest().id == before)


SCRIPT = textwrap.dedent(
    """
    import os, sys, numpy as np, unspoken

    url, state = sys.argv[1:]
    client = unspoken.SearchClient(url, "search/notes", state_dir=state, progress=False)

    def ask():
        return [found.id for found in client.search(np.arange(1, 17), k=3)]

    expected = ask()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ask() == expected else 1)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
    assert ask() == expected
    print("done", flush=True)
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_clients_work_in_children(search_service, state):
    out, error = Child(SCRIPT, search_service.url, state).finish(timeout=60)
    assert out.strip() == "done", error

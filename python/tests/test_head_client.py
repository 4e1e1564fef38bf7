from __future__ import annotations

import json
import shutil
import struct

import numpy as np
import pytest
from conftest import Service

import unspoken
from unspoken import ClassifyClient, LinearHead


@pytest.fixture(scope="session")
def reviews():
    """Texts of six tokens each."""
    rng = np.random.default_rng(3)
    return [" ".join(f"w{i}" for i in rng.integers(0, 99, size=6)) for _ in range(300)]


@pytest.fixture(scope="session")
def labelled(table, reviews):
    """Their labels: the sign of a direction of the mean embedding."""
    means = np.array([table.reconstruct(text.split()).mean(axis=0) for text in reviews])
    return np.where(means @ (np.arange(8) - 3.5) > 0, "up", "down")


@pytest.fixture(scope="session")
def head(table, reviews, labelled):
    return LinearHead(table, max_tokens=16, ridge=0.01).fit(reviews, labelled)


@pytest.fixture(scope="session")
def layer_service(binary, table, head, tmp_path_factory):
    home = tmp_path_factory.mktemp("layer")
    table.save(home / "table")
    head.save(home / "head.safetensors")
    offer = f"classify:classify/direction={home / 'table'},head={home / 'head.safetensors'}"
    running = Service(binary, home / "data", offer).start()
    yield running
    running.stop()


def quiet(url, **options):
    return ClassifyClient(url, progress=False, **options)


def test_a_head_is_a_classifier(table, head, reviews, labelled):
    assert head.score(reviews, labelled) > 0.95
    assert head.training_accuracy_ == head.score(reviews, labelled)
    assert list(head.classes_) == ["down", "up"]
    assert (head.coef_.shape, head.intercept_.shape) == ((2, 8), (2,))
    means = np.array([table.reconstruct(text.split()).mean(axis=0) for text in reviews])
    np.testing.assert_allclose(head.scores(reviews), means @ head.coef_.T + head.intercept_, atol=1e-6)
    np.testing.assert_allclose(head.decision_function(reviews[:3]), np.diff(head.scores(reviews[:3]))[:, 0])
    assert head.get_params()["max_tokens"] == 16
    with pytest.raises(unspoken.NotFittedError):
        LinearHead(table).predict(reviews)


def test_numbers_may_be_labels(table, reviews, labelled):
    numbers = np.where(labelled == "up", 10, 9)
    head = LinearHead(table, ridge=0.01).fit(reviews, numbers)
    assert list(head.classes_) == [9, 10]
    assert head.score(reviews, numbers) > 0.95
    three = np.arange(len(reviews)) % 3
    assert LinearHead(table).fit(reviews, three).scores(reviews[:2]).shape == (2, 3)


def test_a_head_keeps_its_scores_in_a_file(table, head, reviews, tmp_path):
    path = tmp_path / "head.safetensors"
    head.save(path)
    read = LinearHead.load(path, table)
    np.testing.assert_array_equal(read.scores(reviews), head.scores(reviews))
    assert (list(read.classes_), read.max_tokens) == (["down", "up"], 16)
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    assert json.loads(header["__metadata__"]["classes"]) == ["down", "up"]
    assert (header["weight"]["shape"], header["bias"]["shape"]) == ([2, 8], [2])
    other = unspoken.compress(np.eye(4), list("abcd"), columns=4, progress=False)
    with pytest.raises(unspoken.ModelError, match="8 numbers of an embedding, needed 4"):
        LinearHead.load(path, other)
    path.write_bytes(b"nonsense")
    with pytest.raises(unspoken.ModelError, match="a safetensors file"):
        LinearHead.load(path, table)


def test_weights_of_other_programs_become_a_head(table, head, reviews):
    same = LinearHead.from_arrays(table, head.coef_, head.intercept_, head.classes_, max_tokens=16)
    np.testing.assert_array_equal(same.scores(reviews), head.scores(reviews))
    # One row for two classes, as in scikit-learn.
    rows, constants = np.diff(head.coef_, axis=0), np.diff(head.intercept_)
    difference = LinearHead.from_arrays(table, rows, constants, ["down", "up"], max_tokens=16)
    np.testing.assert_allclose(difference.decision_function(reviews), head.decision_function(reviews), atol=1e-9)
    with pytest.raises(unspoken.ModelError, match=r"needed \(2, 8\) and \(2,\)"):
        LinearHead.from_arrays(table, np.ones((2, 7)), np.ones(2), ["a", "b"])
    with pytest.raises(unspoken.ModelError, match="NaN in row 1"):
        LinearHead.from_arrays(table, [[1] * 8, [np.nan] * 8], np.ones(2), ["a", "b"])
    with pytest.raises(unspoken.ModelError, match="1025 names"):
        LinearHead.from_arrays(table, np.ones((1025, 8)), np.ones(1025), [str(i) for i in range(1025)])


def test_impossible_training_is_refused(table):
    with pytest.raises(unspoken.TrainingError, match="1 distinct labels"):
        LinearHead(table).fit(["w1", "w2"], ["a", "a"])
    with pytest.raises(unspoken.TrainingError, match="2 texts and 1 labels"):
        LinearHead(table).fit(["w1", "w2"], ["a"])
    with pytest.raises(unspoken.ModelError, match="max_tokens: 100"):
        LinearHead(table, max_tokens=100).fit(["w1", "w2"], ["a", "b"])
    with pytest.raises(TypeError, match="CompressedTable"):
        LinearHead("table").fit(["w1", "w2"], ["a", "b"])


def test_the_service_has_the_scores_of_the_head(layer_service, state, table, head, reviews):
    asked = [*reviews[:20], "", "zebra w3", "w1"]
    with quiet(layer_service.url, model=table, state_dir=state) as client:
        cost = client.cost(len(asked))
        labels, scores = client.classify(asked)
        assert client.labels == ["down", "up"]
        assert client.application == "classify/direction"
        used = client.usage
    clear = head.scores(asked)
    assert (scores.shape, scores.dtype) == ((23, 2), np.float64)
    assert np.abs(scores - clear).max() < 1e-3
    assert not np.array_equal(scores, clear)
    assert list(labels) == list(head.predict(asked))
    assert (used.messages, cost.questions) == (23, 23)
    assert 0.95 < cost.query_bytes / used.query_bytes < 1.05


def test_the_client_files_are_enough(layer_service, state, table, tmp_path):
    quiet(layer_service.url, model=table, state_dir=state).connect().close()
    for path in layer_service.path.glob("client.*"):
        shutil.copy(path, tmp_path)
    with quiet(layer_service.url, model=tmp_path, state_dir=state) as client:
        labels, scores = client.classify_to_share(["w1 w2", "w3"], bits=8, uncertain=True)
        with pytest.raises(unspoken.UncertainError, match="noise of 40 bits"):
            client.classify_to_share(["w1 w2", "w3"], bits=40)
    assert (labels.shape, scores.shape) == ((2,), (2, 2))


def test_long_texts_are_refused_or_cut(layer_service, state, table, head):
    long = " ".join(f"w{i}" for i in range(17))
    with quiet(layer_service.url, model=table, state_dir=state) as client:
        with pytest.raises(ValueError, match="found 17 tokens in text 2, needed at most 16"):
            client.classify(["w1", long])
        # The service was asked all the same: it must not learn that a text is too long for its bound.
        refused = client.usage.query_bytes
        assert refused > 0
        client.classify(["w1", "w2"])
        assert client.usage.query_bytes == 2 * refused
    with (
        quiet(layer_service.url, model=table, state_dir=state, cut=True) as client,
        pytest.warns(unspoken.TextWarning, match="1 of 1 texts"),
    ):
        _, scores = client.classify([long])
    with pytest.warns(unspoken.TextWarning, match="1 of 1 texts"):
        clear = head.scores([long])
    np.testing.assert_allclose(scores, clear, atol=1e-3)


def test_another_table_or_kind_is_refused(layer_service, state, matrix, table):
    other = unspoken.compress(matrix, table.tokens, columns=8, seed=9, progress=False)
    with pytest.raises(unspoken.MismatchError, match="another compressed table"):
        quiet(layer_service.url, model=other, state_dir=state).connect()
    with pytest.raises(unspoken.MismatchError, match=r"unspoken\.ClassifyClient"):
        unspoken.EmbeddingClient(layer_service.url, table=table, state_dir=state, progress=False).connect()

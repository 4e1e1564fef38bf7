from __future__ import annotations

import shutil

import numpy as np
import pytest

import unspoken
from unspoken import EmbeddingClient


def quiet(url, **options):
    return EmbeddingClient(url, progress=False, **options)


def test_embeds_as_the_table_in_the_clear(embedding_service, state, table):
    tokens = ["w7", "w98", "w7", "zebra", "w0"]
    with quiet(embedding_service.url, table=table, state_dir=state) as client:
        embeddings = client.embed(tokens)
        assert client.application == "embed/words"
        assert client.tokens == table.tokens
        used = client.usage
    clear = table.reconstruct(tokens)
    assert (embeddings.shape, embeddings.dtype) == ((5, 8), np.float64)
    assert np.abs(embeddings - clear).max() < 2.0**-12 * np.abs(clear).max()
    # The embeddings are right and carry noise.
    assert np.abs(clear[0] - clear[1]).max() > 0.1
    assert not np.array_equal(embeddings, clear)
    assert used.messages == 5
    assert min(used.query_bytes, used.answer_bytes) > 1000
    assert min(used.key_seconds, used.client_seconds, used.server_seconds) > 0


def test_the_client_files_are_enough_and_keys_are_made_once(embedding_service, state, table, tmp_path):
    quiet(embedding_service.url, table=table, state_dir=state).connect().close()
    for path in embedding_service.path.glob("client.*"):
        shutil.copy(path, tmp_path)
    with quiet(embedding_service.url, table=tmp_path, state_dir=state) as client:
        assert client.usage == unspoken.Usage()
        assert client.embed(["w1"]).shape == (1, 8)
        assert client.usage.key_bytes == 0
    assert "closed" in repr(client)
    assert repr(client).startswith("<EmbeddingClient of http://127.0.0.1")
    with pytest.raises(unspoken.UnspokenError, match="it is closed"):
        client.embed(["w1"])


def test_any_number_of_tokens(embedding_service, state, table):
    seen = []
    with EmbeddingClient(embedding_service.url, table=table, state_dir=state, progress=seen.append) as client:
        assert client.embed([]).shape == (0, 8)
        assert client.usage.query_bytes == 0
        # More tokens than one query has room for.
        tokens = [f"w{i % 99}" for i in range(5000)]
        embeddings = client.embed(token for token in tokens)
        one = client.usage.query_bytes
        client.embed(["w1"])
        assert client.usage.query_bytes == one + one // 2
    np.testing.assert_allclose(embeddings, table.reconstruct(tokens), atol=1e-3)
    counts = [each.done for each in seen if each.stage == "embedding" and each.total == 5000]
    assert (counts[0], counts[-1], len(counts)) == (0, 5000, 3)


def test_another_table_is_refused(embedding_service, state, matrix, table):
    other = unspoken.compress(matrix, table.tokens, columns=8, seed=9, progress=False)
    with pytest.raises(unspoken.MismatchError, match="table"):
        quiet(embedding_service.url, table=other, state_dir=state).connect()


def test_an_unknown_token_is_named_before_anything_is_sent(matrix, tmp_path):
    table = unspoken.compress(matrix, [f"w{i}" for i in range(100)], columns=8, progress=False)
    client = quiet("http://127.0.0.1:9", table=table, state_dir=tmp_path)
    with pytest.raises(KeyError, match="zebra") as caught:
        client.embed(["w1", "zebra"])
    assert caught.value.token == "zebra"
    assert isinstance(caught.value, unspoken.UnspokenError)


def test_arguments_are_checked(table, tmp_path):
    with pytest.raises(unspoken.ModelError, match="client"):
        quiet("http://127.0.0.1:9", table=tmp_path / "absent")
    with pytest.raises(unspoken.ConfigurationError, match="timeout"):
        quiet("http://127.0.0.1:9", table=table, timeout=-1.0)
    client = quiet("http://127.0.0.1:9", table=table, token="unspoken_secret")
    assert "secret" not in repr(client)
    with pytest.raises(TypeError, match="needed several texts"):
        client.embed("word")


def test_a_classifiers_files_are_no_table(model, tmp_path):
    model.save(tmp_path)
    with pytest.raises(unspoken.ModelError, match="unspoken-embedding-client"):
        quiet("http://127.0.0.1:9", table=tmp_path)

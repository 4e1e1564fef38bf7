from __future__ import annotations

import numpy as np
import pytest

import unspoken
from unspoken import DigitsClient


def quiet(url, **options):
    return DigitsClient(url, progress=False, **options)


def test_recognises_as_the_network_in_the_clear(digits_service, state, network, strokes):
    images = strokes[0][:20]
    seen = []
    with DigitsClient(digits_service.url, state_dir=state, progress=seen.append) as client:
        # More images than one query has room for.
        digits, scores = client.recognise(images)
        assert client.application == "digits/strokes"
        used = client.usage
    np.testing.assert_array_equal(digits, network.predict(images))
    clear = network.scores(images)
    assert (scores.shape, scores.dtype) == ((20, 10), np.float64)
    assert np.abs(scores - clear).max() < 2.0**-8 * np.abs(clear).max()
    # The scores carry noise.
    assert not np.array_equal(scores, clear)
    assert used.messages == 20
    assert min(used.query_bytes, used.answer_bytes) > 1000
    assert min(used.key_seconds, used.client_seconds, used.server_seconds) > 0
    counts = [each.done for each in seen if each.stage == "recognising"]
    assert counts == [0, 16, 20]


def test_keys_are_made_once_and_no_model_is_needed(digits_service, state, strokes):
    quiet(digits_service.url, state_dir=state).connect().close()
    with quiet(digits_service.url, state_dir=state) as client:
        assert client.connect().usage.key_bytes == 0
        digits, scores = client.recognise(strokes[0][:0])
        assert (digits.shape, scores.shape) == ((0,), (0, 10))
        assert client.usage.query_bytes == 0
        client.recognise(strokes[0][:1])
        assert client.usage.key_bytes == 0
    assert repr(client).startswith("<DigitsClient of http://127.0.0.1")
    with pytest.raises(unspoken.UnspokenError, match="it is closed"):
        client.recognise(strokes[0])


def test_noise_that_decides_digits_is_refused(digits_service, state, strokes):
    with quiet(digits_service.url, state_dir=state) as client:
        with pytest.raises(unspoken.UncertainError, match=r"noise of 40 bits may have decided, .* of 3") as refused:
            client.recognise_to_share(strokes[0][:3], bits=40)
        digits, scores = client.recognise_to_share(strokes[0][:3], bits=40, uncertain=True)
    assert refused.value.scores.shape == scores.shape == (3, 10)
    np.testing.assert_array_equal(digits, scores.argmax(axis=1))


def test_other_applications_are_refused(digits_service, embedding_service, state, model, table):
    with pytest.raises(unspoken.MismatchError):
        quiet(embedding_service.url, state_dir=state).connect()
    with pytest.raises(unspoken.MismatchError):
        unspoken.ClassifyClient(digits_service.url, model=model, state_dir=state, progress=False).connect()
    with pytest.raises(unspoken.MismatchError):
        unspoken.EmbeddingClient(digits_service.url, table=table, state_dir=state, progress=False).connect()


def test_images_are_checked_before_anything_is_sent(tmp_path):
    client = quiet("http://127.0.0.1:9", state_dir=tmp_path, timeout=0.1)
    with pytest.raises(ValueError, match="scale and crop"):
        client.recognise(np.zeros((28, 28)))
    with pytest.raises(unspoken.ConfigurationError, match="timeout"):
        quiet("http://127.0.0.1:9", timeout=-1.0)

from __future__ import annotations

import pickle

import numpy as np
import pytest

import unspoken
from unspoken import DigitsNetwork


def test_it_learns_and_tells_scores(network, strokes):
    images, labels = strokes
    scores = network.scores(images)
    assert (scores.shape, scores.dtype) == ((200, 10), np.float64)
    np.testing.assert_array_equal(network.predict(images), scores.argmax(axis=1))
    assert network.score(images, labels) > 0.95
    # One image has the same scores alone as among the others, in either shape.
    np.testing.assert_array_equal(network.scores(images[3:4].reshape(1, 784)), scores[3:4])
    assert network.classes_.tolist() == list(range(10))
    assert network.validation_accuracy_ is None


def test_the_same_seed_gives_the_same_network(strokes):
    images, labels = strokes
    options = {"hidden": 16, "epochs": 2, "validation_share": 0.1, "progress": False}
    one, same, other = (DigitsNetwork(seed=seed, **options).fit(images, labels) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.scores(images), same.scores(images))
    assert np.abs(one.scores(images) - other.scores(images)).max() > 0.01
    assert 0 <= one.validation_accuracy_ <= 1


def test_it_is_saved_loaded_and_pickled(network, strokes, tmp_path):
    images, _ = strokes
    network.save(tmp_path / "network")
    loaded = DigitsNetwork.load(tmp_path / "network")
    for again in (loaded, pickle.loads(pickle.dumps(network))):
        np.testing.assert_array_equal(again.scores(images), network.scores(images))
    assert repr(loaded) == "DigitsNetwork(hidden=16, epochs=40)"
    (tmp_path / "network" / "digits.json").write_text("{}")
    with pytest.raises(unspoken.ModelError):
        DigitsNetwork.load(tmp_path / "network")


def test_a_callable_sees_every_epoch(strokes):
    seen = []
    DigitsNetwork(hidden=16, epochs=3, progress=seen.append).fit(*strokes)
    assert [(each.stage, each.done, each.total) for each in seen] == [("training", done, 3) for done in (1, 2, 3)]
    assert "validation accuracy" in seen[0].note


def test_pixels_are_whole_numbers_whatever_their_kind(network, strokes):
    images = strokes[0][:5]
    scores = network.scores(images)
    for kind in (np.float64, np.int64, np.float32):
        np.testing.assert_array_equal(network.scores(images.astype(kind)), scores)
    for wrong in (images / 255, images.astype(float) - 1, images.astype(int) * 2, np.full((1, 784), np.nan)):
        with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
            network.scores(wrong)
    for wrong in (images > 0, (images > 0).astype(float), np.eye(28)[None]):
        with pytest.raises(ValueError, match=r"found no pixel above 1.*multiply them by 255"):
            network.scores(wrong)
    with pytest.raises(ValueError, match="masked"):
        network.scores(np.ma.array(images, mask=images > 100))
    for shape in ((28, 28), (2, 28, 27), (2, 783), (1, 1, 28, 28)):
        with pytest.raises(ValueError, match="scale and crop"):
            network.scores(np.zeros(shape))


def test_what_cannot_be_trained_is_refused(strokes):
    images, labels = strokes
    for wrong in (labels[:-1], labels + 5, labels.reshape(20, 10), ["a"] * 200):
        with pytest.raises(unspoken.TrainingError):
            DigitsNetwork(progress=False).fit(images, wrong)
    for option in ({"hidden": 7}, {"epochs": 0}, {"rate": 2.0}, {"validation_share": 1.0}, {"validation_share": -0.1}):
        with pytest.raises(unspoken.TrainingError, match=next(iter(option))):
            DigitsNetwork(**option, progress=False).fit(images, labels)
    with pytest.raises(unspoken.NotFittedError, match=r"DigitsNetwork\.load"):
        DigitsNetwork().predict(images)
    with pytest.raises(ValueError, match="widht"):
        DigitsNetwork().set_params(widht=3)

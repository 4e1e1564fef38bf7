from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import HAM, ROOT, SPAM, Child, absent

import unspoken
from unspoken import FastText

SMALL = {"dim": 8, "columns": 16, "progress": False}


def test_learns_a_small_set(model, texts, labels):
    assert model.classes_.tolist() == ["ham", "spam"]
    assert model.predict(texts).tolist() == labels
    assert model.score(texts, labels) == 1.0
    assert model.score(texts, labels[4:] + labels[:4]) == 0.0
    assert model.predict(["free cash", "home at noon"]).tolist() == ["spam", "ham"]
    assert model.validation_accuracy_ == 1.0


def test_scores_and_decisions_have_their_shapes(model, texts):
    scores = model.scores(texts)
    assert scores.shape == (len(texts), 2)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(model.decision_function(texts), scores[:, 1] - scores[:, 0])
    assert model.scores([]).shape == (0, 2)
    assert model.predict([]).shape == (0,)


def test_the_seed_decides(texts, labels, model):
    again = FastText(**SMALL).fit(texts, labels)
    other = FastText(seed=1, **SMALL).fit(texts, labels)
    np.testing.assert_array_equal(again.scores(texts), model.scores(texts))
    assert not np.array_equal(other.scores(texts), model.scores(texts))


def test_numbers_are_labels_too():
    words = ["apple", "banana", "cherry"]
    # Sorted as text, 10 comes before 9.
    model = FastText(**SMALL).fit(words * 20, np.array([10, 9, 100] * 20))
    assert model.classes_.tolist() == [9, 10, 100]
    assert model.classes_.dtype.kind == "i"
    assert model.predict(words).tolist() == [10, 9, 100]
    decisions = model.decision_function(words)
    assert decisions.shape == (3, 3)
    assert decisions.argmax(axis=1).tolist() == [1, 0, 2]


def test_numpy_arrays_are_texts_too(texts, labels, model):
    other = FastText(**SMALL).fit(np.array(texts), np.array(labels, dtype=object))
    np.testing.assert_array_equal(other.scores(np.array(texts)), model.scores(texts))


def test_files_keep_the_model(model, texts, tmp_path):
    model.save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["client.json", "client.safetensors", "server.json", "server.safetensors"]
    loaded = FastText.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.scores(texts), model.scores(texts))
    assert loaded.classes_.tolist() == ["ham", "spam"]
    assert (loaded.dim, loaded.columns) == (8, 16)
    assert loaded.validation_accuracy_ == model.validation_accuracy_


def test_labels_of_a_loaded_model_are_compared_by_their_text(tmp_path):
    texts, labels = ["good", "bad"] * 20, np.array([1, 0] * 20)
    FastText(**SMALL).fit(texts, labels).save(tmp_path)
    loaded = FastText.load(tmp_path)
    assert loaded.classes_.tolist() == ["0", "1"]
    assert loaded.score(texts, labels) == loaded.score(texts, labels.astype(str)) == 1.0
    assert loaded.score(["good", "bad"], [1, 7]) == 0.5
    with pytest.raises(ValueError, match="none is a class of the model"):
        loaded.score(["good"], [7])
    with pytest.raises(ValueError, match="masked"):
        loaded.score(["good"], np.ma.array([1], mask=[True]))


def test_probabilities_are_the_softmax_of_scores(model, texts):
    proba, scores = model.predict_proba(texts), model.scores(texts)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    means = scores / [[len(text.split())] for text in texts]
    np.testing.assert_allclose(np.log(proba[:, 1] / proba[:, 0]), means[:, 1] - means[:, 0], rtol=1e-6)
    # A text twice as long is not twice as sure.
    np.testing.assert_allclose(model.predict_proba(["free free"]), model.predict_proba(["free"]))
    assert model.predict_proba([]).shape == (0, 2)


def test_classes_are_counted_and_weighted():
    # The word says nothing: nine of ten examples decide.
    texts, labels = ["same word"] * 100, np.array([0] * 90 + [1] * 10)
    plain = FastText(validation_share=0, **SMALL).fit(texts, labels)
    assert plain.class_count_.tolist() == [90, 10]
    assert plain.predict(["same word"]).tolist() == [0]
    balanced = FastText(validation_share=0, class_weight="balanced", **SMALL).fit(texts, labels)
    given = FastText(validation_share=0, class_weight={1: 90}, **SMALL).fit(texts, labels)
    assert given.predict(["same word"]).tolist() == [1]
    # So short a training moves them only a little.
    rare = [each.predict_proba(["same word"])[0, 1] for each in (plain, balanced, given)]
    assert rare[0] + 0.02 < rare[1] < rare[2] - 0.02
    for wrong in ({2: 1.0}, {1: 0.0}, {1: -1}, {1: float("nan")}, "even"):
        with pytest.raises(unspoken.TrainingError, match="weight"):
            FastText(class_weight=wrong, **SMALL).fit(texts, labels)


def test_pickles_keep_the_model(texts):
    model = FastText(**SMALL).fit(["good", "bad"] * 20, [True, False] * 20)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.scores(texts), model.scores(texts))
    assert copied.predict(["good"]).tolist() == [True]
    assert repr(pickle.loads(pickle.dumps(FastText(dim=7)))) == "FastText(dim=7)"


def test_options_can_be_read_and_set():
    model = FastText(columns=64)
    assert model.get_params()["columns"] == 64
    assert repr(model.set_params(dim=9)) == "FastText(dim=9, columns=64)"
    with pytest.raises(ValueError, match=r"found \['colums'\], needed some of .*'columns'"):
        model.set_params(colums=3)


def test_damaged_files_are_refused(model, tmp_path):
    model.save(tmp_path)
    weights = tmp_path / "server.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(unspoken.ModelError, match="damaged"):
        FastText.load(tmp_path)
    with pytest.raises(ValueError, match=r"client\.json"):
        FastText.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("options", "texts", "labels", "message"),
    [
        ({}, ["a", "b"], ["x", "x"], "found 1 distinct labels"),
        ({}, ["a", "b"], ["x"], "2 texts and 1 labels"),
        ({}, ["a", "b"], [["x", "y"]], "shape \\(1, 2\\)"),
        ({}, ["a", "b"], [1, None], r"position 1 is a missing one \(None\)"),
        ({}, ["a", "b"], ["x", float("nan")], "position 1 is a missing one"),
        ({}, ["a", "b"], np.array([1.0, np.nan]), "position 1 is a missing one"),
        ({}, ["a", "b"], [b"x", b"y"], "position 0 is bytes"),
        ({}, ["a", "b"], np.array([b"x", b"y"]), "position 0 is .S1"),
        ({}, ["a", "b"], ["x", 1], "position 1 is text beside other kinds"),
        ({}, ["a", "b"], np.ma.array([1, 2], mask=[False, True]), "found masked entries"),
        ({"columns": 7}, ["a", "b"], ["x", "y"], "even"),
        ({"rate": 0.0}, ["a", "b"], ["x", "y"], "found rate = 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(options, texts, labels, message):
    with pytest.raises(unspoken.TrainingError, match=message):
        FastText(**{**SMALL, **options}).fit(texts, labels)


def test_texts_must_be_texts(model):
    with pytest.raises(TypeError, match="found one str, needed several"):
        model.predict("free cash")
    with pytest.raises(TypeError, match="found float at position 1"):
        model.predict(["free cash", float("nan")])


def test_an_unfitted_model_says_so(tmp_path):
    for use in (lambda m: m.predict(["a"]), lambda m: m.save(tmp_path)):
        with pytest.raises(unspoken.NotFittedError, match="call fit"):
            use(FastText())


def test_progress_is_told_each_epoch(texts, labels):
    seen = []
    FastText(dim=4, columns=8, progress=seen.append).fit(texts, labels)
    assert [each.done for each in seen] == list(range(1, 14))
    assert {(each.stage, each.total) for each in seen} == {("training", 13)}
    assert "validation accuracy" in seen[-1].note
    with pytest.raises(TypeError, match="needed True, False or a callable"):
        FastText(progress="loud").fit(texts, labels)


def test_an_exception_of_the_callback_stops_the_work(texts, labels):
    calls = []

    def stop(progress):
        calls.append(progress.done)
        if progress.done == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        FastText(dim=4, columns=8, hard_epochs=10_000, progress=stop).fit(texts, labels)
    assert calls == [1, 2, 3]


def test_other_threads_run_during_training(texts, labels):
    stamps = []
    done = threading.Event()

    def tick():
        while not done.wait(0.002):
            stamps.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    FastText(dim=8, columns=64, hard_epochs=300, progress=False).fit(texts * 32, labels * 32)
    end = time.monotonic()
    done.set()
    thread.join()
    during = [stamp for stamp in stamps if start < stamp < end]
    # If the lock were held throughout, there would be at most a tick at either end.
    assert len(during) > 0.1 * (end - start) / 0.002
    assert len(during) > 3


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_control_c_stops_training():
    script = """
import signal, unspoken
# A shell's background jobs inherit that Control-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def show(progress):
    if progress.done == 1:
        print("ready", flush=True)
model = unspoken.FastText(hard_epochs=10_000, progress=show)
try:
    model.fit(["good day to you", "bad night for him"] * 2000, [1, 0] * 2000)
except KeyboardInterrupt:
    print("interrupted", hasattr(model, "classes_"), flush=True)
"""
    child = Child(script)
    child.wait_for("ready")
    child.process.send_signal(signal.SIGINT)
    out, err = child.finish(timeout=30)
    assert out.split() == ["interrupted", "False"], err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_trains_too():
    script = """
import os, unspoken
fit = lambda: unspoken.FastText(dim=4, columns=8, progress=False).fit(["a", "b"] * 20, [1, 0] * 20)
fit()
child = os.fork()
if child == 0:
    fit()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    out, err = Child(script).finish(timeout=60)
    assert out.strip() == "0", err


def test_works_in_scikit_learn(texts, labels):
    selection = pytest.importorskip("sklearn.model_selection")
    model = FastText(**SMALL)
    scores = selection.cross_val_score(model, texts, labels, cv=4)
    assert scores.tolist() == [1.0] * 4
    areas = selection.cross_val_score(model, texts, labels, cv=2, scoring="roc_auc")
    assert areas.tolist() == [1.0] * 2
    search = selection.GridSearchCV(model, {"columns": [8, 16]}, cv=2).fit(texts, labels)
    assert search.best_params_["columns"] in (8, 16)
    assert search.predict(["free cash"]).tolist() == ["spam"]


def test_learns_the_sms_collection():
    path = ROOT / "data" / "sms" / "spam_collection.tsv"
    if not path.exists():
        absent("no SMS data; run `python3 scripts/fetch_data.py sms` first")
    lines = [line.split("\t", 1) for line in Path(path).read_text().splitlines() if line]
    labels, texts = zip(*lines)
    model = FastText(progress=False).fit(texts[:4000], labels[:4000])
    assert model.score(texts[4000:], labels[4000:]) > 0.96
    assert model.classes_.tolist() == ["ham", "spam"]


def test_each_text_has_its_own_score(model):
    for text in HAM + SPAM:
        np.testing.assert_array_equal(model.scores([text]), model.scores(["noise", text])[1:])

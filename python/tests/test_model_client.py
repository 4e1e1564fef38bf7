"""Models of scikit-learn, torch and ONNX: compiled, served, and asked about rows that the service does not see."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import onnx
import pandas
import pytest
from conftest import ROOT, Child, Service
from onnx import TensorProto, helper, numpy_helper
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVR, LinearSVC

import unspoken
from unspoken import CompiledModel, ModelClient, aio, batches

MODELS = ROOT / "crates/models/onnx/tests/models"


@pytest.fixture(scope="module")
def cancer():
    """Measurements of tumours, and whether they are benign."""
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def logistic(cancer):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(*cancer)


@pytest.fixture(scope="module")
def flowers():
    """Measurements of flowers, and their names."""
    rows, classes = load_iris(return_X_y=True)
    return rows, np.array(["setosa", "versicolor", "virginica"])[classes]


@pytest.fixture(scope="module")
def perceptron(flowers):
    rows, names = flowers
    network = MLPClassifier((6,), solver="lbfgs", random_state=1)
    return make_pipeline(MinMaxScaler(), network).fit(rows, names)


@pytest.fixture(scope="module")
def polynomial(flowers):
    """A support vector machine that predicts the width of petals."""
    rows, _ = flowers
    return make_pipeline(StandardScaler(), SVR(kernel="poly", degree=2, coef0=1.0)).fit(rows[:, :3], rows[:, 3])


def two_and_two(scale=1.0):
    """A model with two inputs and two outputs: `x @ w * y`, and `3 x - 1` of the first number."""
    weights = np.array([[1.0, -2.0], [0.5, 0.25], [-1.0, 1.0]], dtype=np.float32) * scale
    tensors = {"w": weights, "first": np.array([[3.0], [0.0], [0.0]], dtype=np.float32), "one": np.float32([1.0])}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["mixed"], name="mix"),
        helper.make_node("Mul", ["mixed", "y"], ["product"], name="times"),
        helper.make_node("MatMul", ["x", "first"], ["picked"], name="pick"),
        helper.make_node("Sub", ["picked", "one"], ["single"], name="less"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "two",
        [info("x", TensorProto.FLOAT, ["batch", 3]), info("y", TensorProto.FLOAT, ["batch", 2])],
        [info("product", TensorProto.FLOAT, ["batch", 2]), info("single", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def product_with(weights):
    """A model with the input `x` and the output `x @ weights`."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [info("x", TensorProto.FLOAT, ["batch", len(weights)])],
        [info("y", TensorProto.FLOAT, ["batch", weights.shape[1]])],
        [numpy_helper.from_array(weights.astype(np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_models_that_clients_would_not_read_are_refused():
    rng = np.random.default_rng(1)
    size = 70_000
    model = product_with(rng.normal(size=(size, 1)) / size)
    rows = rng.uniform(-1, 1, size=(4, size))
    with pytest.raises(unspoken.ModelError, match=r"found 70001 encrypted elements .* needed at most 1000000 bytes"):
        unspoken.compile(model, rows, batch=1)
    # Elements of the same range need one number.
    alike = np.repeat(rows[:, :1], size, axis=1)
    assert unspoken.compile(model, alike, batch=1).report["description_bytes"] < 1000
    model.graph.input[0].name = model.graph.node[0].input[0] = "x" * 257
    with pytest.raises(unspoken.ModelError, match="found an input with a name of 257 bytes"):
        unspoken.compile(model, alike)


def in_the_clear(inputs):
    weights = np.array([[1.0, -2.0], [0.5, 0.25], [-1.0, 1.0]])
    return {"product": inputs["x"] @ weights * inputs["y"], "single": 3 * inputs["x"][:, :1] - 1}


def two_inputs(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.uniform(-1, 1, size=(rows, 3)), "y": rng.uniform(-1, 1, size=(rows, 2))}


@pytest.fixture(scope="module")
def compiled(cancer, logistic, flowers, perceptron, polynomial):
    """All models of this file, compiled."""
    rows, _ = flowers
    linear = LinearRegression().fit(rows, rows @ [[1.0, 2.0], [0.5, -1.0], [0.0, 1.0], [2.0, 0.0]])
    return {
        "cancer": unspoken.compile(logistic, cancer[0]),
        "flowers": unspoken.compile(perceptron, rows, kink_bits=6),
        "petals": unspoken.compile(polynomial, rows[:, :3], batch=16),
        "linear": unspoken.compile(linear, rows, batch=8),
        "two": unspoken.compile(two_and_two(), two_inputs(200), batch=8),
    }


@pytest.fixture(scope="module")
def service(binary, compiled, tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    for name, model in compiled.items():
        model.save(home / name)
    offers = [f"model:model/{name}={home / name}" for name in compiled]
    running = Service(binary, home / "data", *offers).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def connect(service, home):
    """A client of one of the models; clients share keys."""

    def client(name, **options):
        options = {"state_dir": home, "progress": False, **options}
        return ModelClient(service.url, application=f"model/{name}", **options)

    return client


def test_all_labels_of_a_batch_are_those_in_the_clear(connect, cancer, logistic):
    rows = cancer[0][:128]
    with connect("cancer") as client:
        labels, probabilities = client.predict(rows), client.predict_proba(rows)
        assert np.array_equal(client.classes_, [0, 1])
        assert repr(client).endswith("application model/cancer, connected>")
        assert client.usage.messages == 256
        assert client.cost(1000).queries == 8
    assert labels.dtype == np.int64
    assert np.count_nonzero(labels == logistic.predict(rows)) == 128
    assert probabilities.shape == (128, 2)
    assert np.abs(probabilities - logistic.predict_proba(rows)).max() < 0.01


def test_one_row_and_a_thousand_are_asked(connect, cancer, logistic):
    many = np.concatenate([cancer[0], cancer[0][:431]])
    stages = []
    with connect("cancer", progress=lambda progress: stages.append((progress.stage, progress.total))) as client:
        one, all_of_them = client.predict(many[:1]), client.predict(many)
        bytes_of_one = client.usage.query_bytes / 9
    assert one.shape == (1,)
    assert all_of_them.shape == (1000,)
    assert np.mean(all_of_them == logistic.predict(many)) > 0.995
    assert ("predicting", 1000) in stages
    # Eight queries for a thousand rows, each as long as that of one row.
    with connect("cancer") as client:
        client.predict(many[:1])
        assert client.usage.query_bytes == pytest.approx(bytes_of_one, rel=0.01)


def test_a_perceptron_gives_the_names_of_its_classes(connect, compiled, flowers, perceptron):
    rows, _ = flowers
    report = compiled["flowers"].report
    assert report["functions"][0]["function"] == "Relu"
    assert report["levels"] <= 6
    with connect("flowers") as client:
        labels, outputs = client.predict(rows), client.ask(rows)
        assert list(client.classes_) == ["setosa", "versicolor", "virginica"]
        assert [(each.name, each.gives) for each in client.outputs] == [
            ("label", "labels"),
            ("probabilities", "probabilities"),
        ]
    assert labels.dtype.kind == "U"
    assert np.mean(labels == perceptron.predict(rows)) > 0.98
    assert np.array_equal(outputs["label"], labels)
    # With polynomials and without noise.
    clear = compiled["flowers"].predict_proba(rows)
    assert np.abs(outputs["probabilities"] - clear).max() < 0.01
    assert np.mean(compiled["flowers"].predict(rows) == labels) > 0.99


def test_regressions_give_numbers(connect, compiled, flowers, polynomial):
    rows, _ = flowers
    with connect("petals") as client:
        widths = client.predict(rows[:40, :3])
        assert client.classes_ is None
        with pytest.raises(
            unspoken.ArgumentError, match=r"found the outputs 'variable' \(numbers\), needed one of prob"
        ):
            client.predict_proba(rows[:1, :3])
    assert (widths.shape, widths.dtype) == ((40,), np.float64)
    assert np.abs(widths - polynomial.predict(rows[:40, :3])).max() < 0.02
    with connect("linear") as client:
        both = client.predict(rows[:3])
    assert both.shape == (3, 2)
    assert np.abs(both - compiled["linear"].predict(rows[:3])).max() < 0.05


def test_two_inputs_and_two_outputs(connect, compiled):
    asked = two_inputs(11, seed=4)
    with connect("two") as client:
        found = client.ask(asked)
        assert {name: array.shape for name, array in found.items()} == {"product": (11, 2), "single": (11, 1)}
        with pytest.raises(
            unspoken.ArgumentError, match=r"'product' \(numbers\), 'single' \(numbers\), needed one of l"
        ):
            client.predict(asked)
        for wrong, part in [
            (asked["x"], "found one array, needed a dict with one for each of the inputs"),
            ({"x": asked["x"]}, "found no 'y'"),
            ({**asked, "z": [1]}, "found 'z', needed the inputs"),
            ({"x": asked["x"], "y": asked["y"][:5]}, "found 11 of 'x', 5 of 'y', needed as many of each"),
            (pandas.DataFrame({"x": [1.0], "y": [1.0]}), "needed one for each of the inputs"),
        ]:
            with pytest.raises(unspoken.ArgumentError, match=part):
                client.ask(wrong)
        assert [(each.name, each.shape, each.table_rows) for each in client.inputs] == [
            ("x", (3,), None),
            ("y", (2,), None),
        ]
        assert client.usage.messages == 11, "what cannot be asked is not sent"
    for name, expected in in_the_clear(asked).items():
        assert np.abs(found[name] - expected).max() < 0.01
        assert np.abs(compiled["two"].ask(asked)[name] - expected).max() < 0.01


def test_the_service_cannot_see_rows_outside(connect, flowers):
    rows = flowers[0][:20].copy()
    outside = rows.copy()
    outside[13, 2] = 41.5
    outside[17, 3] = np.nan
    with connect("linear") as client:
        client.connect()
        sent = []
        for asked in (rows, outside):
            before = client.usage
            if asked is rows:
                client.predict(asked)
            else:
                with pytest.raises(unspoken.UnansweredError, match="Do not ask a service again") as caught:
                    client.predict(asked)
                for part in ("found 2 of 20 rows", "row 13, input", "a number outside in element 2", "row 17, input"):
                    assert part in str(caught.value)
                assert "41.5" not in str(caught.value)
                assert "41.5" not in str(caught.value.errors)
            sent.append(client.usage.query_bytes - before.query_bytes)
        assert sent[0] == sent[1] > 0
        masked = np.ma.masked_greater(outside[[0, 13]], 41)
        for missing in (
            [rows[0], [*rows[0][:3], np.nan]],
            [rows[0], [*rows[0][:3], "n/a"]],
            [rows[0], [*rows[0][:3], None]],
            [rows[0], [*rows[0][:3], {}]],
            masked,
            list(masked),
        ):
            before = client.usage.messages
            with pytest.raises(unspoken.ArgumentError, match=r"row 1, .*found no number in element [23]"):
                client.ask(missing, clip=True)
            assert client.usage.messages == before + 2
        # Where warnings are errors, they come after the exchange.
        before = client.usage.messages
        with warnings.catch_warnings():
            warnings.simplefilter("error", unspoken.ClipWarning)
            with pytest.raises(unspoken.ClipWarning):
                client.predict(outside[:14], clip=True)
        assert client.usage.messages == before + 14


def check_answers_to_others(error, answers, complete, missing):
    """An error has the answers to all rows but those that miss one."""
    others = [row for row in range(len(complete)) if row not in missing]
    assert list(error.rows) == others
    assert list(error.errors) == missing
    assert error.errors[missing[0]].startswith('input "X": found ')
    assert (answers.shape, answers.dtype.kind) == (complete[others].shape, complete.dtype.kind)
    if answers.dtype.kind == "f":
        assert np.abs(answers - complete[others]).max() < 0.01
    else:
        assert np.array_equal(answers, complete[others])


def test_a_row_outside_leaves_the_answers_to_the_others(connect, service, home, compiled, flowers, tmp_path):
    rows = flowers[0][:20].copy()
    outside = rows.copy()
    outside[3, 1], outside[17, 0] = np.nan, -1e9
    missing = [3, 17]
    with connect("flowers") as client:
        complete = {"predict": client.predict(rows), "predict_proba": client.predict_proba(rows)}
        before = client.usage
        for method, expected in complete.items():
            with pytest.raises(unspoken.UnansweredError) as caught:
                getattr(client, method)(outside)
            check_answers_to_others(caught.value, caught.value.answers, expected, missing)
        with pytest.raises(unspoken.UnansweredError) as caught:
            client.ask(outside)
        assert list(caught.value.answers) == ["label", "probabilities"]
        check_answers_to_others(caught.value, caught.value.answers["label"], complete["predict"], missing)
        assert client.usage.messages == before.messages + 60
        # None has an answer: arrays of the same types, without rows.
        with pytest.raises(unspoken.UnansweredError, match=r"found 12 of 12 rows .* and 4 more$") as caught:
            client.ask(np.full((12, 4), 1e9))
        labels, probabilities = caught.value.answers.values()
        assert (labels.shape, labels.dtype.kind, probabilities.shape) == ((0,), "U", (0, 3))
        assert len(caught.value.rows) == 0
        # A row that misses a number has no answer where others are moved, which is told as well.
        with pytest.warns(unspoken.ClipWarning), pytest.raises(unspoken.UnansweredError) as caught:
            client.predict(outside, clip=True)
        assert list(caught.value.errors) == [3]
        # Rows are counted over all files of questions.
        many = np.concatenate([rows] * 7 + [outside])
        assert batches.encrypt(client, many, tmp_path / "questions") == 160
        places = {"questions": tmp_path / "questions", "answers": tmp_path / "answers", "keys": service.data / "keys"}
        batches.answer("model", service.path.parent / "flowers", **places, progress=False)
        with pytest.raises(unspoken.UnansweredError) as caught:
            batches.decrypt(client, many, tmp_path / "answers")
        labels = np.concatenate([complete["predict"]] * 8)
        check_answers_to_others(caught.value, caught.value.answers["label"], labels, [143, 157])

    async def ask():
        options = {"application": "model/flowers", "state_dir": home, "progress": False}
        async with aio.ModelClient(service.url, **options) as client:
            for method, expected in complete.items():
                with pytest.raises(unspoken.UnansweredError) as caught:
                    await getattr(client, method)(outside)
                check_answers_to_others(caught.value, caught.value.answers, expected, missing)

    asyncio.run(ask())
    # In the clear as encrypted.
    with pytest.raises(unspoken.UnansweredError) as caught:
        compiled["flowers"].predict(outside)
    check_answers_to_others(caught.value, caught.value.answers, complete["predict"], missing)


def test_rows_that_do_not_fit_are_refused_without_their_values(connect, flowers):
    rows = flowers[0][:20].copy()
    rows[13, 2] = 41.5
    with connect("linear") as client:
        for wrong, part in [
            (rows[:2, :3], r"found an array of shape \(2, 3\), needed \(rows, 4\)"),
            (rows[0], r"found an array of shape \(4,\), needed \(rows, 4\); put one row in a list"),
            (rows[:0], "found 0 of 'X', needed as many of each input, and at least one"),
            (np.array([["2041-05-01"] * 4], dtype="datetime64[D]"), r"found values of type datetime64\[D\]"),
        ]:
            with pytest.raises(unspoken.ArgumentError, match=part) as caught:
                client.predict(wrong)
            assert "2041" not in str(caught.value)
        assert client.usage.messages == 0
        with pytest.warns(unspoken.ClipWarning, match="1 numbers were moved into the calibrated ranges") as warned:
            clipped = client.predict(rows, clip=True)
        assert warned[0].filename == __file__
        rows[13, 2] = client.inputs[0].high[2]
        assert np.abs(client.predict(rows) - clipped).max() < 0.01


def test_data_frames_are_rows(connect, compiled, flowers):
    rows, names = flowers
    columns = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = pandas.DataFrame(rows, columns=columns)
    transformer = ColumnTransformer([("petals", StandardScaler(), columns[2:]), ("width", "passthrough", [columns[1]])])
    pipeline = make_pipeline(transformer, LogisticRegression()).fit(frame, names)
    # The order of the columns of the calibration does not matter: they have names.
    model = unspoken.compile(pipeline, frame[columns[::-1]], batch=256)
    assert np.array_equal(model.predict(frame), pipeline.predict(frame))
    with pytest.raises(unspoken.ArgumentError, match="found no column 'petal width'"):
        unspoken.compile(pipeline, frame[columns[:3]])
    with connect("linear") as client:
        assert np.abs(client.predict(frame[:8]) - compiled["linear"].predict(rows[:8])).max() < 0.05
    # A client knows the names from the calibration, and finds them in any order.
    assert model.inputs[0].elements == tuple(columns)
    mixed = frame[["petal width", "sepal length", "petal length", "sepal width"]].assign(more="text")
    assert np.array_equal(model.predict(mixed), pipeline.predict(frame))
    assert np.array_equal(model.predict(rows), pipeline.predict(frame))
    with pytest.raises(unspoken.ArgumentError, match=r"without \['petal width'\], needed those of the calibration"):
        model.predict(frame[columns[:3]])
    # Names that are no texts are none.
    unnamed = unspoken.compile(product_with(np.ones((2, 1))), pandas.DataFrame(rows[:, :2]), batch=8)
    assert unnamed.inputs[0].elements == ()
    # A model with an input for each column.
    file = MODELS / "input-per-column.onnx"
    named = frame.set_axis([each.name for each in onnx.load(file).graph.input], axis=1)
    model = unspoken.compile(file, named, batch=8)
    assert [each.name for each in model.inputs] == list(named.columns)
    by_order = {name: rows[:, i] for i, name in enumerate(named.columns)}
    assert np.array_equal(model.predict(named[named.columns[::-1]]), model.predict(by_order))


def test_models_outlive_their_process(compiled, tmp_path, cancer):
    model = compiled["cancer"]
    model.save(tmp_path / "model")
    again = CompiledModel.load(tmp_path / "model")
    assert again.report == model.report
    assert repr(again) == repr(model)
    assert repr(again).startswith("<CompiledModel from X to label, probabilities: n1")
    assert np.array_equal(again.predict_proba(cancer[0]), model.predict_proba(cancer[0]))
    table = compiled["flowers"].explain().split("\n\n")[1].split()
    assert (table[:3], table[7]) == (["function", "degree", "levels"], "Relu")
    assert "\n\n" not in model.explain(), "there is no function"
    (tmp_path / "model" / "model.json").write_text("{}")
    with pytest.raises(unspoken.ModelError, match=r"model\.json"):
        CompiledModel.load(tmp_path / "model")


def test_the_command_compiles_the_same_model(binary, tmp_path):
    file = MODELS / "mlp-arrays.onnx"
    rows = load_iris().data.astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    words = ["compile", file, "--calibration", tmp_path / "rows.npy", "--out", tmp_path / "model", "--json"]
    said = subprocess.run([binary, *words], check=True, stdout=subprocess.PIPE).stdout
    model, report = unspoken.compile(file, rows), json.loads(said)
    assert report["functions"]
    measured = {"compile_seconds": 0, "seconds_on_one_core": 0}
    assert {**model.report, **measured} == {**report, **measured}
    assert model.report["seconds_on_one_core"] > 0
    assert report["seconds_on_one_core"] > 0
    assert CompiledModel.load(tmp_path / "model").report["id"] == report["id"]


def test_compiling_tells_how_far_it_is_and_ends_when_it_is_told():
    seen = []
    unspoken.compile(two_and_two(), two_inputs(50), batch=8, progress=seen.append)
    assert [step.stage for step in seen] == sorted(step.stage for step in seen)
    assert {step.stage for step in seen} == {"planning presets", "simulating"}
    assert all(0 <= step.done <= step.total for step in seen)
    assert seen[-1].done == seen[-1].total
    for stage in ("planning presets", "simulating"):

        def stop(step, stage=stage):
            if step.stage == stage:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            unspoken.compile(two_and_two(), two_inputs(50), batch=8, progress=stop)


def test_models_come_as_files_bytes_and_objects():
    model, rows = two_and_two(), two_inputs(50)
    found = [unspoken.compile(each, rows, batch=8).report["id"] for each in (model, model.SerializeToString())]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kink_bits": 0.5}, "kink_bits: found 0.5, needed 1 to 30"),
        ({"smooth_bits": 31}, "smooth_bits: found 31, needed 1 to 30"),
        ({"margin": 0.9}, "margin: found 0.9, needed a factor of 1 or more"),
        ({"batch": 0}, "batch: found 0, needed one row or more"),
        ({"batch": -1}, "batch"),
        ({"preset": "insecure_n11_depth9_scale50"}, "preset: found an insecure set, needed one of 128 bits"),
        ({"preset": "n14"}, 'preset: found "n14", which is unknown, needed'),
        ({"memory_mib": 1}, "MiB or more of memory, needed 1 MiB; allow more"),
    ],
)
def test_options_are_checked(options, part):
    with pytest.raises(unspoken.UnspokenError, match=part):
        unspoken.compile(two_and_two(), two_inputs(50), **options)


def test_models_that_cannot_be_served_are_named(flowers, tmp_path):
    rows, names = flowers
    with pytest.raises(unspoken.ModelError, match='tensor "w"'):
        unspoken.compile(two_and_two(np.nan), two_inputs(5))
    with pytest.raises(unspoken.ModelError, match="TreeEnsembleClassifier"):
        unspoken.compile(RandomForestClassifier(3).fit(rows, names), rows)
    with pytest.raises(unspoken.NotFittedError, match="found a LogisticRegression without training"):
        unspoken.compile(LogisticRegression(), rows)
    with pytest.raises(unspoken.ModelError, match=r"nowhere\.onnx"):
        unspoken.compile(tmp_path / "nowhere.onnx", rows)
    with pytest.raises(unspoken.ModelError, match="NaN"):
        unspoken.compile(two_and_two(), {"x": np.full((3, 3), np.nan), "y": np.ones((3, 2))})
    for wrong in (5, LogisticRegression, None):
        with pytest.raises(unspoken.ArgumentError, match="needed an ONNX file or its bytes"):
            unspoken.compile(wrong, rows)


def test_classes_of_one_against_the_rest(flowers):
    rows, names = flowers
    estimator = OneVsRestClassifier(LogisticRegression()).fit(rows, names)
    model = unspoken.compile(estimator, rows, batch=8)
    assert np.array_equal(model.predict(rows), estimator.predict(rows))
    assert np.abs(model.predict_proba(rows) - estimator.predict_proba(rows)).max() < 1e-4
    # A classifier without probabilities, and without the option `zipmap`.
    machine = LinearSVC().fit(rows, names)
    model = unspoken.compile(machine, rows, batch=8)
    assert np.array_equal(model.predict(rows), machine.predict(rows))
    scores = [each.name for each in model.outputs if each.gives == "numbers"]
    assert np.abs(model.ask(rows)[scores[0]] - machine.decision_function(rows)).max() < 1e-4
    with pytest.raises(unspoken.ArgumentError, match="needed one of probabilities; use ask"):
        model.predict_proba(rows)


def test_logarithms_of_probabilities_are_known():
    rng = np.random.default_rng(2)
    model, rows = product_with(rng.normal(size=(4, 3))), rng.uniform(-1, 1, size=(50, 4))
    model.graph.node[0].output[0] = "scores"
    model.graph.node.append(helper.make_node("LogSoftmax", ["scores"], ["y"], name="logarithms", axis=1))
    compiled = unspoken.compile(model, rows, batch=8)
    assert [each.gives for each in compiled.outputs] == ["log_probabilities"]
    logarithms, probabilities = compiled.ask(rows)["y"], compiled.predict_proba(rows)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.allclose(np.log(probabilities), logarithms)
    assert np.array_equal(compiled.classes_, [0, 1, 2])
    assert np.array_equal(compiled.predict(rows), logarithms.argmax(axis=1))


def test_a_missing_package_is_named(monkeypatch, logistic, cancer):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(unspoken.ConfigurationError, match=r"found no package skl2onnx.*pip install skl2onnx"):
        unspoken.compile(logistic, cancer[0])


def test_features_that_never_vary_are_reported(flowers):
    rows = np.column_stack([flowers[0], np.full(150, 3.0)])
    model = unspoken.compile(LinearRegression().fit(rows, rows[:, 0]), rows, batch=8)
    assert model.report["constant_inputs"] == [["X", [4]]]
    assert 'input "X" never varies in 1 of its numbers' in model.explain()
    assert np.abs(model.predict(rows) - rows[:, 0]).max() < 0.01


def test_networks_of_torch():
    torch = pytest.importorskip("torch", reason="torch is no dependency: its packages are too large")
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(), torch.nn.Linear(8, 3))
    rows = load_iris().data
    network[2].eval()
    model = unspoken.compile(network, rows, batch=8, smooth_bits=10)
    assert [each.training for each in network] == [True, True, False, True], "left as it was"
    network.eval()
    expected = network(torch.tensor(rows, dtype=torch.float32)).detach().numpy()
    assert np.abs(model.predict(rows) - expected).max() < 0.02

    class Both(torch.nn.Module):
        def forward(self, a, b):
            return 2 * a + b, a - b

    asked = two_inputs(9)
    asked = {"b": asked["y"], "a": asked["x"][:, :2]}
    sums, differences = unspoken.compile(Both(), asked, batch=8).ask(asked).values()
    assert np.abs(sums - (2 * asked["a"] + asked["b"])).max() < 0.01
    assert np.abs(differences - (asked["a"] - asked["b"])).max() < 0.01


def test_clients_for_asyncio(service, home, cancer, logistic):
    rows = cancer[0][:20]

    async def ask():
        options = {"application": "model/cancer", "state_dir": home, "progress": False}
        async with aio.ModelClient(service.url, **options) as client:
            assert [each.name for each in await client.inputs()] == ["X"]
            assert [each.gives for each in await client.outputs()] == ["labels", "probabilities"]
            assert list(await client.classes_()) == [0, 1]
            assert set(await client.ask(rows)) == {"label", "probabilities"}
            return await client.predict(rows), await client.predict_proba(rows)

    labels, probabilities = asyncio.run(ask())
    assert np.array_equal(labels, logistic.predict(rows))
    assert np.array_equal(probabilities.argmax(axis=1), labels)


def test_questions_in_files(service, connect, cancer, logistic, tmp_path):
    rows = cancer[0][:150]
    with connect("cancer") as client:
        assert batches.encrypt(client, rows, tmp_path / "questions") == 150
        model = service.path.parent / "cancer"
        keys = service.data / "keys"
        batches.answer("model", model, tmp_path / "questions", tmp_path / "answers", keys=keys, progress=False)
        outputs = batches.decrypt(client, rows, tmp_path / "answers")
    assert np.mean(outputs["label"] == logistic.predict(rows)) > 0.99


def test_the_document_is_right(binary, tmp_path, monkeypatch):
    text = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    owner, asker = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNSPOKEN_STATE", str(tmp_path / "state"))
    names = {}
    exec(owner, names)
    service = Service(binary, tmp_path / "data", f"model={tmp_path / 'service-model'}").start()
    try:
        exec(asker.replace("http://127.0.0.1:8080", service.url), names)
    finally:
        service.stop()
    assert np.array_equal(names["labels"], names["pipeline"].predict(names["X"]))
    assert set(names["outputs"]) == {"label", "probabilities"}


def test_other_threads_run_while_a_model_is_compiled():
    ticks, ended = [], threading.Event()

    def tick():
        while not ended.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    unspoken.compile(two_and_two(), two_inputs(200), batch=8)
    seconds = time.monotonic() - start
    ended.set()
    thread.join()
    assert len(ticks) > 10 * seconds


COMPILING = """
import sys, numpy as np, unspoken
rows = np.random.default_rng(1).normal(size=(2000, 1, 28, 28))
print("begins", flush=True)
try:
    while True:  # one alone may end before the signal comes
        unspoken.compile(sys.argv[1], rows[:, :, :8, :8], batch=8)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent the POSIX way")
def test_control_c_ends_compiling():
    child = Child(COMPILING, MODELS / "lenet-18.onnx")
    child.wait_for("begins")
    time.sleep(0.4)
    start = time.monotonic()
    child.process.send_signal(2)
    child.wait_for("interrupted")
    assert time.monotonic() - start < 2
    child.finish(30)
    assert child.process.returncode == 0, "what was begun does not keep the process"

#!/usr/bin/env python3
"""Writes the small models of `crates/models/onnx/tests/models`, and what onnxruntime computes from them for a few rows.
Networks of torch have random weights, or are trained for a moment; models of scikit-learn are trained on its own data.

    python3 -m venv venv
    venv/bin/pip install torch==2.9.1 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 scikit-learn==1.9.1 \
        skl2onnx==1.20.0 pandas
    venv/bin/python research/peers/onnx_models.py [MODEL ...]
"""

import json
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from torch import nn
from torch.nn import functional

FOLDER = Path(__file__).resolve().parents[2] / "crates/models/onnx/tests/models"
EXPECTED = FOLDER / "expected.json"
ROWS = 3
RAW = {"zipmap": False}

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Function(nn.Module):
    """A network of layers by name, and a function of them and the inputs."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.function = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))


def binary():
    return nn.Sequential(nn.Linear(6, 4), nn.SiLU(), nn.Linear(4, 1), nn.Sigmoid())


def lenet():
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3), nn.Tanh()]
    return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 10), nn.LogSoftmax(1))


def residual():
    def forward(net, x):
        x = functional.relu(net.norm1(net.conv1(x)))
        y = functional.leaky_relu(net.norm2(net.conv2(x)), 0.1)
        return net.linear((x + net.norm3(net.conv3(y))).mean([2, 3]))

    layers = {"conv1": nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), "conv2": nn.Conv2d(4, 4, 3, padding=1)}
    layers |= {"conv3": nn.Conv2d(4, 4, 1), "linear": nn.Linear(4, 2)}
    return with_statistics(Function(forward, **layers, **{f"norm{i}": nn.BatchNorm2d(4) for i in (1, 2, 3)}))


def norm_first(padding=0):
    layers = [nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3, padding=padding, groups=2), nn.Flatten()]
    return with_statistics(nn.Sequential(*layers, nn.Linear(16 + 48 * padding, 2)))


def with_statistics(net):
    """The network with random weights and statistics of its normalisations."""
    for layer in net.modules():
        if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(layer.weight.data, -1, 1)
            nn.init.uniform_(layer.bias.data, -1, 1)
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -1, 1)
            nn.init.uniform_(layer.running_var, 0.5, 2)
    return net


def depthwise():
    layers = [nn.Conv2d(4, 8, 3, groups=4, stride=(2, 1), padding=(1, 2), dilation=(1, 2)), nn.Hardswish()]
    layers += [nn.Conv2d(8, 4, 1, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
    return nn.Sequential(*layers)


def sequence():
    layers = [nn.Conv1d(2, 4, 3, padding=2, dilation=2), nn.ELU(), nn.AvgPool1d(3, 2, 1, count_include_pad=False)]
    return nn.Sequential(*layers, nn.MaxPool1d(2), nn.Flatten(), nn.Linear(8, 3))


def normed():
    layers = [nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 5), nn.GELU(approximate="tanh")]
    return with_statistics(nn.Sequential(*layers, nn.LayerNorm(5), nn.Linear(5, 2)))


def embedding():
    def forward(net, x):
        return functional.softmax(net.linear(net.table(x).mean(1)), -1)

    return Function(forward, table=nn.Embedding(10, 4), linear=nn.Linear(4, 3))


def two_inputs():
    def forward(net, x, y):
        x, y = net.first(x), net.second(y)
        return net.last(torch.cat([x * y, x - y, torch.exp(-(x**2))], 1))

    return Function(forward, first=nn.Linear(3, 4), second=nn.Linear(2, 4), last=nn.Linear(12, 2))


def two_outputs():
    def forward(net, x):
        hidden = torch.tanh(net.hidden(x))
        return net.scores(hidden), torch.sigmoid(net.risk(hidden)).squeeze(1)

    return Function(forward, hidden=nn.Linear(4, 5), scores=nn.Linear(5, 3), risk=nn.Linear(5, 1))


def activations():
    def forward(net, x):
        a, b = x.chunk(2, 1)
        y = (
            functional.silu(a)
            + net.prelu(b)
            + functional.elu(a, 0.7)
            + functional.softplus(b)
            + functional.relu6(4 * a)
        )
        y = y + functional.hardsigmoid(b) + functional.mish(a) + torch.clamp(b, min=-0.3) + torch.erf(a).abs() - b.exp()
        return net.last(y), x.pow(2).mean(-1, keepdim=True).sqrt() * 3, 1 / (x.abs().sum(1) + 2)

    return Function(forward, prelu=nn.PReLU(), last=nn.Linear(3, 2))


def rearranged():
    def forward(net, x):
        padded = functional.pad(x, (1, 2))
        y = net.mix(padded.transpose(1, 2))[:, 1:6:2]
        return net.last(torch.cat([y.flatten(1), y[:, -1], x.sum(2)], 1)).unsqueeze(1)

    return Function(forward, mix=nn.Linear(3, 2), last=nn.Linear(11, 2))


def gate():
    """Channels scaled by what a layer computes from their means."""

    def forward(net, x):
        scale = torch.sigmoid(net.gate(x.mean([2, 3])))
        return net.last((x * scale[:, :, None, None]).reshape(x.shape[0], -1))

    return Function(forward, gate=nn.Linear(2, 2), last=nn.Linear(18, 2))


def random(*shape):
    return torch.randn(ROWS, *shape)


# Name: network, inputs for a batch, operator set, whether the newer exporter writes it, other options of the exporter.
TORCH = {
    "mlp-11": (mlp, lambda: [random(6)], 11, False, {}),
    "mlp-21": (mlp, lambda: [random(6)], 21, True, {}),
    "mlp-fixed-batch": (mlp, lambda: [random(6)], 13, False, {"dynamic": False}),
    "binary-13": (binary, lambda: [random(6)], 13, False, {}),
    "lenet-11": (lenet, lambda: [random(1, 8, 8)], 11, False, {}),
    "lenet-18": (lenet, lambda: [random(1, 8, 8)], 18, True, {}),
    "residual-17": (residual, lambda: [random(3, 6, 6)], 17, False, {"keep": True}),
    "residual-18": (residual, lambda: [random(3, 6, 6)], 18, True, {}),
    "norm-first-13": (norm_first, lambda: [random(2, 4, 4)], 13, False, {"keep": True}),
    "norm-padded-13": (lambda: norm_first(1), lambda: [random(2, 4, 4)], 13, False, {"keep": True}),
    "depthwise-13": (depthwise, lambda: [random(4, 5, 6)], 13, False, {}),
    "sequence-17": (sequence, lambda: [random(2, 9)], 17, False, {}),
    "normed-11": (normed, lambda: [random(4)], 11, False, {}),
    "normed-17": (normed, lambda: [random(4)], 17, False, {}),
    "normed-21": (normed, lambda: [random(4)], 21, True, {}),
    "embedding-13": (embedding, lambda: [torch.randint(0, 10, (ROWS, 5))], 13, False, {}),
    "embedding-18": (embedding, lambda: [torch.randint(0, 10, (ROWS, 5))], 18, True, {}),
    "two-inputs-17": (two_inputs, lambda: [random(3), random(2)], 17, False, {}),
    "two-outputs-18": (two_outputs, lambda: [random(4)], 18, True, {}),
    "activations-11": (activations, lambda: [random(6)], 11, False, {}),
    "activations-18": (activations, lambda: [random(6)], 18, True, {}),
    "rearranged-13": (rearranged, lambda: [random(3, 5)], 13, False, {}),
    "rearranged-18": (rearranged, lambda: [random(3, 5)], 18, True, {}),
    "gate-17": (gate, lambda: [random(2, 3, 3)], 17, False, {}),
    "external-18": (mlp, lambda: [random(6)], 18, True, {"external": True}),
}


def write_torch(name):
    """Exports a network."""
    network, inputs, opset, newer, options = TORCH[name]
    torch.manual_seed(len(name) + opset)
    network, inputs = network().eval(), inputs()
    names = [f"input{i}" for i in range(len(inputs))]
    options = {"dynamic": True, "keep": False, "external": False} | options
    arguments = {"opset_version": opset, "input_names": names, "dynamo": newer}
    if newer:
        batch = torch.export.Dim("batch")
        shapes = tuple({0: batch} for _ in inputs)
        arguments["dynamic_shapes"] = (shapes,) if isinstance(network, Function) else shapes
        arguments |= {"external_data": False, "verbose": False}
    elif options["dynamic"]:
        arguments["dynamic_axes"] = {name: {0: "batch"} for name in names}
    if options["keep"]:  # batch normalisations are not folded
        arguments |= {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    path = FOLDER / f"{name}.onnx"
    torch.onnx.export(network, tuple(inputs), str(path), **arguments)
    model = onnx.load(path)
    strip(model)
    path.unlink()
    if options["external"]:
        (FOLDER / f"{name}.data").unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    else:
        onnx.save(model, path)
    return [tensor.numpy() for tensor in inputs]


def strip(model):
    """Removes texts that only describe."""
    model.doc_string = ""
    model.graph.doc_string = ""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for tensor in (*model.graph.initializer, *model.graph.value_info, *model.graph.input, *model.graph.output):
        tensor.doc_string = ""
        if hasattr(tensor, "metadata_props"):
            del tensor.metadata_props[:]
    del model.graph.value_info[:], model.metadata_props[:], model.graph.metadata_props[:]


def iris():
    return load_iris(return_X_y=True)


def named_iris():
    data, classes = iris()
    return data, np.array(["setosa", "versicolor", "virginica"])[classes]


def cancer(features=8):
    data, classes = load_breast_cancer(return_X_y=True)
    return data[:, :features], classes


def scaled_cancer():
    data, classes = cancer()
    return StandardScaler().fit_transform(data), classes


def diabetes():
    return load_diabetes(return_X_y=True)


def digits():
    return load_digits(return_X_y=True)


def network(of=MLPClassifier, **options):
    return of(hidden_layer_sizes=(8, 6), max_iter=200, random_state=1, **options)


def columns():
    parts = [("scaled", StandardScaler(), [0, 2]), ("ranged", MinMaxScaler(), [3, 1])]
    return make_pipeline(ColumnTransformer(parts), LogisticRegression())


# Name: estimator, data, options of skl2onnx.
SKLEARN = {
    "logistic-zipmap": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), named_iris, None),
    "logistic-arrays": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), iris, RAW),
    "logistic-binary-zipmap": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), cancer, None),
    "logistic-binary-arrays": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), cancer, RAW),
    "logistic-raw": (LogisticRegression, iris, RAW | {"raw_scores": True}),
    "logistic-pca": (lambda: make_pipeline(PCA(8), LogisticRegression()), digits, RAW),
    "mlp-zipmap": (network, named_iris, None),
    "mlp-arrays": (network, iris, RAW),
    "mlp-binary-zipmap": (lambda: make_pipeline(StandardScaler(), network(activation="tanh")), cancer, None),
    "mlp-binary-arrays": (lambda: make_pipeline(StandardScaler(), network(activation="logistic")), cancer, RAW),
    "mlp-regressor": (lambda: network(MLPRegressor), diabetes, None),
    "one-versus-rest": (lambda: OneVsRestClassifier(LogisticRegression()), iris, None),
    "one-versus-rest-18": (lambda: OneVsRestClassifier(LogisticRegression()), iris, RAW),
    "linear-svc": (LinearSVC, iris, None),
    "linear-svc-binary": (LinearSVC, scaled_cancer, None),
    "svc-poly-zipmap": (lambda: SVC(kernel="poly"), iris, None),
    "svc-poly-arrays": (lambda: SVC(kernel="poly", coef0=1.0), named_iris, RAW),
    "svc-poly-binary": (lambda: make_pipeline(StandardScaler(), SVC(kernel="poly", degree=2)), cancer, RAW),
    "svc-linear": (lambda: SVC(kernel="linear"), iris, RAW),
    "svr-poly": (lambda: SVR(kernel="poly", C=100.0), diabetes, None),
    "linear-regression": (lambda: make_pipeline(MinMaxScaler(), LinearRegression()), diabetes, None),
    "two-targets": (Ridge, lambda: (diabetes()[0], diabetes()[0][:, :2] * 3 + 1), None),
    "ridge-classifier": (RidgeClassifier, iris, None),
    "sgd-hinge": (lambda: SGDClassifier(random_state=1), iris, None),
    "sgd-logistic": (lambda: make_pipeline(StandardScaler(), SGDClassifier("log_loss", random_state=1)), iris, None),
    "perceptron": (lambda: Perceptron(random_state=1), cancer, None),
    "columns": (columns, iris, RAW),
    "input-per-column": (columns, iris, RAW),
}


def write_sklearn(name):
    """Trains and exports a model of scikit-learn."""
    estimator, data, options = SKLEARN[name]
    x, y = data()
    x = x.astype(np.float32)
    if "svr" in name:
        x, y = x[:60], y[:60]
    fitted = estimator().fit(x, y)
    last = fitted[-1] if hasattr(fitted, "steps") else fitted
    arguments = {"options": {id(last): options}} if options else {}
    if name.endswith("-18"):
        arguments["target_opset"] = {"": 18, "ai.onnx.ml": 3}
    inputs = [x[:: len(x) // 7][:8]]
    if name == "input-per-column":
        fitted, inputs = by_column(x, y), [inputs[0][:, [i]] for i in range(4)]
        arguments = {"options": {id(fitted[-1]): options}}
        arguments["initial_types"] = [(f"c{i}", FloatTensorType([None, 1])) for i in range(4)]
    else:
        arguments["X"] = x[:1]
    model = to_onnx(fitted, **arguments)
    strip(model)
    onnx.save(model, FOLDER / f"{name}.onnx")
    return inputs


def by_column(x, y):
    """The estimator of `columns`, trained on a table with names of columns."""
    import pandas

    parts = [("scaled", StandardScaler(), ["c0", "c2"]), ("ranged", MinMaxScaler(), ["c3", "c1"])]
    pipeline = make_pipeline(ColumnTransformer(parts), LogisticRegression())
    return pipeline.fit(pandas.DataFrame(x, columns=[f"c{i}" for i in range(4)]), y)


def built(name, opset, inputs, nodes, outputs, weights):
    """Writes a model of nodes by hand."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        name,
        [value(input_name, kind, ["rows", *shape]) for input_name, kind, shape in inputs],
        [value(output, kind, None) for output, kind in outputs],
        [numpy_helper.from_array(np.asarray(array), weight) for weight, array in weights.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), FOLDER / f"{name}.onnx")


def write_pads(name):
    """Windows with every way to pad."""
    rng = np.random.default_rng(1)
    weights = {"w": rng.normal(size=(2, 1, 3, 2)).astype("f"), "v": rng.normal(size=(2, 2, 2, 2)).astype("f")}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["a"], auto_pad="SAME_LOWER", strides=[2, 2]),
        node("Conv", ["a", "v"], ["b"], auto_pad="SAME_UPPER", kernel_shape=[2, 2]),
        node("AveragePool", ["b"], ["c"], kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1),
        node("AveragePool", ["c"], ["d"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1]),
        node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], auto_pad="VALID", strides=[1, 2]),
        node("GlobalAveragePool", ["c"], ["g"]),
    ]
    built(name, 17, [("x", TensorProto.FLOAT, [1, 7, 6])], nodes, [("e", 1), ("g", 1)], weights)
    return [rng.normal(size=(ROWS, 1, 7, 6)).astype("f")]


def write_newest(name):
    """Operators and types that the exporters did not write here."""
    rng = np.random.default_rng(2)
    weights = {"half": rng.normal(size=(3, 4)).astype(np.float16), "double": rng.normal(size=4), "two": np.float32(2)}
    weights |= {"low": np.float32(-0.4), "high": np.float32(0.9), "m": rng.normal(size=(4, 2)).astype("f")}
    weights["columns"] = np.int64([1, 0])
    node = helper.make_node
    nodes = [
        node("Cast", ["half"], ["w"], to=1),
        node("Cast", ["double"], ["b"], to=1),
        node("Gemm", ["x", "w", "b"], ["a"], alpha=0.5, beta=2.0),
        node("Gelu", ["a"], ["g"]),
        node("Gelu", ["a"], ["h"], approximate="tanh"),
        node("Max", ["h", "low"], ["i"]),
        node("Min", ["high", "g"], ["j"]),
        node("Sub", ["two", "i"], ["k"]),
        node("Div", ["two", "k"], ["l"]),
        node("Sum", ["l", "j", "a"], ["n"]),
        node("LeakyRelu", ["n"], ["o"], alpha=0.2),
        node("MatMul", ["o", "m"], ["p"]),
        node("ArrayFeatureExtractor", ["p", "columns"], ["y"], domain="ai.onnx.ml"),
        node("Softplus", ["y"], ["z"]),
    ]
    built(name, 20, [("x", TensorProto.FLOAT, [3])], nodes, [("z", 1)], weights)
    return [rng.normal(size=(ROWS, 3)).astype("f")]


def write_row_classifier(name):
    """Two classes by a linear classifier with rows for both, whose probabilities are independent."""
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[1.0, -0.5, 0.25, 0.5],
        intercepts=[0.1, -0.2],
        classlabels_strings=["no", "yes"],
        post_transform="LOGISTIC",
    )
    outputs = [("label", TensorProto.STRING), ("scores", TensorProto.FLOAT)]
    built(name, 17, [("x", TensorProto.FLOAT, [2])], [node], outputs, {})
    return [np.float32([[1, 2], [-1, 0.5], [0.25, -3]])]


BUILT = {"pads-17": write_pads, "newest-20": write_newest, "row-classifier": write_row_classifier}


def listed(array):
    """An array for JSON."""
    array = np.asarray(array)
    values = array.ravel().tolist()
    if array.dtype == np.float32:
        values = [float(f"{value:.9g}") for value in values]
    return {"shape": list(array.shape), "values": values}


def answer(value):
    """An output of onnxruntime for JSON; scores by label become labels and an array."""
    if isinstance(value, list):
        labels = list(value[0])
        return {"labels": labels} | listed(np.float32([[row[label] for label in labels] for row in value]))
    return listed(value)


def main():
    """Writes all models, or those that are named."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = sys.argv[1:] or [*TORCH, *SKLEARN, *BUILT]
    expected = json.loads(EXPECTED.read_text()) if sys.argv[1:] and EXPECTED.exists() else {}
    for name in names:
        write = write_torch if name in TORCH else write_sklearn if name in SKLEARN else BUILT[name]
        inputs = write(name)
        session = onnxruntime.InferenceSession(FOLDER / f"{name}.onnx", providers=["CPUExecutionProvider"])
        given = {node.name: array for node, array in zip(session.get_inputs(), inputs, strict=True)}
        outputs = {node.name: answer(value) for node, value in zip(session.get_outputs(), session.run(None, given))}
        expected[name] = {"inputs": [listed(array) for array in inputs], "outputs": outputs}
        print(name, (FOLDER / f"{name}.onnx").stat().st_size)
    lines = [f"{json.dumps(name)}: {json.dumps(expected[name])}" for name in sorted(expected)]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

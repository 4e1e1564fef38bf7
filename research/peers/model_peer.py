"""Peer of `unspoken-bench model`: onnxruntime in the clear, and Concrete ML (Zama) encrypted.

Commands on standard input, see `protocol.py`. It runs in the environment of `research/tables/model_tables.py`.

    {"cmd": "setup", "library": "onnxruntime", "model": FILE.onnx, "rows": FILE.npy, "batch": 128}
    {"cmd": "time", "op": "run", "reps": 1}     one batch, on one thread
    {"cmd": "setup", "library": "concrete-ml", "model": "logistic" or "mlp", "folder": FOLDER}
    {"cmd": "time", "op": "run", "reps": 1}     the next row at the server, on all cores

Concrete ML trains its own model on the rows of FOLDER (`research/models/train_models.py`), compiles it, saves it and
uses it as its guide for production does, with a client and a server that exchange bytes.

- logistic: `LogisticRegression` with its default of 8 bits.
- mlp: `NeuralNetClassifier`, trained with quantised weights and activations of its default of 4 bits, three hidden
  layers of 128, rounded accumulators (its default). Adam with a rate of 0.01 for 100 epochs: of the rates and lengths
  that were tried on the breast cancer table (0.01 and 0.001, 100 and 300), the one with the most right labels.
"""

import os
import resource
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from protocol import PeerError, integer, serve, thread_count, time_calls

# Bytes of addresses that this process may have. Without a limit, Concrete ML grew beyond 17 GB for the perceptron on
# customers, and the system killed it; with one, it cannot write its keys, and other programs go on.
MOST_BYTES = 16 << 30

HIDDEN, HIDDEN_LAYERS, BITS = 128, 3, 4
EPOCHS, RATE, BATCH = 100, 0.01, 64


class Clear:
    """onnxruntime on one thread."""

    def __init__(self, command):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(command["model"], options, providers=providers)
        rows = np.load(command["rows"])
        self.name = self.session.get_inputs()[0].name
        self.batch = rows[: integer(command, "batch", 128, 1, len(rows))]
        self.rows = rows
        self.version = onnxruntime.__version__

    def labels(self):
        """The labels of all rows: the first output, or the places of its largest numbers."""
        first = np.asarray(self.session.run(None, {self.name: self.rows})[0])
        return (first if first.ndim == 1 else first.argmax(axis=-1)).astype(int).tolist()

    def about(self):
        """What the caller needs to know."""
        return {"peer": "onnxruntime", "version": self.version, "labels": self.labels()}

    def time(self, reps):
        """Times batches."""
        return time_calls(lambda: self.session.run(None, {self.name: self.batch}), reps)


class Concrete:
    """Concrete ML's model, its client and its server."""

    def __init__(self, command):
        import torch
        from sklearn.preprocessing import StandardScaler

        torch.manual_seed(1)
        np.random.seed(1)
        folder = Path(command["folder"])
        names = ("calibration", "calibration_labels", "test", "test_labels")
        rows, labels, test, test_labels = (np.load(folder / f"{name}.npy") for name in names)
        scaler = StandardScaler().fit(rows)
        rows, self.rows = (scaler.transform(part).astype("f") for part in (rows, test))
        self.wanted = test_labels.astype(int)
        start = time.perf_counter()
        model = self.model(command["model"], rows.shape[1]).fit(rows, labels.astype("int64"))
        trained = time.perf_counter()
        model.compile(rows[:1000])
        compiled = time.perf_counter()
        # Quantised and in the clear: what the encrypted model gives, but for its rare failures.
        self.labels = model.predict(self.rows).astype(int)
        self.open(model)
        self.seconds = {"train": trained - start, "compile": compiled - trained}
        self.next, self.asked, self.equal = 0, 0, 0

    def open(self, model):
        """Saves the model, and opens client and server."""
        from concrete.ml.deployment import FHEModelClient, FHEModelDev, FHEModelServer

        self.folder = tempfile.TemporaryDirectory(prefix="unspoken-concrete-")
        files, keys = Path(self.folder.name) / "model", Path(self.folder.name) / "keys"
        FHEModelDev(str(files), model).save()
        self.client, self.server = FHEModelClient(str(files), key_dir=str(keys)), FHEModelServer(str(files))
        start = time.perf_counter()
        self.client.generate_private_and_evaluation_keys()
        self.key_seconds = time.perf_counter() - start
        self.keys = self.client.get_serialized_evaluation_keys()
        self.server.load()

    @staticmethod
    def model(name, features):
        """An untrained model."""
        import torch
        from concrete.ml.sklearn import LogisticRegression, NeuralNetClassifier

        if name == "logistic":
            return LogisticRegression(n_bits=8)
        if name != "mlp":
            raise PeerError(f"model: found {name!r}, needed logistic or mlp")
        return NeuralNetClassifier(
            module__n_layers=HIDDEN_LAYERS + 1,
            module__n_w_bits=BITS,
            module__n_a_bits=BITS,
            # Hidden neurons are this number times the features, rounded down.
            module__n_hidden_neurons_multiplier=(HIDDEN + 0.5) / features,
            max_epochs=EPOCHS,
            lr=RATE,
            optimizer=torch.optim.Adam,
            batch_size=BATCH,
            verbose=0,
        )

    def about(self):
        """What the caller needs to know."""
        query = self.client.quantize_encrypt_serialize(self.rows[:1])
        return {
            "peer": "Concrete ML",
            "version": version("concrete-ml"),
            "accuracy": float((self.labels == self.wanted).mean()),
            "key_bytes": len(self.keys),
            "key_seconds": self.key_seconds,
            "query_bytes": len(query),
            "answer_bytes": len(self.server.run(query, self.keys)),
            "train_seconds": self.seconds["train"],
            "compile_seconds": self.seconds["compile"],
        }

    def answer(self, query):
        """The server's answer, and its times."""
        answers = []
        times = time_calls(lambda: answers.append(self.server.run(query, self.keys)), 1)
        return answers[0], times

    def time(self, reps):
        """Times the server on the next rows; each answer must have the label that the quantised model gives."""
        found = {"ms": [], "cpu_ms": [], "encrypt_ms": [], "decrypt_ms": []}
        for _ in range(reps):
            place, self.next = self.next, (self.next + 1) % len(self.rows)
            start = time.perf_counter()
            query = self.client.quantize_encrypt_serialize(self.rows[place : place + 1])
            encrypted = time.perf_counter()
            answer, times = self.answer(query)
            answered = time.perf_counter()
            scores = self.client.deserialize_decrypt_dequantize(answer)
            decrypted = time.perf_counter()
            self.asked += 1
            self.equal += int(np.argmax(scores) == self.labels[place])
            found["ms"] += times["ms"]
            found["cpu_ms"] += times["cpu_ms"]
            found["encrypt_ms"].append((encrypted - start) * 1e3)
            found["decrypt_ms"].append((decrypted - answered) * 1e3)
        return {**found, "asked": self.asked, "equal": self.equal, "threads": thread_count()}


class ModelPeer:
    """One of the two."""

    def __init__(self):
        self.library = None

    def setup(self, command):
        """Opens the library, or says why it cannot."""
        of = {"onnxruntime": Clear, "concrete-ml": Concrete}.get(command.get("library"))
        if of is None:
            raise PeerError("library: needed onnxruntime or concrete-ml")
        try:
            self.library = of(command)
        except ImportError as error:
            return {"absent": str(error)}
        return self.library.about()

    def time(self, command, reps):
        """Times an operation."""
        if self.library is None or command.get("op") != "run":
            raise PeerError("needed setup before, and the operation run")
        return self.library.time(reps)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    # Concrete ML prints what it does; the protocol sends it to standard error.
    sys.path.insert(0, os.path.dirname(__file__))
    serve(ModelPeer())

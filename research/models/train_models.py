"""Trains the models of `unspoken-bench model`, and writes the rows that it asks about.

`python3 research/models/train_models.py [NAME ...]`, in the environment of `research/tables/model_tables.py`
(scikit-learn, skl2onnx, torch, onnx). Without names it trains all models but `resnet-20`, whose training takes
some minutes. Each name is a folder of `.npy` files and ONNX models:

| file | contents |
| --- | --- |
| `calibration.npy`, `calibration_labels.npy` | rows of the training set: of a table all of them |
| `test.npy`, `test_labels.npy` | rows that training has not seen |
| `logistic.onnx`, `mlp.onnx`, or one model with the name of the folder | the models |

The models of `breast-cancer` go to `models/`, which is part of this repository, and its rows stay in
`data/breast-cancer/`; the others go to `data/own-models/`. `scripts/fetch_data.py breast-cancer churn mnist` fetches
the rows.
"""

from __future__ import annotations

import csv
import struct
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
COMMITTED, MADE, TUMOURS = ROOT / "models", ROOT / "data" / "own-models", ROOT / "data" / "breast-cancer"
CHURN, MNIST = ROOT / "data" / "churn" / "churn.csv", ROOT / "data" / "mnist"

SEED = 1
# Every onnxruntime since 2022 reads it.
OPSET = 17
# Three hidden layers.
HIDDEN = (128, 128, 128)
CALIBRATION_IMAGES, EPOCHS, BATCH = 2048, 4, 64
# Of the residual network: images of an epoch, so that it trains within some minutes on two cores.
RESNET_IMAGES, RESNET_EPOCHS = 20_000, 5


def breast_cancer():
    """569 tumours: 30 numbers each, benign (1) or malignant (0), in rows to train with and rows held out."""
    parts = ("calibration", "test", "calibration_labels", "test_labels")
    return [np.load(TUMOURS / f"{part}.npy") for part in parts]


def churn():
    """Customers of a telephone company: numbers, and each text as numbers of which one is 1."""
    with CHURN.open(newline="", encoding="utf-8") as file:
        customers = [row for row in csv.DictReader(file) if row["total_charges"]]
    columns = []
    for name in customers[0]:
        texts = [row[name] for row in customers]
        if name == "churn":
            continue
        try:
            columns.append([float(text) for text in texts])
        except ValueError:
            # The first value is the absence of all others.
            columns += [[float(text == one) for text in texts] for one in sorted(set(texts))[1:]]
    rows, labels = np.array(columns).T.astype("f"), np.array([int(row["churn"] == "Yes") for row in customers])
    split = train_test_split(rows, labels, test_size=1024, random_state=SEED, stratify=labels)
    train, test, train_labels, test_labels = split
    save(MADE / "churn", "calibration", train, train_labels)
    save(MADE / "churn", "test", test, test_labels)
    return split


TABLES = {"breast-cancer": (breast_cancer, COMMITTED), "churn": (churn, MADE)}


def save(folder: Path, name: str, rows, labels) -> None:
    """Writes rows and labels in single precision."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", np.ascontiguousarray(rows, dtype="<f4"))
    np.save(folder / f"{name}_labels.npy", np.asarray(labels, dtype="<f4"))


def table(name: str) -> None:
    """Trains a logistic regression and a perceptron of three hidden layers on a table."""
    load, parent = TABLES[name]
    folder = parent / name
    train, test, train_labels, test_labels = load()
    models = {
        "logistic": LogisticRegression(max_iter=1000),
        # Strong decay and an early end: larger weights learn the noise of so small a table.
        "mlp": MLPClassifier(HIDDEN, alpha=1.0, early_stopping=True, random_state=SEED, max_iter=300),
    }
    for file, model in models.items():
        pipeline = make_pipeline(StandardScaler(), model).fit(train, train_labels)
        found = to_onnx(pipeline, train[:1], options={id(model): {"zipmap": False}}, target_opset=OPSET)
        (folder / f"{file}.onnx").write_bytes(found.SerializeToString())
        accuracy = pipeline.score(test, test_labels)
        print(f"{name} {file}: {len(train)} rows of {train.shape[1]}, accuracy {accuracy:.4f} of {len(test)} held out")


def images(part: str):
    """Images of MNIST with values from 0 to 1, and labels."""
    with (MNIST / f"{part}-images-idx3-ubyte").open("rb") as file:
        _, count, height, width = struct.unpack(">4I", file.read(16))
        pixels = np.frombuffer(file.read(), np.uint8).reshape(count, 1, height, width)
    labels = np.frombuffer((MNIST / f"{part}-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    return pixels.astype("f") / 255, labels.astype("i8")


class Square(nn.Module):
    """The square of each number: an activation without error under encryption."""

    def forward(self, x):
        """Squares."""
        return x * x


def lenet(activation: type[nn.Module]) -> nn.Module:
    """LeNet-5 with averages over windows."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        activation(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        activation(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        activation(),
        nn.Linear(120, 84),
        activation(),
        nn.Linear(84, 10),
    )


LENETS = {"lenet-5": nn.ReLU, "lenet-5-square": Square}


class Block(nn.Module):
    """A residual block of two convolutions; a convolution of size 1 where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if (channels, stride) == (out, 1) else shortcut

    def forward(self, x):
        """The sum of both ways."""
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


def resnet() -> nn.Module:
    """ResNet-20 of He and others (CVPR 2016) for 3 x 32 x 32: 16, 32 and 64 channels, three blocks each."""
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        for step in (stride, 1, 1):
            layers.append(Block(channels, out, step))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def fit(network: nn.Module, pixels, labels, epochs: int, each: int) -> None:
    """Trains with Adam and a rate that falls to nothing; `each` images an epoch."""
    steps = epochs * (each // BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    network.train()
    for step in range(steps):
        chosen = torch.randint(len(pixels), (BATCH,))
        loss = nn.functional.cross_entropy(network(pixels[chosen]), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            print(f"  step {step} of {steps}, loss {loss.item():.3f}", file=sys.stderr, flush=True)
    network.eval()


def picture_model(name: str) -> None:
    """Trains LeNet-5 on MNIST, or ResNet-20 on MNIST in three equal channels with a margin."""
    torch.manual_seed(SEED)
    (pixels, labels), (test, test_labels) = images("train"), images("t10k")
    if name == "resnet-20":
        # No package was found that carries CIFAR-10: the shape is that of CIFAR-10, the images are not.
        margins = ((0, 0), (0, 0), (2, 2), (2, 2))
        pixels, test = (np.tile(np.pad(part, margins), (1, 3, 1, 1)) for part in (pixels, test))
        network, epochs, each = resnet(), RESNET_EPOCHS, RESNET_IMAGES
    else:
        network, epochs, each = lenet(LENETS[name]), EPOCHS, len(pixels)
    fit(network, torch.from_numpy(pixels), torch.from_numpy(labels), epochs, each)
    with torch.no_grad():
        found = torch.cat([network(part).argmax(1) for part in torch.from_numpy(test).split(500)]).numpy()
    folder = MADE / name
    save(folder, "calibration", pixels[:CALIBRATION_IMAGES], labels[:CALIBRATION_IMAGES])
    save(folder, "test", test[:CALIBRATION_IMAGES], test_labels[:CALIBRATION_IMAGES])
    named = {"input_names": ["pixels"], "output_names": ["scores"], "opset_version": OPSET}
    one = torch.from_numpy(pixels[:1])
    torch.onnx.export(network, one, str(folder / f"{name}.onnx"), dynamic_axes={"pixels": {0: "rows"}}, **named)
    print(f"{name}: {epochs} epochs of {each} images, accuracy {(found == test_labels).mean():.4f} of {len(test)}")


def main() -> None:
    """Trains the named models."""
    warnings.filterwarnings("ignore")
    known = {**dict.fromkeys(TABLES, table), **dict.fromkeys([*LENETS, "resnet-20"], picture_model)}
    names = sys.argv[1:] or [name for name in known if name != "resnet-20"]
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no model {unknown[0]!r}; there are {', '.join(known)}")
    for name in names:
        known[name](name)


if __name__ == "__main__":
    main()

"""Rows of models of one's own: `make tables-model`.

The rows of `unspoken-bench model`, beside onnxruntime in the clear and Concrete ML encrypted. Both are in an
environment of their own (`.peers/concrete-ml`), which also trains the models that are absent
(`research/models/train_models.py`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADING = "own models"
# Each in a process of its own: one that fails takes no rows of the others with it, and memory is given back.
PARTS = ("breast-cancer", "churn", "lenet-5", "resnet-20")

PEERS = ROOT / ".peers" / "concrete-ml"
# Why Concrete ML is absent from the environment.
ABSENT = PEERS / "absent.txt"
# It brings scikit-learn, skl2onnx, onnx, onnxruntime and torch. Its wheels are for these versions of Python.
CONCRETE, CONCRETE_PYTHONS = "concrete-ml==1.9.0", ("3.11", "3.12", "3.10", "3.9", "3.8")
PLAIN = ("torch", "scikit-learn", "skl2onnx", "onnx", "onnxruntime")

TRAIN = ROOT / "research" / "models" / "train_models.py"
MADE = ROOT / "data" / "own-models"
# What is trained if it is absent. ResNet-20 takes longer and is trained by hand.
TRAINED = ("churn", "lenet-5", "lenet-5-square")

NOTES = {
    HEADING: """\
Models from ONNX files, compiled as `unspoken compile` does it, served and asked in one process over their messages. The
rows were not seen in training. `research/models/train_models.py` trains the models: on breast cancer (R's dslabs),
on customers of a telephone company who stay or leave (R's modeldata; 21 of 30 numbers are texts before), and on
the digits of MNIST. Seconds are those of a full batch. Errors are parts of the radius of a result's range. The logistic
regressions and perceptrons are scikit-learn's, with three hidden layers of 128 and ReLU; the pictures' networks are
torch's, with averages in place of maxima over windows. LeNet-5 is measured for the largest batch whose weights, keys
and run fit 10 GiB, and the most bits of precision with which one does. ResNet-20 is trained by hand (`train_models.py
resnet-20`) on digits with a margin in three equal channels, because no package was found that carries CIFAR-10. It is
measured once, for one picture within 18 GiB, and two pictures are compared. Most of its weights are encoded at each
run.

Concrete ML 1.9 trains its own quantised models on the same rows (8 bits for logistic regressions, 4 for perceptrons,
its defaults) and answers one row at a time on all cores, in turn with a full batch of ours on all cores. Its keys for a
logistic regression are empty, because no function is computed. Its accuracy is that of its quantised model in the
clear; `their_rows` in the rows of `--json` counts encrypted rows, and those of them with the same label. It is not
asked for the perceptron on customers: it could not write the keys within 16 GiB. Its licence is BSD-3-Clause-Clear,
without patents; nothing of it is distributed with this repository.
""",
}


def supported() -> str | None:
    """A Python for which Concrete ML has wheels."""
    found = "{}.{}".format(*sys.version_info[:2])
    if found in CONCRETE_PYTHONS:
        return sys.executable
    return next(filter(None, (shutil.which(f"python{version}") for version in CONCRETE_PYTHONS)), None)


def install(python: str, *packages: str) -> str | None:
    """Makes the environment anew; returns what pip says if it fails."""
    shutil.rmtree(PEERS, ignore_errors=True)
    subprocess.run([python, "-m", "venv", PEERS], check=True)
    done = subprocess.run([PEERS / "bin" / "pip", "install", "--quiet", *packages], capture_output=True, text=True)
    return None if done.returncode == 0 else " ".join(done.stderr.split()[-40:])


def environment() -> Path:
    """The Python that trains and compares; it is made if it is not there, with Concrete ML where that installs."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        chosen = supported()
        absent = "no Python from 3.8 to 3.12, which it needs, was found"
        absent = install(chosen, CONCRETE) if chosen else absent
        if absent is not None:
            print(f"Concrete ML is left out: {absent}", file=sys.stderr)
            plain = install(sys.executable, *PLAIN)
            if plain is not None:
                shutil.rmtree(PEERS, ignore_errors=True)
                sys.exit(f"pip could not install {', '.join(PLAIN)}: {plain}")
            ABSENT.write_text(absent + "\n")
    return python


def prepare() -> None:
    """Trains the models that are absent: some minutes."""
    python, absent = environment(), [name for name in TRAINED if not (MADE / name).exists()]
    if absent:
        subprocess.run([python, TRAIN, *absent], check=True, stdout=sys.stderr)

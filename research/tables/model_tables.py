"""Tables of models of one's own: `make tables-model`.

The rows of `unspoken-bench model`, beside onnxruntime in the clear and Concrete ML encrypted. Both are in an
environment of their own (`.peers/concrete-ml`), which also trains the models that are absent
(`research/models/train_models.py`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from page import line

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

# Metrics with tables of their own.
SPECIAL = ("beside_",)

# What the targets are for: case, metric, what, at most (or at least, for parts of 1). All are for two cores.
TARGETS = (
    ("breast cancer, logistic regression, all cores", "answer_time", "128 rows, seconds", 0.05),
    ("breast cancer, logistic regression", "query_bytes", "a query, bytes", 500e3),
    ("customers, logistic regression, all cores", "answer_time", "128 rows, seconds", 0.05),
    ("customers, logistic regression", "query_bytes", "a query, bytes", 500e3),
    ("breast cancer, 3 x 128, 7 bits, all cores", "answer_time", "128 rows, seconds", 1.0),
    ("breast cancer, 3 x 128, 8 bits, all cores", "answer_time", "128 rows, seconds", 1.0),
    ("customers, 3 x 128, 7 bits, all cores", "answer_time", "128 rows, seconds", 1.0),
    ("customers, 3 x 128, 8 bits, all cores", "answer_time", "128 rows, seconds", 1.0),
    ("digits, LeNet-5 with squares, all cores", "answer_time", "128 images, seconds", 2.0),
    ("digits, LeNet-5 with ReLU, all cores", "answer_time", "128 images, seconds", 2.0),
    ("digits, ResNet-20, all cores", "answer_time", "1 image, seconds", 60.0),
)
AGREEMENT = 0.995

# Case, who published it, on what, seconds.
PUBLISHED = (
    ("ResNet-20, CIFAR-10, one image", "Orion (ASPLOS 2025)", "one CPU thread", 618.0),
    ("ResNet-20, CIFAR-10, one image", "Cheddar (2024)", "one H100", 1.05),
)


def of(found: list[dict], metric: str, case: str) -> dict | None:
    """The row of a metric and a case, if it was measured."""
    return next((row for row in found if (row["metric"], row["case"]) == (metric, case)), None)


def value(found: list[dict], metric: str, case: str, side: str = "ours") -> float | None:
    """A value of such a row."""
    row = of(found, metric, case)
    return row[side] if row else None


def cases(found: list[dict]) -> list[str]:
    """The measured cases, in their order."""
    return [row["case"] for row in found if row["metric"] == "predicted_time"]


def targets(found: list[dict]) -> str:
    """Targets and what was found."""
    lines = ["### Targets\n", "| model | what | target | found | met |", "| --- | --- | --- | ---: | --- |"]
    for case, metric, what, most in TARGETS:
        row, name = of(found, metric, case), case.removesuffix(", all cores")
        if row is None:
            lines.append(line(name, what, f"at most {most:,g}", None, "not measured"))
            continue
        batch, wanted = row["params"]["batch"], int(what.split()[0]) if what[0].isdigit() else None
        met = row["ours"] <= most and wanted in (None, batch)
        why = "yes" if met else "no" if wanted in (None, batch) else f"no: a batch of {batch} was measured"
        lines.append(line(name, what, f"at most {most:,g}", row["ours"], why))
    for case in cases(found):
        for way in ("", ", with polynomials"):
            row = of(found, "label_agreement", case + way)
            met, rows = "yes" if row["ours"] >= AGREEMENT else "no", row["params"]["rows"]
            what = f"labels of the clear model on {rows} rows{way or ', encrypted'}"
            lines.append(line(case, what, f"at least {AGREEMENT}", row["ours"], met))
    for case in cases(found):
        row = of(found, "result_error", case)
        met = "yes" if row["ours"] <= row["baseline"] else "no"
        lines.append(line(case, "error of results", f"at most {row['baseline']:.2g}, predicted", row["ours"], met))
    return "\n".join(lines)


def summary(found: list[dict]) -> str:
    """One line for each model."""
    lines = [
        "### Models\n",
        "| model | preset | levels | rows | one thread, s | predicted, s | all cores, s | each row, s | encrypt, s "
        "| decrypt, s | keys, bytes | query, bytes | answer, bytes | weights, bytes | a run, bytes |",
        "| --- | --- |" + " ---: |" * 13,
    ]
    for case in cases(found):
        row = of(found, "predicted_time", case)
        params = row["params"]
        several = value(found, "answer_time", f"{case}, all cores")
        seconds = (row["ours"], row["baseline"], several, several / params["batch"])
        client = (value(found, f"{what}_time", case) for what in ("encrypt", "decrypt"))
        sizes = (value(found, f"{what}_bytes", case) for what in ("key", "query", "answer", "weight", "working"))
        lines.append(line(case, params["preset"], params["levels"], params["batch"], *seconds, *client, *sizes))
    return "\n".join(lines)


def accuracy(found: list[dict]) -> str:
    """Accuracy of every way, labels that agree, and errors beside predicted ones."""
    lines = [
        "### Accuracy and errors\n",
        "| model | in the clear | with polynomials | simulated | rows | encrypted | clear on these | rows "
        "| labels of the clear | noise | bound | error | predicted |",
        "| --- |" + " ---: |" * 12,
    ]
    for case in cases(found):
        ways = [of(found, "accuracy", f"{case}, {way}") for way in ("in the clear", "with polynomials", "simulated")]
        last = of(found, "accuracy", f"{case}, encrypted")
        errors = [of(found, f"{what}_error", case) for what in ("noise", "result")]
        same = value(found, "label_agreement", case)
        cells = [*(row["ours"] for row in ways), ways[0]["params"]["rows"], last["ours"], last["baseline"]]
        cells += [last["params"]["rows"], same, *(row[side] for row in errors for side in ("ours", "baseline"))]
        lines.append(line(case, *cells))
    return "\n".join(lines)


def concrete(found: list[dict]) -> str:
    """Ours beside Concrete ML, or why there is none."""
    beside = [row for row in found if row["metric"].startswith("beside_")]
    title = "### Beside Concrete ML\n"
    if not beside:
        why = ABSENT.read_text().strip() if ABSENT.exists() else "it is not set up"
        return f"{title}\nNot measured: {why}."
    what = {
        "beside_first_row_time": "one row, s",
        "beside_row_time": "each row of a full batch, s",
        "beside_key_bytes": "keys, bytes",
        "beside_query_bytes": "a query, bytes",
        "beside_query_bytes_a_row": "a query, bytes for each row",
        "beside_answer_bytes": "an answer, bytes",
        "beside_accuracy": "accuracy in the clear",
    }
    lines = [title, "| model | what | ours | Concrete ML | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    lines += [line(row["case"], what[row["metric"]], row["ours"], row["baseline"], row["ratio"]) for row in beside]
    return "\n".join(lines)


def published(_found: list[dict]) -> str:
    """Figures that others published, and nobody ran here."""
    lines = ["### Published, not run here\n", "| what | published by | on | seconds |", "| --- | --- | --- | ---: |"]
    return "\n".join([*lines, *(line(*row) for row in PUBLISHED)])


TABLES = {HEADING: (targets, summary, accuracy, concrete, published)}


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

"""The known answers of `vectors/`, as far as Python reaches: control messages in JSON, and models in the clear.

The package opens no client half without a service, so ciphertexts are left to the tests of Rust and of the browser's
module.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from jsonschema import Draft202012Validator

from unspoken import CompressedTable, DigitsNetwork, FastText, LinearHead

# What the schemas of the messages allow and a service refuses.
ALLOWED_BY_SCHEMA = {"other base64", "base64 without `=`"}


def vectors(name: str) -> dict[str, Any]:
    content = json.loads((ROOT / "vectors" / f"{name}.json").read_text(encoding="utf-8"))
    assert (content["format"], content["version"]) == (f"unspoken-vectors/{name}", 1)
    return content


def written(case: dict[str, Any], directory: Path) -> Path:
    for name, content in case["model"].items():
        (directory / name).write_bytes(base64.b64decode(content, validate=True))
    return directory


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is given twice")
    return fields


@pytest.fixture(scope="module")
def schemas(binary: Path) -> dict[str, Draft202012Validator]:
    printed = subprocess.run([binary, "openapi"], check=True, stdout=subprocess.PIPE, text=True).stdout
    components = json.loads(printed)["components"]
    return {
        name: Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components})
        for name in components["schemas"]
    }


def test_control_messages_are_those_of_the_openapi_description(schemas):
    messages = [each for each in vectors("wire")["messages"] if each["json"] is not None]
    assert {each["message"] for each in messages} == set(schemas)
    for each in messages:
        schemas[each["message"]].validate(each["json"])


def test_the_openapi_description_refuses_other_messages(schemas):
    allowed = set()
    for each in vectors("wire")["refused"]:
        if "json" not in each:
            continue
        try:
            content = json.loads(each["json"], object_pairs_hook=without_repeats)
        except ValueError:
            assert each["reason"] in {"the JSON is cut off", "a field is given twice"}
            continue
        if schemas[each["message"]].is_valid(content):
            allowed.add(each["reason"])
    assert allowed == ALLOWED_BY_SCHEMA


def test_classifiers_have_these_scores_in_the_clear(tmp_path):
    for case in vectors("classify")["cases"]:
        model = FastText.load(written(case, tmp_path))
        texts = [question["text"] for question in case["questions"]]
        for answers, error in ((case["clear"]["answers"], 1e-12), (case["answers"], case["clear"]["error"])):
            np.testing.assert_allclose(model.scores(texts), [each["scores"] for each in answers], rtol=0, atol=error)
            assert model.predict(texts).tolist() == [each["label"] for each in answers]


def test_recognisers_have_these_scores_in_the_clear(tmp_path):
    for case in vectors("digits")["cases"]:
        network = DigitsNetwork.load(written(case, tmp_path))
        pixels = [np.frombuffer(base64.b64decode(each["pixels"]), np.uint8) for each in case["questions"]]
        images = np.stack(pixels)
        for answers, error in ((case["clear"]["answers"], 1e-12), (case["answers"], case["clear"]["error"])):
            np.testing.assert_allclose(network.scores(images), [each["scores"] for each in answers], rtol=0, atol=error)
            assert network.predict(images).tolist() == [each["digit"] for each in answers]


def test_tables_have_these_embeddings_in_the_clear(tmp_path):
    for case in vectors("embed")["cases"]:
        table = CompressedTable.load(written(case, tmp_path))
        rows = table.reconstruct([table.tokens[question["id"]] for question in case["questions"]])
        for answers, error in ((case["clear"]["answers"], 0), (case["answers"], case["clear"]["error"])):
            np.testing.assert_allclose(rows, [each["embedding"] for each in answers], rtol=0, atol=error)


def test_heads_have_these_scores_in_the_clear(tmp_path):
    for case in vectors("layer")["cases"]:
        directory = written(case, tmp_path)
        head = LinearHead.load(directory / "head.safetensors", CompressedTable.load(directory))
        texts = [question["text"] for question in case["questions"]]
        for answers, error in ((case["clear"]["answers"], 1e-12), (case["answers"], case["clear"]["error"])):
            np.testing.assert_allclose(head.scores(texts), [each["scores"] for each in answers], rtol=0, atol=error)
            assert head.predict(texts).tolist() == [each["label"] for each in answers]

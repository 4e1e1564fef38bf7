from __future__ import annotations

import ast
import doctest
import graphlib
import importlib
import pickle
import pkgutil
import sys
from pathlib import Path

import pytest
from test_retrievers import OLDEST_FOR_RETRIEVERS

import unspoken
from unspoken import errors

MODULES = ["unspoken", *(f"unspoken.{m.name}" for m in pkgutil.iter_modules(unspoken.__path__))]
if sys.version_info < OLDEST_FOR_RETRIEVERS:
    MODULES = [name for name in MODULES if name not in ("unspoken.langchain", "unspoken.llama_index")]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "unspoken._unspoken"])
def test_examples_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


def test_examples_are_there():
    public = [getattr(unspoken, name) for name in unspoken.__all__]
    classes = ["ClassifyClient", "CompressedTable", "DigitsClient", "DigitsNetwork", "EmbeddingClient", "FastText"]
    classes += ["ClipWarning", "CompiledModel", "LinearHead", "ModelClient", "compile"]
    matrices = ["Matrix", "MatrixProgram", "MatrixSecret", "matrix"]
    retrieval = ["ConnectionOptions", "Database", "DatabaseEdit", "PirClient", "read_records"]
    llama = ["Generation", "GenerationStream", "ChatClient"]
    search = ["Found", "SearchClient", "SearchEdit", "SearchIndex", "SearchInfo"]
    for name in [*classes, *matrices, *retrieval, *search, *llama, "ServiceOptions", "Usage", "compress", "presets"]:
        each = getattr(unspoken, name)
        assert each in public
        assert ">>>" in each.__doc__


def test_presets_say_what_they_give():
    found = {preset.name: preset for preset in unspoken.presets()}
    assert not any(name.startswith("insecure_") for name in found)
    assert all(preset.security_bits >= 128 for preset in found.values())
    assert (found["n14_depth8_scale30"].slots, found["n14_depth8_scale30"].levels) == (8192, 8)
    for preset in found.values():
        # Bootstrapping has its own keys; a preset without key switching has only ciphertexts.
        expected = ["ciphertext"]
        if "_linear_" not in preset.name:
            expected.append("key-switching key")
        # Whoever encrypts without the secret has a public key.
        assert sum(each.what == "public key" for each in preset.objects) == 1
        assert [each.what for each in preset.objects][: len(expected)] == expected
        # Rings of complex slots have a key to the ring of half the degree.
        known = ("public key", "key to the ring of half the degree")
        others = [each for each in preset.objects[len(expected) :] if each.what not in known]
        halves = [each for each in preset.objects if "half the degree" in each.what]
        assert len(halves) == ("_linear_" not in preset.name and "_real_" not in preset.name)
        assert all(2 * each.n == preset.objects[0].n and each.security_bits >= 128 for each in halves)
        assert (len(others) > 0) == ("_boot_" in preset.name or "_query_" in preset.name)
        # Keys of the ring of small degree, where products with matrices of a model are computed.
        small = [each for each in others if each.what == "key of the small ring"]
        assert len(small) == ("_boot_" in preset.name or "_query_" in preset.name)
        assert all(each.n < preset.objects[0].n and each.security_bits >= 128 for each in small)
        assert len({each.n for each in preset.objects[: len(expected)]}) == 1
        sizes = [each.log2_q for each in preset.objects[: len(expected)]]
        assert sizes[0] > 0
        assert sizes == sorted(set(sizes))
        assert preset.purpose
        assert preset.scale_bits == pytest.approx(int(preset.name.split("scale")[1]), abs=0.25)


def test_errors_are_of_one_family():
    for name in errors.__all__:
        assert issubclass(getattr(unspoken, name), unspoken.UnspokenError)
    refused = unspoken.KeysExpiredError("gone", "key_not_found", 404, "ask again", 1.5, "7f3a")
    again = pickle.loads(pickle.dumps(refused))
    assert str(again) == "gone"
    assert (again.code, again.status, again.retry_after) == ("key_not_found", 404, 1.5)
    unknown = pickle.loads(pickle.dumps(unspoken.UnknownTokenError("no such token", "zebra")))
    assert (str(unknown), unknown.token) == ("no such token", "zebra")


def test_the_wheel_says_that_it_is_typed():
    package = Path(unspoken.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_unspoken.pyi").exists()
    assert unspoken.__version__.count(".") == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [("Client", "ClassifyClient"), ("LlamaClient", "ChatClient")],
)
def test_names_of_the_last_release_warn(old, new):
    with pytest.warns(FutureWarning, match=rf"unspoken\.{old} is unspoken\.{new}"):
        assert getattr(unspoken, old) is getattr(unspoken, new)


def test_a_client_of_a_head_has_its_argument_of_the_last_release(table):
    with pytest.warns(FutureWarning, match=r"ClassifyClient\(\.\.\., model=table\)"):
        client = unspoken.LayerClient("http://127.0.0.1:1", table=table)
    assert isinstance(client, unspoken.ClassifyClient)
    assert client.tokens == list(table.tokens)


def test_a_client_of_sealed_records_has_its_argument_of_the_last_release():
    with pytest.warns(FutureWarning, match=r"PirClient\(\.\.\., oprf=\)"):
        client = unspoken.RetrievalClient("http://127.0.0.1:1", "pir/x", unseal="unseal/x", query="packed")
    assert isinstance(client, unspoken.PirClient)


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="has no attribute 'Unknown'"):
        _ = unspoken.Unknown


def test_no_module_imports_one_that_imports_it():
    directory = Path(unspoken.__file__).parent
    files = [*directory.rglob("*.py"), *directory.rglob("*.pyi")]
    sources = {path: path.relative_to(directory.parent).with_suffix("").parts for path in files}
    names = {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in sources.items()}

    def imported(name):
        for node in ast.walk(ast.parse(names[name].read_text())):
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom):
                submodules = [f"{node.module}.{each.name}" for each in node.names]
                yield from (each if each in names else node.module for each in submodules)

    graph = {name: {each for each in imported(name) if each in names} for name in names}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises, and names the modules, if there is a cycle
    assert len(order) == len(names) > 40

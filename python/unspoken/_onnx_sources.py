"""Models of other packages as ONNX models."""

from __future__ import annotations

import copy
import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unspoken import _unspoken
from unspoken.errors import ArgumentError, ConfigurationError, ModelError, NotFittedError

# Operator sets of ONNX and of its operators of machine learning that both the exporters and the reader know.
_OPSETS = {"": 18, "ai.onnx.ml": 3}


def onnx_model(model: Any, rows: Any) -> tuple[_unspoken.OnnxModel, Any]:
    """Return a model as an ONNX model, and rows as that takes them."""
    if isinstance(model, (str, os.PathLike)):
        return _unspoken.OnnxModel.load(model), rows
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _unspoken.OnnxModel.from_bytes(bytes(model)), rows
    if hasattr(model, "SerializeToString"):
        return _unspoken.OnnxModel.from_bytes(model.SerializeToString()), rows
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _of_torch(torch, model, rows), rows
    if not isinstance(model, type) and hasattr(model, "get_params") and hasattr(model, "fit"):
        return _of_scikit_learn(model, rows)
    raise ArgumentError(
        f"compile: found {type(model).__name__}, needed an ONNX file or its bytes, a fitted model of scikit-learn, or "
        "a torch.nn.Module"
    )


def _of_scikit_learn(model: Any, rows: Any) -> tuple[_unspoken.OnnxModel, Any]:
    """Convert a fitted model with one input, the matrix of its features."""
    try:
        from skl2onnx import to_onnx
    except ImportError as error:
        raise _missing("skl2onnx", "a model of scikit-learn", "skl2onnx") from error
    from sklearn.base import is_classifier
    from sklearn.exceptions import NotFittedError as Unfitted
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except Unfitted as error:
        found = type(model).__name__
        raise NotFittedError(f"compile: found a {found} without training, needed a fitted one; call fit") from error
    names = getattr(model, "feature_names_in_", None)
    if names is not None and hasattr(rows, "columns"):
        missing = [name for name in names if name not in rows.columns]
        if missing:
            raise ArgumentError(f"compile: found no column {missing[0]!r}, needed those that the model was fitted on")
        rows = rows[list(names)]
    with_places = _columns_by_place(copy.deepcopy(model))
    example = np.zeros((1, int(model.n_features_in_)), dtype=np.float32)

    def convert(options: dict[int, Any] | None) -> Any:
        return to_onnx(with_places, example, options=options, target_opset=_OPSETS)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                converted = convert({id(with_places): {"zipmap": False}} if is_classifier(model) else None)
            except NameError:
                # A classifier without this option, whose outputs are arrays.
                converted = convert(None)
    except Exception as error:
        # The converter raises exceptions of many kinds.
        raise ModelError(
            f"compile: skl2onnx cannot convert {type(model).__name__}: {error}; use models and steps that it knows"
        ) from error
    return _unspoken.OnnxModel.from_bytes(converted.SerializeToString()), rows


def _columns_by_place(model: Any) -> Any:
    """Return a model whose column transformers name their columns by place: a matrix has no names."""
    for _, step in getattr(model, "steps", ()):
        _columns_by_place(step)
    if not hasattr(model, "transformers_"):
        return model
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]

    def places(columns: Any) -> Any:
        if isinstance(columns, str):
            return [names.index(columns)]
        return [names.index(each) if isinstance(each, str) else each for each in columns]

    kept = [(name, step, columns) for name, step, columns in model.transformers_]
    model.transformers_ = [
        (name, _columns_by_place(step), places(columns) if names and not isinstance(columns, slice) else columns)
        for name, step, columns in kept
    ]
    return model


def _of_torch(torch: Any, model: Any, rows: Any) -> _unspoken.OnnxModel:
    """Export a network for batches of any size."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise _missing("onnx", "a network of torch", "onnx onnxscript") from error
    device = next((each.device for each in model.parameters()), "cpu")
    named = rows if isinstance(rows, Mapping) else {"input": rows}
    arguments = [each for each in inspect.signature(model.forward).parameters if each in named]
    order = arguments if len(arguments) == len(named) else list(named)

    def tensor(values: Any) -> Any:
        two = np.asarray(values[:2])
        return torch.tensor(two, dtype=torch.int64 if two.dtype.kind in "iu" else torch.float32, device=device)

    options: dict[str, Any] = {"input_names": order, "opset_version": _OPSETS[""]}
    newer = inspect.signature(torch.onnx.export).parameters.get("dynamo")
    if newer is not None and newer.default is True:
        batch = torch.export.Dim("batch")
        options |= {"dynamic_shapes": tuple({0: batch} for _ in order), "verbose": False}
    else:
        options["dynamic_axes"] = {name: {0: "batch"} for name in order}
    modes = [(each, each.training) for each in model.modules()]
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(directory, "model.onnx")
        try:
            model.eval()
            torch.onnx.export(model, tuple(tensor(named[name]) for name in order), str(path), **options)
        except ImportError as error:
            raise _missing(error.name or "onnxscript", "a network of torch", "onnx onnxscript") from error
        except Exception as error:
            # The exporter raises exceptions of many kinds.
            raise ModelError(
                f"compile: torch.onnx.export cannot export {type(model).__name__}: {error}; export it yourself and "
                "pass the file"
            ) from error
        finally:
            for each, training in modes:
                each.training = training
        return _unspoken.OnnxModel.load(path)


def _missing(package: str, what: str, packages: str) -> ConfigurationError:
    return ConfigurationError(
        f"compile: found no package {package}, needed it to convert {what}; pip install {packages}"
    )

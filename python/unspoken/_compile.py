"""Models of one's own for private predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import Any, Callable

from unspoken import _unspoken
from unspoken._model_values import (
    ModelInput,
    ModelOutput,
    Reader,
    answered,
    described,
    element_names,
    input_tables,
    listed_rows,
    warn_of_moved,
)
from unspoken._onnx_sources import onnx_model
from unspoken._predictor import Predictor


def compile(  # noqa: A001 - the name of the command
    model: Any,
    X: Any,
    *,
    batch: int = 128,
    preset: str | None = None,
    margin: float = 1.25,
    kink_bits: float = 9.0,
    smooth_bits: float = 12.0,
    keep_weights: bool = False,
    memory_mib: int = 8192,
    progress: bool | Callable[[_unspoken.Progress], object] = True,
) -> CompiledModel:
    """Compile a model for private predictions, as ``unspoken compile`` does.

    Parameters
    ----------
    model : path, bytes, onnx.ModelProto, scikit-learn estimator or torch.nn.Module
        An ONNX model; a fitted estimator or pipeline, which needs the package ``skl2onnx``; a network, which needs
        ``onnx``, and ``onnxscript`` for newer releases of torch. Of a network arrays of integers are indices.
    X : array-like, data frame or mapping
        Calibration: rows like those of clients, as for `ModelClient.ask`. They decide the ranges in which polynomials
        replace functions; rows with numbers outside have no answer later. The names of the columns of a data frame for
        a model with one input become names of the numbers of a row: clients see them.
    batch : int
        Rows of a query, rounded up to a power of two. Fewer make shorter queries, more take less time for each row.
    preset : str, optional
        Parameter set: see `presets`. By default the one with the fewest predicted seconds.
    margin : float
        Factor by which ranges are wider than in the calibration.
    kink_bits : float
        Precision of functions with a kink, such as ReLU: the mean error over the calibration, as bits of their range.
    smooth_bits : float
        Precision of smooth functions: the largest error, as bits of their range.
    keep_weights : bool
        Serve all weights as they are. Otherwise layers are fitted again to what polynomials give them, where that makes
        results more precise: dense ones get new weights, others a factor and a shift for each result.
    memory_mib : int
        Memory of weights, keys of one client, and one run, at most, in MiB.
    progress : bool or callable
        `True` draws bars on standard error if that is a terminal; a callable is called with a `Progress`.

    Returns
    -------
    CompiledModel
        Write it with `save`, serve it with ``unspoken serve --model DIR``, and ask with `ModelClient`.

    Raises
    ------
    ModelError
        If a part of the model cannot be served, which it names, no parameters are enough, or a number of the
        calibration is not finite.
    ConfigurationError
        If an option is out of range, or a package is missing.
    ArgumentError
        If rows do not fit the model.
    NotFittedError
        If an estimator was not trained.
    KeyboardInterrupt
        On Control-C. It ends at the next step of the work: within about a second, or some of a large network.

    Examples
    --------
    >>> import unspoken
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [2.0, 1.0, 3.0]
    >>> model = unspoken.compile(LinearRegression().fit(X, y), X)
    >>> model.predict(X).round(3)
    array([2., 1., 3.])
    >>> print(model.explain())  # doctest: +SKIP
    """
    options = {
        "batch": batch,
        "preset": preset,
        "margin": margin,
        "kink_bits": kink_bits,
        "smooth_bits": smooth_bits,
        "keep_weights": keep_weights,
        "memory_mib": memory_mib,
    }
    read, rows = onnx_model(model, X)
    inputs = [ModelInput(name, tuple(shape), table_rows) for name, shape, table_rows in read.inputs]
    compiled = read.compile(input_tables(rows, inputs), options, progress)
    return CompiledModel(compiled.with_elements(element_names(rows, inputs)))


class CompiledModel(Predictor):
    """A model that can be served: with polynomials in place of functions, and parameters for its encryption.

    Made by `compile` or read by `load`. Its predictions are those of the polynomials, in the clear: what a client gets
    differs from them by the error of the encryption only.

    Examples
    --------
    >>> import unspoken
    >>> model = unspoken.CompiledModel.load("service-model")  # doctest: +SKIP
    >>> model.report["seconds_on_one_core"], model.predict(rows)  # doctest: +SKIP
    """

    def __init__(self, model: _unspoken.CompiledModel) -> None:
        self._model = model

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> CompiledModel:
        """Read a model that `save` or ``unspoken compile`` wrote.

        Raises
        ------
        ModelError
            If the files are missing or damaged.

        Examples
        --------
        >>> model = unspoken.CompiledModel.load("service-model")  # doctest: +SKIP
        """
        return cls(_unspoken.CompiledModel.load(directory))

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the model into a directory, which is created if missing. It has the weights: keep it with the service.

        Examples
        --------
        >>> model.save("service-model")  # doctest: +SKIP
        """
        self._model.save(directory)

    @property
    def report(self) -> dict[str, Any]:
        """What is predicted, as ``unspoken compile --json`` prints it: levels, bytes, seconds, errors, functions."""
        report: dict[str, Any] = json.loads(self._model.report)
        return report

    def explain(self) -> str:
        """Return the report as text, as ``unspoken compile --explain`` prints it.

        Examples
        --------
        >>> print(model.explain())  # doctest: +SKIP
        """
        return self._model.explain()

    def __repr__(self) -> str:
        """Return inputs, outputs and parameters."""
        report = self.report
        inputs, outputs = (", ".join(report[name]) for name in ("inputs", "outputs"))
        parameters = f"{report['preset']}, {report['levels']} levels, {report['batch']} rows a query"
        return f"<CompiledModel from {inputs} to {outputs}: {parameters}>"

    def _answer(self, rows: Any, clip: bool, reader: Callable[[Sequence[ModelOutput]], Reader]) -> Any:
        inputs, outputs = self._describe()
        read = reader(outputs)
        listed, moved = listed_rows(rows, inputs, clip=clip)
        answers = self._model.predict(listed)
        warn_of_moved(moved)
        return answered(outputs, [answers], read)

    def _describe(self) -> tuple[tuple[ModelInput, ...], tuple[ModelOutput, ...]]:
        return described(self._model.facts())

"""Base class of trained models, with the interface of scikit-learn."""

from __future__ import annotations

import inspect
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from unspoken.errors import ArgumentError, NotFittedError


class _Files(Protocol):
    """A trained model that can be saved in a directory."""

    def save(self, directory: str | PathLike[str], /) -> None: ...


ModelT = TypeVar("ModelT", bound=_Files)
EstimatorT = TypeVar("EstimatorT", bound="Estimator[Any]")


class Estimator(Generic[ModelT]):
    """Options by name, files and pickling of a model that `fit` trains.

    Subclasses have their options as parameters and attributes, and define how a model is read.
    """

    # Reads the files of a model.
    _native: Any
    _model: ModelT
    # For scikit-learn before 1.6; later ones ask `__sklearn_tags__`.
    _estimator_type = "classifier"

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the trained model into a directory, which is created if missing.

        Examples
        --------
        >>> model.save("model")  # doctest: +SKIP
        """
        self._fitted("save the model").save(directory)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the options by name.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.FastText(columns=64).get_params()["columns"]
        64
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self: EstimatorT, **params: Any) -> EstimatorT:
        """Set options by name; return this object.

        Examples
        --------
        >>> import unspoken
        >>> unspoken.FastText().set_params(columns=64)
        FastText(columns=64)
        """
        defaults = self._defaults()
        unknown = sorted(set(params) - set(defaults))
        if unknown:
            raise ArgumentError(f"set options: found {unknown}, needed some of {sorted(defaults)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the options that are not at their defaults."""
        defaults = self._defaults()
        shown = [f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the options and, when fitted, the files of the model."""
        state = {name: value for name, value in self.__dict__.items() if name != "_model"}
        model: ModelT | None = self.__dict__.get("_model")
        if model is not None:
            with tempfile.TemporaryDirectory() as directory:
                model.save(directory)
                paths = Path(directory).iterdir()
                state["_files"] = {path.name: path.read_bytes() for path in paths}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state that `__getstate__` returned."""
        files = state.pop("_files", None)
        self.__dict__.update(state)
        if files is not None:
            with tempfile.TemporaryDirectory() as directory:
                for name, content in files.items():
                    Path(directory, Path(name).name).write_bytes(content)
                self._model = self._native.load(directory)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` was called, for scikit-learn."""
        return hasattr(self, "_model")

    def _fitted(self, purpose: str) -> ModelT:
        """Return the model; raise an error that names `purpose` if there is none."""
        model: ModelT | None = self.__dict__.get("_model")
        if model is None:
            raise NotFittedError(
                f"{purpose}: found a model without training, needed a fitted one; "
                f"call fit, or {type(self).__name__}.load"
            )
        return model

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the options and their defaults."""
        parameters = inspect.signature(cls).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

"""Numpy's array protocol: which functions accept encrypted matrices, and what to do instead of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NoReturn, TypeVar

import numpy as np

from unspoken._matrix_encrypted import Encrypted
from unspoken.errors import ArgumentError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

# What numpy calls with an encrypted matrix: ufuncs by name, other functions by themselves. The modules that have them
# register them when they are imported.
_UFUNCS: dict[str, Callable[..., Any]] = {}
_FUNCTIONS: dict[Any, Callable[..., Any]] = {}

COMPARE = "encrypted entries cannot be compared: decrypt first"
_POLYNOMIAL = (
    "only sums and products of encrypted entries can be computed: write a polynomial that approximates it, "
    "or decrypt first"
)
_DIVISION = "encrypted entries divide nothing: multiply by an approximate inverse, or decrypt first"
_ROUNDING = "sums and products of encrypted entries do not round: decrypt first"
_OTHER = "write it with +, -, *, @, sum, reshape, concatenate and selections (help(unspoken.Matrix)), or decrypt first"

# Why a function is refused, and what to do instead.
_REASONS = {
    COMPARE: """equal not_equal less less_equal greater greater_equal maximum minimum fmax fmin max min amax amin
        nanmax nanmin argmax argmin nanargmax nanargmin ptp sort argsort partition argpartition lexsort clip sign abs
        absolute fabs median nanmedian percentile quantile unique nonzero argwhere flatnonzero count_nonzero any all
        allclose isclose array_equal array_equiv logical_and logical_or logical_not logical_xor isnan isinf isfinite
        searchsorted digitize histogram in1d isin round around rint floor ceil trunc fix""",
    _POLYNOMIAL: """exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan arctan2 sinh cosh
        tanh arcsinh arccosh arctanh hypot logaddexp std norm float_power sinc i0""",
    _ROUNDING: "floor_divide remainder mod divmod fmod",
    _DIVISION: "reciprocal inv pinv solve lstsq det slogdet cond",
}
# Values of parameters, besides None, that change nothing.
_DEFAULTS = {"order": "CKA", "casting": ("same_kind", "unsafe")}
_REASON = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def reason(name: str) -> str:
    """Return why a function of numpy, or a method of its arrays, is not available, and what to do.

    Examples
    --------
    >>> reason("argmax")
    'encrypted entries cannot be compared: decrypt first'
    """
    return _REASON.get(name, _OTHER)


def refuse(name: str) -> NoReturn:
    """Raise: this function of numpy is not available."""
    raise ArgumentError(f"numpy.{name} is not available for encrypted matrices: {reason(name.rpartition('.')[2])}")


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """Return the result of a ufunc on encrypted matrices, or NotImplemented if another type may know it."""
    if any(_is_foreign(each) for each in inputs):
        return NotImplemented
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    if name not in _UFUNCS:
        refuse(name)
    if method != "__call__":
        return _UFUNCS[name](*inputs, **options)
    check_defaults(name, **options)
    return _UFUNCS[name](*inputs)


def _is_foreign(operand: Any) -> bool:
    known = (Encrypted, np.ndarray, np.generic)
    return not isinstance(operand, known) and hasattr(type(operand), "__array_ufunc__")


def call_function(function: Callable[..., Any], types: Any, arguments: Any, options: Any) -> Any:
    """Return the result of another function of numpy, or NotImplemented if another type may know it."""
    if not all(issubclass(each, (Encrypted, np.ndarray)) for each in types):
        return NotImplemented
    if function not in _FUNCTIONS:
        module = getattr(function, "__module__", "") or ""
        refuse(".".join([*module.split(".")[1:], function.__name__]))
    return _FUNCTIONS[function](*arguments, **options)


def implementation(function: Any) -> Callable[..., Any]:
    """Return what is registered for a function of numpy, which has an implementation."""
    return _UFUNCS[function.__name__] if isinstance(function, np.ufunc) else _FUNCTIONS[function]


def implements(*names: str) -> Callable[[FunctionT], FunctionT]:
    """Register a function with the parameters of numpy's functions of these names, as far as this numpy has them."""

    def register(function: FunctionT) -> FunctionT:
        for name in names:
            module, _, last = name.rpartition(".")
            there = getattr(getattr(np, module) if module else np, last, None)
            if there is not None:
                _FUNCTIONS[there] = function
        return function

    return register


def check_defaults(name: str, **options: Any) -> None:
    """Refuse parameters of numpy's functions that are not supported, unless they have their default."""
    for option, value in options.items():
        default = value is None or (option in ("where", "subok") and value is True)
        default = default or (isinstance(value, str) and value in _DEFAULTS.get(option, ()))
        default = default or option == "optimize"
        if not default and not (option == "dtype" and np.dtype(value) == np.float64):
            raise ArgumentError(f"numpy.{name}: {option}= is not available for encrypted matrices; leave it out")


def implements_ufunc(*names: str) -> Callable[[FunctionT], FunctionT]:
    """Register a function for ufuncs of these names, or for a method of a ufunc (``"add.reduce"``)."""

    def register(function: FunctionT) -> FunctionT:
        _UFUNCS.update(dict.fromkeys(names, function))
        return function

    return register

"""Errors of arguments that the compiled module cannot take, as errors of this package."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, TypeVar

from unspoken import _unspoken
from unspoken.errors import ArgumentError

Made = TypeVar("Made")

_METHODS = (types.MethodDescriptorType, types.ClassMethodDescriptorType, staticmethod)


def utf8(text: str, what: str) -> bytes:
    r"""Return a text in UTF-8; `what` is its name in the error if it is no Unicode text.

    Examples
    --------
    >>> utf8("é", "get")
    b'\xc3\xa9'
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{what}: {_said(error)}") from None


def _said(error: Exception) -> str:
    """Return what was found and needed. The error of Python shows part of the text, which may be private."""
    if isinstance(error, UnicodeEncodeError):
        return (
            f"found half of a surrogate pair at position {error.start} of a text, needed Unicode; decode its bytes "
            "with their own encoding, or with errors='replace'"
        )
    return str(error)


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the function, with errors of its arguments as `ArgumentError`."""

    @functools.wraps(function, updated=())
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TypeError, UnicodeEncodeError, OverflowError) as error:
            # An error that passed through Python code on its way comes from a callback.
            if isinstance(error, ArgumentError) or (error.__traceback__ and error.__traceback__.tb_next):
                raise
            said = f"{name}: {_said(error)}"
        raise ArgumentError(said)

    return call


def made(kind: Callable[..., Made], what: str, *arguments: object) -> Made:
    """Return an object of a class of the compiled module, whose constructor `guard` does not reach.

    Examples
    --------
    >>> try:
    ...     made(_unspoken.Service, "make a client", 5, None, None, False, None, False)
    ... except ArgumentError as error:
    ...     print(error)
    make a client: 'int' object is not an instance of 'str'
    """
    made: Made = _guarded(kind, what)(*arguments)
    return made


def _guard_class(kind: type) -> None:
    """Guard the methods of a class, but not its constructor and operators."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, _METHODS) and not name.startswith("__"):
            whole = f"{kind.__name__}.{name}"
            if isinstance(member, types.MethodDescriptorType):
                setattr(kind, name, _guarded(member, whole))
            else:
                setattr(kind, name, staticmethod(_guarded(getattr(kind, name), whole)))


def guard() -> None:
    """Guard all functions and methods of the compiled module. Called once, when the package is imported.

    Examples
    --------
    >>> import unspoken
    >>> try:
    ...     unspoken.load_texts("texts.csv", "csv", text_column=5)
    ... except unspoken.ArgumentError as error:
    ...     print(str(error).split(":")[0])
    load_texts
    """
    for name, member in list(vars(_unspoken).items()):
        if isinstance(member, type):
            _guard_class(member)
        elif isinstance(member, types.BuiltinFunctionType):
            setattr(_unspoken, name, _guarded(member, name))

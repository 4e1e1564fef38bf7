"""Warnings that name the line of the caller's code."""

from __future__ import annotations

import sys
import warnings


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn; the warning names the line that called this package.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_caller("look", UserWarning)
    >>> str(caught[0].message)
    'look'
    """
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals["__name__"].startswith("unspoken."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

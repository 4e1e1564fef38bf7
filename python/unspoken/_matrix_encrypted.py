"""The common part of expressions and results: what needs the entries fails with a reason."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from unspoken.errors import ArgumentError


class Encrypted:
    """An array whose entries are not known here: reading, comparing and changing them raise `TypeError`."""

    __hash__ = object.__hash__
    dtype = np.dtype(np.float64)
    # What to do instead of reading the entries.
    _remedy = ""

    def _unreadable(self, *_: object, **__: object) -> NoReturn:
        raise ArgumentError(f"an encrypted matrix has no entries to read: {self._remedy}")

    __array__ = __dlpack__ = __float__ = __int__ = __complex__ = __index__ = item = tolist = _unreadable

    def _uncomparable(self, *_: object) -> NoReturn:
        raise ArgumentError(f"encrypted entries cannot be compared: {self._remedy}")

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _uncomparable

    def __setitem__(self, key: object, value: object) -> NoReturn:
        """Raise: expressions and results do not change."""
        raise ArgumentError(
            "entries of an encrypted matrix cannot be assigned: write a new expression, "
            "for example numpy.where(mask, values, a) or numpy.concatenate"
        )

"""Files that are never overwritten."""

from __future__ import annotations

import os
from os import PathLike


def write_new(path: str | PathLike[str], data: bytes, *, mode: int = 0o600) -> None:
    """Write a new file, which lasts when the call returns. By default only its owner can read it.

    Raises
    ------
    OSError
        If the file exists or cannot be written.

    Examples
    --------
    >>> write_new("survey.private", data)  # doctest: +SKIP
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

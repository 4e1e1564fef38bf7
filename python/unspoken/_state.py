"""Location of a client's secret key."""

from __future__ import annotations

import os
from pathlib import Path


def default_state_directory() -> Path:
    """Return the state directory. The `unspoken` command uses the same one, so both share their keys.

    ``$UNSPOKEN_STATE``, or ``$XDG_DATA_HOME/unspoken``, or ``~/.local/share/unspoken``.

    Examples
    --------
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {"UNSPOKEN_STATE": "", "XDG_DATA_HOME": "/data"}):
    ...     default_state_directory().as_posix()
    '/data/unspoken'
    """
    if os.environ.get("UNSPOKEN_STATE"):
        return Path(os.environ["UNSPOKEN_STATE"])
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "unspoken"

"""Location of a client's secret key."""

from __future__ import annotations

import os
from pathlib import Path

from unspoken.errors import ConfigurationError


def default_state_directory() -> Path:
    """Return the state directory. The `unspoken` command uses the same one, so both share their keys.

    ``$UNSPOKEN_STATE``, or ``unspoken`` in ``$XDG_DATA_HOME`` or in ``~/.local/share``. As the XDG Base Directory
    Specification says, an empty variable is as one that is not set, and a relative path is ignored.

    Raises
    ------
    ConfigurationError
        If there is none: keys must not land wherever the program runs.

    Examples
    --------
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {"UNSPOKEN_STATE": "", "XDG_DATA_HOME": "/data"}):
    ...     default_state_directory().as_posix()
    '/data/unspoken'
    """
    if os.environ.get("UNSPOKEN_STATE"):
        return Path(os.environ["UNSPOKEN_STATE"])
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    for parent in (data, _home() / ".local" / "share"):
        if parent.is_absolute():
            return parent / "unspoken"
    raise ConfigurationError(
        "make a client: found no directory for the secret keys, as XDG_DATA_HOME names no absolute path and the user "
        "has no home directory; name one with state_dir="
    )


def _home() -> Path:
    """Return the home directory: from HOME, or from the system; a relative path if there is none."""
    if os.environ.get("HOME") or not hasattr(os, "getuid"):
        return Path(os.environ.get("HOME") or os.environ.get("USERPROFILE", ""))
    import pwd  # not on all systems

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path()

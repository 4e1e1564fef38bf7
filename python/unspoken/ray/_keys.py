"""Key bundles in an object store, so that they outlive the disk of the gateway."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

from unspoken._key_cache import ID
from unspoken.errors import ConfigurationError

_log = logging.getLogger("unspoken.ray")


class KeyMirror:
    """Copies finished key bundles to a directory of ``fsspec``, and back to a new disk.

    A bundle is copied before the client is told that it is complete. It may contain no secret: evaluation keys are for
    the service.
    """

    def __init__(self, data_dir: Path, url: str, options: dict[str, Any]) -> None:
        if importlib.util.find_spec("fsspec") is None:
            raise ConfigurationError(f'keys={url!r}: found no fsspec, which copies them; pip install "unspoken[ray]"')
        self._keys = data_dir / "keys"
        self._url, self._options = url, options

    def __repr__(self) -> str:
        """Show the place, without options: they may have credentials."""
        return f"<KeyMirror {self._url}>"

    def _store(self) -> tuple[Any, str]:
        import fsspec

        system, root = fsspec.core.url_to_fs(self._url, **self._options)
        return system, root.rstrip("/")

    def restore(self) -> None:
        """Fetch the bundles that this disk lacks. One that cannot be fetched is left out: its client sends it again."""
        system, root = self._store()
        if not system.exists(root):
            return
        for entry in system.ls(root, detail=False):
            bundle = entry.rstrip("/").rsplit("/", 1)[-1]
            if ID.fullmatch(bundle) is None:
                continue
            # An upload that is complete elsewhere only is completed by its client.
            if any((self._keys.parent / place / bundle).exists() for place in ("keys", "uploads")):
                continue
            try:
                self._fetch(system, f"{root}/{bundle}", bundle)
            except OSError as error:
                _log.warning("keys %s cannot be fetched: %s", bundle, error)

    def _fetch(self, system: Any, place: str, bundle: str) -> None:
        # The mark is written last: a bundle without it was not complete.
        if not system.exists(f"{place}/{_MARK}"):
            return
        part = self._keys.parent / "restoring" / bundle
        part.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in _FILES:
            system.get_file(f"{place}/{name}", str(part / name))
        self._keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.rename(self._keys / bundle)

    def save(self, name: str, text: str) -> None:
        """Write a short file beside the bundles."""
        system, root = self._store()
        system.makedirs(root, exist_ok=True)
        system.pipe_file(f"{root}/{name}", text.encode())

    def load(self, name: str) -> str | None:
        """Read a short file beside the bundles, if there is one."""
        system, root = self._store()
        path = f"{root}/{name}"
        return system.cat_file(path).decode() if system.exists(path) else None

    def stored(self, path: str, bundle: str) -> None:
        """Copy a finished bundle, whose files are still in the directory ``path``."""
        system, root = self._store()
        system.makedirs(f"{root}/{bundle}", exist_ok=True)
        for name in _FILES:
            system.put_file(str(Path(path) / name), f"{root}/{bundle}/{name}")
        system.pipe_file(f"{root}/{bundle}/{_MARK}", b"")

    def removed(self, _path: str, bundle: str) -> None:
        """Delete a bundle that was deleted or has expired."""
        system, root = self._store()
        # Without its mark it is not there any more, whatever else fails.
        if system.exists(f"{root}/{bundle}/{_MARK}"):
            system.rm_file(f"{root}/{bundle}/{_MARK}")
        if system.exists(f"{root}/{bundle}"):
            system.rm(f"{root}/{bundle}", recursive=True)


#: The files of a bundle, and the mark of a complete one.
_FILES = ("meta.json", "data")
_MARK = "complete"

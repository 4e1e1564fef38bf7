"""The loaded keys of the clients that asked last."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Any, Callable

from unspoken._unspoken import LoadedKeys, LocalApplication

#: The id of a client's keys, and of a call of `batches.encrypt`: nothing else becomes a part of a path.
ID = re.compile("[0-9a-f]{32}")

#: How a call ended: a name, the answer or the text of an error, and seconds to wait before the next attempt.
Outcome = tuple[str, bytes, int]


class KeyCache:
    """Loaded keys: up to a number of bytes, or the keys of one client if they are larger.

    The keys that were used last stay.
    """

    def __init__(self, application: LocalApplication, capacity: int) -> None:
        self._application = application
        self._capacity = capacity
        self._bytes = 0
        self._keys: OrderedDict[str, LoadedKeys] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def __len__(self) -> int:
        """Return the number of clients whose keys are loaded."""
        return len(self._keys)

    def get(self, key: str, fetch: Callable[[], Any]) -> tuple[LoadedKeys | None, Outcome]:
        """Return the keys of a bundle, or an error. If they are not there, the array of ``fetch`` is loaded."""
        with self._lock:
            own = self._loading.setdefault(key, threading.Lock())
        # Others that need the same keys wait, and do not load them too.
        with own:
            try:
                with self._lock:
                    if key in self._keys:
                        self._keys.move_to_end(key)
                        return self._keys[key], ("answer", b"", 0)
                loaded, outcome = self._application.load_keys(fetch())
                if loaded is not None:
                    self._keep(key, loaded)
                return loaded, outcome
            finally:
                with self._lock:
                    self._loading.pop(key, None)

    def _keep(self, key: str, loaded: LoadedKeys) -> None:
        with self._lock:
            self._keys[key] = loaded
            self._bytes += loaded.bytes
            while self._bytes > self._capacity and len(self._keys) > 1:
                self._bytes -= self._keys.popitem(last=False)[1].bytes

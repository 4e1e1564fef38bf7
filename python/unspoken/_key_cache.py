"""The loaded keys of the clients that asked last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Callable

from unspoken._unspoken import HostedApplication, HostedKeys

#: How a call ended: a name, the answer or the text of an error, and seconds to wait before the next attempt.
Outcome = tuple[str, bytes, int]


class KeyCache:
    """Loaded keys up to so many bytes; those that were used last stay."""

    def __init__(self, application: HostedApplication, capacity: int) -> None:
        self._application = application
        self._each = application.facts()["key_memory_bytes"]
        self._most = max(1, capacity // max(1, self._each))
        self._keys: OrderedDict[str, HostedKeys] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def __len__(self) -> int:
        """Return the number of clients whose keys are loaded."""
        return len(self._keys)

    def get(self, key: str, fetch: Callable[[], Any]) -> tuple[HostedKeys | None, Outcome]:
        """Return the keys of a bundle, or an error. If they are not there, the array of ``fetch`` is loaded."""
        with self._lock:
            own = self._loading.setdefault(key, threading.Lock())
        # Others that need the same keys wait, and do not load them too.
        with own:
            with self._lock:
                if key in self._keys:
                    self._keys.move_to_end(key)
                    return self._keys[key], ("answer", b"", 0)
            loaded, outcome = self._application.load_keys(fetch())
            with self._lock:
                if loaded is None:
                    self._loading.pop(key, None)
                else:
                    self._keys[key] = loaded
                    while len(self._keys) > self._most:
                        gone, _ = self._keys.popitem(last=False)
                        self._loading.pop(gone, None)
            return loaded, outcome

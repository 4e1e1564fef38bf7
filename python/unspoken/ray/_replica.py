"""A replica: the server half of one application, with the keys of the clients that asked it last."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any

import ray

from unspoken._unspoken import HostedApplication, HostedKeys, Work
from unspoken.ray._offer import Offer

#: How a call ended: a name, the answer or the text of an error, and seconds to wait before the next attempt.
Outcome = tuple[str, bytes, int]

#: Seconds between two reports of how far an answer is.
_REPORT_SECONDS = 0.25


class Replica:
    """Answers queries one after the other: each uses all cores of the replica. What is short is answered meanwhile."""

    def __init__(self, offer: Offer) -> None:
        # The threads of the Rust core are started by its first work.
        os.environ["RAYON_NUM_THREADS"] = str(offer.cpus)
        options = {str(name): str(value) for name, value in offer.options.items()}
        self._application = HostedApplication.load(offer.kind, str(offer.path), offer.name, options)
        self._cache = KeyCache(self._application, offer.key_cache)
        self._turn = asyncio.Semaphore(1)

    async def facts(self) -> dict[str, Any]:
        """Return what the gateway must know of the application, as it is now."""
        return {**self._application.facts(), "complaint": self._application.complaint()}

    async def published(self) -> bytes | None:
        """Return the model that its owner publishes."""
        return self._application.published()

    async def check_header(self, header: bytes) -> Outcome:
        """Check whether the first bytes of a bundle are those of keys for this application."""
        return self._application.check_header(header)

    async def load_keys(self, key: str, keys: list[Any]) -> Outcome:
        """Load a bundle, so that a malformed one is refused before it is asked with."""
        async with self._turn:
            _, outcome = await asyncio.to_thread(self._cache.get, key, keys[0])
        return outcome

    async def answer(self, client: bytes, key: str, keys: list[Any], query: bytes) -> Outcome:
        """Answer a query; ``keys`` has the reference of the bundle ``key`` in the object store."""
        work = Work()
        try:
            return await self._in_turn(client, key, keys[0], query, work)
        finally:
            # The request may have been cancelled.
            work.cancel()

    async def answer_in_steps(
        self, client: bytes, key: str, keys: list[Any], query: bytes
    ) -> AsyncIterator[Outcome | tuple[int, int]]:
        """Answer a query, and report how far the answer is until it is there."""
        work = Work()
        answer = asyncio.ensure_future(self._in_turn(client, key, keys[0], query, work))
        reported = None
        try:
            while not (await asyncio.wait([answer], timeout=_REPORT_SECONDS))[0]:
                if work.progress not in (None, reported):
                    reported = work.progress
                    yield reported
            yield answer.result()
        finally:
            work.cancel()

    async def _in_turn(self, client: bytes, key: str, reference: Any, query: bytes, work: Work) -> Outcome:
        async with self._turn:
            return await asyncio.to_thread(self._answer, client, key, reference, query, work)

    def _answer(self, client: bytes, key: str, reference: Any, query: bytes, work: Work) -> Outcome:
        loaded, failure = self._cache.get(key, reference)
        return failure if loaded is None else self._application.answer(client, loaded, query, work)


class KeyCache:
    """The loaded keys of the clients that asked last."""

    def __init__(self, application: HostedApplication, capacity: int) -> None:
        self._application = application
        self._each = application.facts()["key_memory_bytes"]
        self._most = max(1, capacity // max(1, self._each))
        self._keys: OrderedDict[str, HostedKeys] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def get(self, key: str, reference: Any) -> tuple[HostedKeys | None, Outcome]:
        """Return the keys of a bundle, loaded if they are not there; or an error."""
        with self._lock:
            own = self._loading.setdefault(key, threading.Lock())
        # Others that need the same keys wait, and do not load them too.
        with own:
            with self._lock:
                if key in self._keys:
                    self._keys.move_to_end(key)
                    return self._keys[key], ("answer", b"", 0)
            # A view of the object store of this node.
            loaded, outcome = self._application.load_keys(ray.get(reference))
            with self._lock:
                if loaded is None:
                    self._loading.pop(key, None)
                else:
                    self._keys[key] = loaded
                    while len(self._keys) > self._most:
                        gone, _ = self._keys.popitem(last=False)
                        self._loading.pop(gone, None)
            return loaded, outcome

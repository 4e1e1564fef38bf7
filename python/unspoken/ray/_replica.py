"""A replica: the server halves of one offer, with the keys of the clients that asked it last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, TypeVar

import ray

from unspoken._key_cache import KeyCache, Outcome
from unspoken._unspoken import LocalApplication, Work
from unspoken.ray._helpers import Helpers
from unspoken.ray._loaded import loaded
from unspoken.ray._meters import Meters
from unspoken.ray._offer import Offer

ResultT = TypeVar("ResultT")

#: Seconds between two reports of how far an answer is.
_REPORT_SECONDS = 0.25


class Replica:
    """The applications of one offer. A call names the application that it is for."""

    def __init__(self, offer: Offer) -> None:
        parts = [_Part(application, offer) for application in loaded(offer)]
        self._parts = {part.name: part for part in parts}

    async def applications(self) -> list[tuple[dict[str, Any], bytes | None]]:
        """Return what the gateway must know of each application, and the model that its owner publishes."""
        return [(part.facts(), part.application.published()) for part in self._parts.values()]

    async def facts(self, name: str) -> dict[str, Any]:
        """Return what the gateway must know of an application, as it is now."""
        return self._parts[name].facts()

    async def check_header(self, name: str, header: bytes) -> Outcome:
        """Check whether a bundle with these first bytes has keys for this application."""
        return self._parts[name].application.check_header(header)

    async def load_keys(self, name: str, key: str, keys: list[Any]) -> Outcome:
        """Load a bundle, so that a malformed one is refused before it is asked with."""
        return await self._parts[name].load_keys(key, keys[0])

    async def answer(self, name: str, client: bytes, key: str, keys: list[Any], *query: bytes) -> Outcome:
        """Answer a query, which is in pieces; ``keys`` has the reference of the bundle ``key`` in the object store."""
        work = Work()
        try:
            return await self._parts[name].answer(client, key, keys[0], b"".join(query), work)
        finally:
            # The request may have been cancelled.
            work.cancel()

    async def answer_in_steps(
        self, name: str, client: bytes, key: str, keys: list[Any], *query: bytes
    ) -> AsyncIterator[Outcome | tuple[int, int]]:
        """Answer a query, and report how far the answer is until it is there."""
        work = Work()
        answer = asyncio.ensure_future(self._parts[name].answer(client, key, keys[0], b"".join(query), work))
        reported = None
        try:
            while not (await asyncio.wait([answer], timeout=_REPORT_SECONDS))[0]:
                if work.progress not in (None, reported):
                    reported = work.progress
                    yield reported
            yield answer.result()
        finally:
            work.cancel()


class _Part:
    """Answers queries to one application one after the other: each uses all cores of the replica, and its helpers.

    Short questions are answered meanwhile. Where one computation answers several queries, the next computation answers
    all waiting queries together.
    """

    def __init__(self, application: LocalApplication, offer: Offer) -> None:
        self.application = application
        self._cache = KeyCache(application, offer.key_cache)
        facts = application.facts()
        self.name: str = facts["name"]
        together = facts["most_together"]
        self._turn = asyncio.Semaphore(together)
        self._threads = ThreadPoolExecutor(together)
        self._meters = Meters(self.name)
        self._helpers = Helpers(offer, self._meters) if offer.helpers else None

    def facts(self) -> dict[str, Any]:
        """Return what the gateway must know of the application, as it is now."""
        return {**self.application.facts(), "complaint": self.application.complaint()}

    async def load_keys(self, key: str, reference: Any) -> Outcome:
        """Load a bundle, so that a malformed one is refused before it is asked with."""
        if self._helpers is not None:
            self._helpers.load(key, reference)
        async with self._turn:
            _, outcome = await self._threaded(lambda: self._cache.get(key, lambda: ray.get(reference)))
        return outcome

    async def answer(self, client: bytes, key: str, reference: Any, query: bytes, work: Work) -> Outcome:
        """Answer a query in its turn."""
        start = time.monotonic()
        async with self._turn:
            outcome = await self._threaded(lambda: self._answer(client, key, reference, query, work))
        self._meters.answered(outcome[0], time.monotonic() - start, len(self._cache))
        return outcome

    def _threaded(self, call: Callable[[], ResultT]) -> Awaitable[ResultT]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _answer(self, client: bytes, key: str, reference: Any, query: bytes, work: Work) -> Outcome:
        # A view of the object store of this node.
        keys, failure = self._cache.get(key, lambda: ray.get(reference))
        if keys is None:
            return failure
        if self._helpers is None:
            return self.application.answer(client, keys, query, work)
        with self._helpers.of_answer(key, reference, work) as helpers:
            return self.application.answer(client, keys, query, work, helpers)

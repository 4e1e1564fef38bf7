"""Helpers of a replica: further processes that compute parts of its answers."""

from __future__ import annotations

import logging
import threading
from typing import Any

import ray

from unspoken._key_cache import KeyCache, Outcome
from unspoken._unspoken import Work
from unspoken.ray._loaded import loaded
from unspoken.ray._meters import Meters
from unspoken.ray._offer import Offer

_log = logging.getLogger("unspoken.ray")

#: Seconds between two looks at whether a part is still wanted.
_LOOK_SECONDS = 0.25


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


class Helper:
    """Computes parts of answers, one after the other."""

    def __init__(self, offer: Offer) -> None:
        [self._application] = loaded(offer)
        self._cache = KeyCache(self._application, offer.key_cache)

    def ready(self) -> None:
        """Return when the application is loaded."""

    def load(self, key: str, keys: list[Any]) -> None:
        """Load a bundle before the first part needs it."""
        self._cache.get(key, lambda: ray.get(keys[0]))

    def compute(self, key: str, keys: list[Any], part: bytes) -> Outcome:
        """Compute a part; ``keys`` has the reference of the bundle ``key`` in the object store."""
        loaded_keys, failure = self._cache.get(key, lambda: ray.get(keys[0]))
        return failure if loaded_keys is None else self._application.compute_part(loaded_keys, part, Work())

    def rest(self) -> None:
        """Give back the memory that parts keep for later ones: an answer has ended."""
        self._application.release_idle_memory()


class Helpers:
    """The helpers of a replica, which end with it. One that dies is started again, and used when it is ready."""

    def __init__(self, offer: Offer, meters: Meters) -> None:
        self._meters = meters
        kind = ray.remote(Helper).options(max_restarts=-1, scheduling_strategy="SPREAD", **offer.resources)
        self._actors: list[Any] = [kind.remote(offer.of_helpers) for _ in range(offer.helpers)]
        self._ready: list[Any] = [actor.ready.remote() for actor in self._actors]
        self._lock = threading.Lock()

    def load(self, key: str, reference: Any) -> None:
        """Let all helpers load the keys of a client."""
        for index, actor in enumerate(self._actors):
            actor.load.remote(key, [reference])
            self._wait_for(index)

    def of_answer(self, key: str, reference: Any, work: Work) -> _OfAnswer:
        """Return the helpers that are ready now, for one answer."""
        with self._lock:
            ready = [index for index in range(len(self._actors)) if self._is_ready(index)]
        return _OfAnswer(self, ready, key, reference, work)

    def _is_ready(self, index: int) -> bool:
        if not ray.wait([self._ready[index]], timeout=0)[0]:
            return False
        try:
            ray.get(self._ready[index])
        except ray.exceptions.RayError as error:
            _log.warning("a helper is not ready, and answers are computed without it: %s", _first_line(error))
            self._ready[index] = self._actors[index].ready.remote()
            return False
        return True

    def _wait_for(self, index: int) -> None:
        """Use a helper again when it has done what it was asked for so far."""
        with self._lock:
            self._ready[index] = self._actors[index].ready.remote()

    def rest(self, indices: list[int]) -> None:
        """Let some helpers give back memory."""
        for index in indices:
            self._actors[index].rest.remote()

    def compute(self, index: int, of: _OfAnswer, part: bytes) -> bytes | None:
        """Compute a part in a helper; None if it does not, or if the answer is cancelled."""
        result = self._computed(index, of, part)
        self._meters.helped("given back" if result is None else "computed", len(part), len(result or b""))
        return result

    def _computed(self, index: int, of: _OfAnswer, part: bytes) -> bytes | None:
        actor = self._actors[index]
        result = actor.compute.remote(of.key, [of.reference], part)
        while not ray.wait([result], timeout=_LOOK_SECONDS)[0]:
            if of.work.cancelled:
                # It is ready for another answer when it has computed the part.
                self._wait_for(index)
                return None
        try:
            name, answer, _ = ray.get(result)
        except ray.exceptions.RayError as error:
            _log.warning("a helper failed; its part is computed elsewhere: %s", _first_line(error))
            self._wait_for(index)
            return None
        if name == "answer":
            return bytes(answer)
        _log.warning("a helper cannot compute a part; it is computed elsewhere: %s", answer.decode(errors="replace"))
        return None


class _OfAnswer:
    """The helpers of one answer, which rest after it."""

    def __init__(self, helpers: Helpers, ready: list[int], key: str, reference: Any, work: Work) -> None:
        self._helpers, self._ready = helpers, ready
        self.key, self.reference, self.work = key, reference, work

    def __enter__(self) -> _OfAnswer:
        """Return them."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let them rest."""
        self._helpers.rest(self._ready)

    def count(self) -> int:
        """Return how many there are."""
        return len(self._ready)

    def compute(self, helper: int, part: bytes) -> bytes | None:
        """Compute a part in one of them."""
        return self._helpers.compute(self._ready[helper], self, part)

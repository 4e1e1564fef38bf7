"""The other side of a gateway's applications: passes keys and queries to replicas."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.exceptions import ObjectLostError, OwnerDiedError, RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException

from unspoken.ray._replica import Outcome

#: Seconds for which a query is passed to other replicas when one dies.
_PATIENCE = 30.0
#: Seconds to wait for what replicas answer at once.
_CONTROL_SECONDS = 30.0
#: Seconds between two looks at what an application is now: databases change while they are served.
_LOOK_SECONDS = 2.0
#: Pauses between attempts, in seconds.
_PAUSE = 0.2

#: What a replica, its node, or the object store may raise when something dies.
_LOST = (RayActorError, ObjectLostError, OwnerDiedError)


@dataclass(frozen=True)
class Keys:
    """The keys of a client in the object store."""

    id: str
    reference: Any


class Host:
    """One application: its replicas, and what is known of it."""

    def __init__(self, handle: Any, facts: dict[str, Any], is_slow: bool) -> None:
        self._handle = handle
        self._facts = facts
        self.is_slow = is_slow
        threading.Thread(target=self._look_on, daemon=True).start()

    def _look_on(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Ask a replica what the application is now."""
        handle = self._handle
        try:
            facts = handle.facts.remote().result(timeout_s=_CONTROL_SECONDS)
        except Exception as error:
            facts = {**self._facts, "complaint": f"no replica answers: {type(error).__name__}"}
        # It may have moved meanwhile.
        if handle is self._handle:
            self._facts = facts

    def move(self, handle: Any, facts: dict[str, Any]) -> None:
        """Pass later queries to other replicas. Those that wait are answered by the replicas that have them."""
        self._handle, self._facts = handle, facts

    def facts(self) -> dict[str, Any]:
        """Return what is known of the application."""
        return self._facts

    def description(self) -> bytes | None:
        """Return the description as it is now; none if no replica answers."""
        try:
            described: bytes = self._handle.facts.remote().result(timeout_s=_CONTROL_SECONDS)["description"]
        except Exception:
            return None
        return described

    def complaint(self) -> str | None:
        """Say why answers may be old or late, if they may."""
        complaint: str | None = self._facts.get("complaint")
        return complaint

    def check_header(self, header: bytes) -> Outcome:
        """Check whether the first bytes of a bundle are those of keys for this application."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                outcome: Outcome = self._handle.check_header.remote(header).result(timeout_s=_CONTROL_SECONDS)
            except (*_LOST, RayServeException, TimeoutError) as error:
                if time.monotonic() > deadline:
                    return _busy(error)
                time.sleep(_PAUSE)
            else:
                return outcome

    def put_keys(self, bundle: bytes) -> Keys:
        """Put a bundle into the object store, where replicas of all nodes read it."""
        array = np.frombuffer(bundle, dtype=np.uint8)
        return Keys(hashlib.blake2b(bundle, digest_size=16).hexdigest(), ray.put(array))

    def ask(self, client: bytes, keys: Keys, query: bytes) -> Asked:
        """Pass a query to a replica, if possible to one that has the keys already."""
        return Asked(self, (client, keys.id, [keys.reference], query))

    @property
    def handle(self) -> Any:
        """Return the replicas that queries go to now."""
        return self._handle.options(stream=True) if self.is_slow else self._handle


class Asked:
    """A query that a replica has, and its answer once it is there."""

    def __init__(self, host: Host, arguments: tuple[bytes, str, list[Any], bytes]) -> None:
        self._host = host
        self._arguments = arguments
        self._deadline = time.monotonic() + _PATIENCE
        self._outcome: Outcome | None = None
        self._newest: tuple[int, int] | None = None
        self._changed = threading.Condition()
        self._response: Any = None
        self._is_cancelled = False
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds: float) -> Outcome | tuple[int, int] | None:
        """Return the outcome once it is there; how far it is, if that has changed; else nothing."""
        with self._changed:
            if self._outcome is None and self._newest is None:
                self._changed.wait(seconds)
            newest, self._newest = self._newest, None
            return self._outcome or newest

    def cancel(self) -> None:
        """Stop the work."""
        self._is_cancelled = True
        if self._response is not None:
            self._response.cancel()

    def _run(self) -> None:
        while not self._is_cancelled:
            try:
                self._finish(self._attempt())
            except (*_LOST, BackPressureError) as error:
                # Its replica died, or all are busy; the same query may be answered by another one.
                if time.monotonic() > self._deadline:
                    self._finish(_busy(error))
                time.sleep(_PAUSE)
            except Exception as error:
                cause = error.cause if isinstance(error, RayTaskError) else error
                self._finish(("internal", f"{type(cause).__name__}: {cause}".encode(), 0))
            if self._outcome is not None:
                return

    def _attempt(self) -> Outcome:
        if not self._host.is_slow:
            self._response = self._host.handle.answer.remote(*self._arguments)
            outcome: Outcome = self._response.result()
            return outcome
        self._response = self._host.handle.answer_in_steps.remote(*self._arguments)
        for step in self._response:
            if len(step) == 3:
                outcome = step
                break
            with self._changed:
                self._newest = step
                self._changed.notify_all()
        else:
            outcome = ("internal", b"a replica ended without an answer", 0)
        return outcome

    def _finish(self, outcome: Outcome) -> None:
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()


def _busy(error: Exception) -> Outcome:
    return "busy", f"no replica can answer now ({type(error).__name__}); ask again later".encode(), 0

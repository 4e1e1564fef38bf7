"""The other side of a gateway's applications: passes keys and queries to replicas."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ObjectStoreFullError, OwnerDiedError, RayActorError, RayTaskError
from ray.serve.exceptions import RayServeException

from unspoken._key_cache import Outcome

#: Seconds for which something is passed to other replicas after the first one died or had no room.
_PATIENCE = 30.0
#: Seconds to wait for what replicas answer at once, and for the loading of keys.
_CONTROL_SECONDS = 30.0
_LOAD_SECONDS = 300.0
#: Seconds between two looks at what an application is now: databases change while they are served.
_LOOK_SECONDS = 2.0
#: Pause between attempts, in seconds.
_PAUSE = 0.2
#: Number of accepted bundles whose first bytes are remembered.
_MOST_HEADERS = 4096

#: Bytes of a query in one argument of a call. Ray puts arguments of over 100 KiB into its object store, which takes
#: longer than to send them with the call.
_PIECE_BYTES = 90_000
#: Longer queries are one argument.
_MOST_BYTES_IN_PIECES = 1_000_000

#: What is raised when a replica or its node dies, or has no room: another attempt may succeed.
_PASSING = (RayActorError, OwnerDiedError, ObjectStoreFullError, RayServeException)


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
        self._name: str = facts["name"]
        self._lock = threading.Lock()
        self._headers: set[bytes] = set()
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
            facts = handle.facts.remote(self._name).result(timeout_s=_CONTROL_SECONDS)
        except Exception as error:
            facts = {**self._facts, "complaint": f"no replica answers: {type(error).__name__}"}
        with self._lock:
            # It may have moved meanwhile.
            if handle is self._handle:
                self._facts = facts

    def move(self, handle: Any, facts: dict[str, Any]) -> None:
        """Pass later queries to other replicas. Waiting queries are answered by the replicas that have them."""
        with self._lock:
            self._handle, self._facts = handle, facts

    def facts(self) -> dict[str, Any]:
        """Return what is known of the application."""
        return self._facts

    def description(self) -> bytes | None:
        """Return the description as it is now; none if no replica answers."""
        self.look()
        facts = self._facts
        description: bytes = facts["description"]
        is_old = str(facts.get("complaint") or "").startswith("no replica answers")
        return None if is_old else description

    def complaint(self) -> str | None:
        """Say why answers may be old or late, if they may."""
        complaint: str | None = self._facts.get("complaint")
        return complaint

    def check_header(self, header: bytes) -> Outcome:
        """Check whether a bundle with these first bytes has keys for this application."""
        # They are checked again before each use of the keys.
        if header in self._headers:
            return "answer", b"", 0
        outcome = _patiently(
            lambda: self._handle.check_header.remote(self._name, header).result(timeout_s=_CONTROL_SECONDS)
        )
        if outcome[0] == "answer":
            if len(self._headers) >= _MOST_HEADERS:
                self._headers.clear()
            self._headers.add(header)
        return outcome

    def put_keys(self, bundle: Any) -> tuple[Keys | None, Outcome]:
        """Put a bundle into the object store, where replicas of all nodes read it, and let one load it."""
        key = hashlib.blake2b(bundle, digest_size=16).hexdigest()
        try:
            keys = Keys(key, ray.put(bundle))
        except ObjectStoreFullError as error:
            return None, _busy(error)
        outcome = _patiently(
            lambda: self._handle.load_keys.remote(self._name, key, [keys.reference]).result(timeout_s=_LOAD_SECONDS)
        )
        return keys, outcome

    def ask(self, client: bytes, keys: Keys, query: bytes) -> Asked:
        """Pass a query to a replica."""
        return Asked(self, (self._name, client, keys.id, [keys.reference], *_pieces(query)))

    @property
    def handle(self) -> Any:
        """Return the replicas that queries go to now."""
        return self._handle.options(stream=True) if self.is_slow else self._handle


class Asked:
    """A query that a replica has, and its answer once it is there."""

    def __init__(self, host: Host, arguments: tuple[Any, ...]) -> None:
        self._host = host
        self._arguments = arguments
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
        with self._changed:
            self._is_cancelled = True
            response = self._response
        if response is not None:
            response.cancel()

    def _run(self) -> None:
        try:
            outcome = _patiently(self._attempt)
        except Exception as error:
            cause = error.cause if isinstance(error, RayTaskError) else error
            outcome = ("internal", f"{type(cause).__name__}: {cause}".encode(), 0)
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _attempt(self) -> Outcome:
        handle = self._host.handle
        send = handle.answer_in_steps if self._host.is_slow else handle.answer
        with self._changed:
            if self._is_cancelled:
                return "cancelled", b"", 0
            self._response = response = send.remote(*self._arguments)
        if not self._host.is_slow:
            outcome: Outcome = response.result()
            return outcome
        for step in response:
            if len(step) == 3:
                outcome = step
                break
            with self._changed:
                self._newest = step
                self._changed.notify_all()
        else:
            outcome = ("internal", b"a replica ended without an answer", 0)
        return outcome


def _pieces(query: bytes) -> list[bytes]:
    if len(query) > _MOST_BYTES_IN_PIECES:
        return [query]
    return [query[start : start + _PIECE_BYTES] for start in range(0, len(query), _PIECE_BYTES)]


def _patiently(attempt: Callable[[], Outcome]) -> Outcome:
    """Return what an attempt gives. Other replicas are tried while one dies or all are busy."""
    deadline: float | None = None
    while True:
        try:
            return attempt()
        except (*_PASSING, TimeoutError) as error:
            now = time.monotonic()
            deadline = deadline or now + _PATIENCE
            if now > deadline:
                return _busy(error)
            time.sleep(_PAUSE)


def _busy(error: Exception) -> Outcome:
    return "busy", f"no replica can answer now ({type(error).__name__}); ask again later".encode(), 0

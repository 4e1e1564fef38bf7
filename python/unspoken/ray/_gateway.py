"""The gateway: a service whose applications are replicas, as an actor that Ray starts again."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray import serve

from unspoken._unspoken import ServiceGateway
from unspoken.ray._host import Host
from unspoken.ray._keys import KeyMirror

_log = logging.getLogger("unspoken.ray")

#: Pauses between attempts to start again, in seconds: the first one, and the longest.
_PAUSES = (0.5, 10.0)
#: File that says where applications were moved.
_MOVES = "ray-moves.json"


@dataclass(frozen=True)
class Placed:
    """An application whose replicas Ray has placed."""

    app: str
    deployment: str
    facts: dict[str, Any]
    published: bytes | None
    is_slow: bool

    @property
    def name(self) -> str:
        """Return the name in the address of the service."""
        name: str = self.facts["name"]
        return name


class Moves:
    """Where applications were moved since a service was started, for a gateway that starts again, also elsewhere."""

    def __init__(self, data_dir: Path, mirror: KeyMirror | None, run: str) -> None:
        self._path, self._mirror, self._run = data_dir / _MOVES, mirror, run

    def load(self) -> dict[str, str]:
        """Return the applications of Ray Serve by name; none of an earlier service."""
        if self._mirror is not None:
            text = self._mirror.load(_MOVES)
        else:
            text = self._path.read_text() if self._path.exists() else None
        if text is None:
            return {}
        saved = json.loads(text)
        moved: dict[str, str] = saved["moved"]
        return moved if saved["run"] == self._run else {}

    def save(self, placed: list[Placed]) -> None:
        """Remember these, and all that were moved before."""
        moved = {**self.load(), **{each.name: each.app for each in placed}}
        text = json.dumps({"run": self._run, "moved": moved})
        if self._mirror is not None:
            self._mirror.save(_MOVES, text)
            return
        part = self._path.with_suffix(".part")
        part.write_text(text)
        part.replace(self._path)


def _handle(placed: Placed) -> Any:
    return serve.get_deployment_handle(placed.deployment, app_name=placed.app)


@dataclass(frozen=True)
class Routed:
    """Several shards, which the gateway serves as one application."""

    kind: str
    name: str
    shards: list[Placed]


def _all(applications: list[Placed], routed: list[Routed]) -> list[Placed]:
    return [*applications, *(placed for each in routed for placed in each.shards)]


class Control:
    """The right to change a gateway: whoever has served it has this, and other jobs of the cluster do not.

    It keeps other jobs from changing a gateway by mistake or through its methods. It does not protect from code that
    they run in the gateway's process, which Ray allows to every job.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret

    @classmethod
    def new(cls) -> Control:
        """Make one that nobody has."""
        return cls(secrets.token_hex(32))

    def digest(self) -> bytes:
        """Return what the gateway has of it."""
        return hashlib.sha256(self._secret.encode()).digest()

    def __repr__(self) -> str:
        """Show nothing of it."""
        return "<Control>"


class Gateway:
    """One address for all applications. Keys of clients are in ``data_dir`` and, with a mirror, in an object store."""

    def __init__(
        self,
        control: bytes,
        config: str,
        moves: Moves,
        applications: list[Placed],
        routed: list[Routed],
        mirror: KeyMirror | None,
    ) -> None:
        self._control = control
        self._moves = moves
        self._placed = {placed.name: placed for placed in _all(applications, routed)}
        self._hosts: dict[str, Host] = {}

        def start() -> ServiceGateway:
            if mirror is not None:
                mirror.restore()
            # Ray makes no handle of replicas that are gone, so replicas from before a move are not asked for.
            now = dict(self._placed)
            for name, app in moves.load().items():
                now[name] = replace(now[name], app=app)
            # Each host starts a thread: none is made before all replicas are found, so that attempts leave no threads.
            handles = {name: _handle(placed) for name, placed in now.items()}
            hosts = {name: Host(handles[name], placed.facts, placed.is_slow) for name, placed in now.items()}
            for host in hosts.values():
                host.look()
            self._hosts = hosts
            return ServiceGateway(
                config,
                [(hosts[placed.name].facts(), placed.published, hosts[placed.name]) for placed in applications],
                [(each.kind, each.name, [hosts[placed.name] for placed in each.shards]) for each in routed],
                mirror,
            )

        # Ray does not start an actor again whose constructor raised: what may pass is tried until it has.
        is_again = ray.get_runtime_context().was_current_actor_reconstructed
        self._service = _persistently(start) if is_again else start()

    def _check(self, control: Control, what: str) -> None:
        if not hmac.compare_digest(self._control, control.digest()):
            raise PermissionError(f"{what}: found a call of another job, needed one of the job that serves it")

    def move(self, control: Control, placed: list[Placed]) -> None:
        """Pass later queries to these replicas."""
        self._check(control, "update applications of a gateway")
        for each in placed:
            before = self._placed[each.name]
            if (each.published, each.facts["key_set"]) != (before.published, before.facts["key_set"]):
                raise ValueError(
                    f"{each.name}: found another published model or other parameters, needed those of before; clients "
                    "would have to begin again: close the service and serve it anew"
                )
        self._moves.save(placed)
        for each in placed:
            self._hosts[each.name].move(_handle(each), each.facts)

    def urls(self) -> tuple[str, str | None]:
        """Return the address, and the address of the metrics."""
        return self._service.url, self._service.metrics_url

    def close(self, control: Control) -> None:
        """End the service: requests that run may end first."""
        self._check(control, "close a gateway")
        self._service.close()


def _persistently(start: Callable[[], ServiceGateway]) -> ServiceGateway:
    pause, longest = _PAUSES
    while True:
        try:
            return start()
        except Exception as error:
            _log.warning("the gateway cannot start again yet: %s", error)
            time.sleep(pause)
            pause = min(2 * pause, longest)

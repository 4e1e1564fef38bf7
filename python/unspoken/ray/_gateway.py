"""The gateway: a service whose applications are replicas, as an actor that Ray starts again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray import serve

from unspoken._unspoken import ServiceGateway
from unspoken.ray._host import Host
from unspoken.ray._keys import KeyMirror


@dataclass(frozen=True)
class Placed:
    """An application whose replicas Ray has placed."""

    app: str
    deployment: str
    facts: dict[str, Any]
    is_slow: bool

    @property
    def name(self) -> str:
        """Return the name in the address of the service."""
        name: str = self.facts["name"]
        return name


class Moves:
    """Where applications were moved since a service was started: a file, for a gateway that starts again."""

    def __init__(self, data_dir: Path, run: str) -> None:
        self._path, self._run = data_dir / "ray-moves.json", run

    def load(self) -> dict[str, str]:
        """Return the applications of Ray Serve by name; none of an earlier service."""
        try:
            saved = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        moved: dict[str, str] = saved["moved"]
        return moved if saved["run"] == self._run else {}

    def save(self, placed: list[Placed]) -> None:
        """Remember these, and all that were moved before."""
        moved = {**self.load(), **{each.name: each.app for each in placed}}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"run": self._run, "moved": moved}))
        part.replace(self._path)


def _handle(placed: Placed) -> Any:
    return serve.get_deployment_handle(placed.deployment, app_name=placed.app)


def _all(applications: list[Placed], databases: list[tuple[str, list[Placed]]]) -> list[Placed]:
    return [*applications, *(placed for _, shards in databases for placed in shards)]


class Gateway:
    """One address for all applications. Keys of clients are in ``data_dir`` and, with a mirror, in an object store."""

    def __init__(
        self,
        config: str,
        moves: Moves,
        applications: list[Placed],
        databases: list[tuple[str, list[Placed]]],
        mirror: KeyMirror | None,
    ) -> None:
        if mirror is not None:
            mirror.restore()
        self._moves = moves
        # Ray starts a gateway again with the arguments of the first start.
        moved = moves.load()
        now = [replace(placed, app=moved.get(placed.name, placed.app)) for placed in _all(applications, databases)]
        self._hosts = {placed.name: Host(_handle(placed), placed.facts, placed.is_slow) for placed in now}
        hosts = self._hosts
        for host in hosts.values():
            host.look()
        self._service = ServiceGateway(
            config,
            [(hosts[placed.name].facts(), hosts[placed.name]) for placed in applications],
            [(name, [hosts[placed.name] for placed in shards]) for name, shards in databases],
            mirror,
        )

    def move(self, placed: list[Placed]) -> None:
        """Pass later queries to these replicas."""
        self._moves.save(placed)
        for each in placed:
            self._hosts[each.name].move(_handle(each), each.facts)

    def urls(self) -> tuple[str, str | None]:
        """Return the address, and that of the metrics."""
        return self._service.url, self._service.metrics_url

    def close(self) -> None:
        """End the service: requests that run may end first."""
        self._service.close()

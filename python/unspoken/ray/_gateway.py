"""The gateway: a service whose applications are replicas, as an actor that Ray starts again."""

from __future__ import annotations

from dataclasses import dataclass
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


def _handle(placed: Placed) -> Any:
    return serve.get_deployment_handle(placed.deployment, app_name=placed.app)


def _host(placed: Placed) -> Host:
    return Host(_handle(placed), placed.facts, placed.is_slow)


def _all(applications: list[Placed], databases: list[tuple[str, list[Placed]]]) -> list[Placed]:
    return [*applications, *(placed for _, shards in databases for placed in shards)]


class Gateway:
    """One address for all applications. Keys of clients are in ``data_dir`` and, with a mirror, in an object store."""

    def __init__(
        self,
        config: str,
        applications: list[Placed],
        databases: list[tuple[str, list[Placed]]],
        mirror: KeyMirror | None,
    ) -> None:
        if mirror is not None:
            mirror.restore()
        self._hosts = {placed.facts["name"]: _host(placed) for placed in _all(applications, databases)}
        hosts = self._hosts
        self._service = ServiceGateway(
            config,
            [(placed.facts, hosts[placed.facts["name"]]) for placed in applications],
            [(name, [hosts[placed.facts["name"]] for placed in shards]) for name, shards in databases],
            mirror,
        )

    def move(self, placed: list[Placed]) -> None:
        """Pass later queries to these replicas."""
        for each in placed:
            self._hosts[each.facts["name"]].move(_handle(each), each.facts)

    def urls(self) -> tuple[str, str | None]:
        """Return the address, and that of the metrics."""
        return self._service.url, self._service.metrics_url

    def close(self) -> None:
        """End the service: requests that run may end first."""
        self._service.close()

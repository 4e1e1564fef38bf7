"""A service on a Ray cluster."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Union

import ray
from ray import serve as ray_serve
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from unspoken.errors import ConfigurationError
from unspoken.ray._connected import check_connected
from unspoken.ray._gateway import Control, Gateway, Moves, Placed, Routed
from unspoken.ray._keys import KeyMirror
from unspoken.ray._offer import CollectionShards, Offer, Shards
from unspoken.ray._replica import Replica

Offered = Union[Offer, Shards, CollectionShards]

#: Seconds to wait for what the gateway answers at once.
_CONTROL_SECONDS = 60.0
#: Seconds in which it starts, with keys to fetch.
_START_SECONDS = 3600.0
_log = logging.getLogger("unspoken.ray")

#: Queries of one replica that the gateway waits for at once. A replica has at once: queries that one computation
#: answers, queries that wait for the next computation, and short questions.
_WAITING = 40
#: Seconds in which old replicas may answer what they have.
_LAST_SECONDS = 600
#: Queries that wait for all replicas of an application, for each replica that it may have.
_QUEUED = 64


class Service:
    """A running service. Close it, or use it as a context manager."""

    def __init__(self, name: str, gateway: Any, control: Control, placing: _Placing, routed: list[Routed]) -> None:
        self._name, self._gateway, self._control, self._placing = name, gateway, control, placing
        self._shards = {each.name: each.shards for each in routed}
        self._urls: tuple[str, str | None] = ray.get(gateway.urls.remote(), timeout=_START_SECONDS)

    @property
    def url(self) -> str:
        """The address for clients."""
        return self._urls[0]

    @property
    def metrics_url(self) -> str | None:
        """The address of the gateway's metrics, if there is one. Ray exports the metrics of the replicas."""
        return self._urls[1]

    def update(self, offer: Offered) -> None:
        """Replace an application by another one of the same name, with other files, options or replicas.

        The new replicas are started beside the old ones. Once all new replicas are ready, later queries go to them, and
        the old replicas end when they have answered. Clients read the new description when they need it; of a database
        in shards, nothing is answered for a second until the gateway has seen that all shards have the same version.
        """
        offers = [offer] if isinstance(offer, Offer) else [*offer.offers(), *offer.beside()]
        self._check_shards(offer)
        locked = [each.kind for each in offers if each.has_own_directory]
        if locked:
            raise ConfigurationError(
                f"found an offer of kind {locked[0]} with a directory of its own, which two replicas cannot use; close "
                "the service and serve it anew"
            )
        with self._placing.trial() as placed:
            placed += [one for each in offers for one in self._placing.place(each)]
            unknown = [each.name for each in placed if each.name not in self._placing]
            if unknown:
                raise ConfigurationError(f"found no application {unknown[0]} to replace; use the name that it had")
            try:
                ray.get(self._gateway.move.remote(self._control, placed), timeout=_CONTROL_SECONDS)
            except ValueError as error:
                raise ConfigurationError(str(error).strip().splitlines()[-1]) from error
        self._placing.delete(self._placing.adopt(placed))

    def _check_shards(self, offer: Offered) -> None:
        """Refuse another number of shards: the gateway keeps the places that it began with."""
        before = self._shards.get(offer.name or "")
        if before is None or isinstance(offer, Offer):
            return
        found, needed = len(offer.offers()), len(before)
        if found != needed:
            raise ConfigurationError(
                f"{offer.name}: found {found} shards, needed {needed} as before; close the service and serve it anew"
            )

    def close(self) -> None:
        """End the gateway and all replicas. The clients' keys stay where they are stored."""
        try:
            ray.get(self._gateway.close.remote(self._control), timeout=_CONTROL_SECONDS)
        finally:
            ray.kill(self._gateway)
            self._placing.delete_all()

    def __enter__(self) -> Service:
        """Return the service."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the service."""
        self.close()

    def __repr__(self) -> str:
        """Name and address."""
        return f"<Service {self._name} at {self.url}>"


def serve(
    offers: Sequence[Offered],
    *,
    listen: str = "127.0.0.1:8080",
    data_dir: str | Path = "unspoken-data",
    keys: str | None = None,
    keys_options: Mapping[str, Any] | None = None,
    tokens: str | Path | None = None,
    metrics_listen: str | None = None,
    web: str | Path | None = None,
    config: str = "",
    name: str = "unspoken",
) -> Service:
    """Serve applications on the Ray cluster of this process.

    Parameters
    ----------
    offers : sequence of Offer, Shards or CollectionShards
        The applications.
    listen : str
        Address of the gateway, ``HOST:PORT``, on the node of this process. Name a port: after a failure the gateway
        listens there again.
    data_dir : str or Path
        Directory of that node for the clients' keys.
    keys : str, optional
        Where complete key bundles are copied to before a client is told that they are stored: a URL of ``fsspec``, such
        as ``s3://bucket/keys`` or a directory that all nodes share. With it, a gateway on another disk finds them.
    keys_options : mapping, optional
        Options of ``fsspec`` for ``keys``, such as credentials.
    tokens, metrics_listen, web
        As for ``unspoken serve``: file of access tokens, address of the metrics, directory of a page.
    config : str
        Further lines of the configuration file, in TOML: limits, timeouts, certificates. Paths in it, and in options of
        offers, are absolute: Ray's processes have other working directories.
    name : str
        Name of the service in the cluster; a second one needs another.

    Returns
    -------
    Service
        The service, whose applications are loaded.
    """
    if not offers:
        raise ConfigurationError("found no offers, needed one or more: there is nothing to serve")
    check_connected()
    if _exists(f"{name}-gateway"):
        raise ConfigurationError(
            f"name={name!r}: a service of this name runs in the cluster; close it, or name this one"
        )
    # The gateway speaks HTTP; Ray's own proxies are not needed. A running Serve keeps its options.
    ray_serve.start(proxy_location="Disabled")
    placing = _Placing(name)
    placing.delete_left_over()
    directory = Path(data_dir).absolute()
    mirror = None if keys is None else KeyMirror(directory, keys, dict(keys_options or {}))
    lines = [
        *_lines(listen=listen, data_dir=directory, metrics_listen=metrics_listen, tokens=_absolute(tokens)),
        *_lines(web=_absolute(web)),
        # Workers of the gateway only wait for replicas.
        f"workers = {_WAITING * sum(_most_replicas(offer) for offer in offers)}",
    ]
    node = ray.get_runtime_context().get_node_id()
    try:
        applications, routed = _placed(placing, offers)
    except Exception:
        placing.delete_all()
        raise
    control = Control.new()
    gateway: Any = (
        ray.remote(Gateway)
        .options(
            name=f"{name}-gateway",
            namespace=_NAMESPACE,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=4,
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=keys is not None),
        )
        .remote(
            control.digest(),
            "\n".join([*lines, config]),
            Moves(directory, mirror, uuid.uuid4().hex),
            applications,
            routed,
            mirror,
        )
    )
    try:
        return Service(name, gateway, control, placing, routed)
    except Exception:
        ray.kill(gateway)
        placing.delete_all()
        raise


def _absolute(path: str | Path | None) -> Path | None:
    """Return a path that does not depend on the working directory of Ray's processes."""
    return None if path is None else Path(path).absolute()


def _most_replicas(offer: Offered) -> int:
    return offer.bounds[1] if isinstance(offer, Offer) else (offer.offers()[0].bounds[1] * (1 + len(offer.beside())))


def _exists(actor: str) -> bool:
    try:
        ray.get_actor(actor, namespace=_NAMESPACE)
    except ValueError:
        return False
    return True


_DEPLOYMENT = "Replica"

#: Gateways of all jobs are in one namespace, so that two services of one name notice each other.
_NAMESPACE = "unspoken"


class _Placing:
    """The applications of Ray Serve of one service."""

    def __init__(self, name: str) -> None:
        self._prefix = f"{name}--"
        self._run, self._count = uuid.uuid4().hex[:8], 0
        #: All applications of Ray Serve that were started and not deleted; and the used ones, by the names of our
        #: applications.
        self._started: list[str] = []
        self._apps: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        """Check whether an application of ours is served."""
        return name in self._apps

    def place(self, offer: Offer) -> list[Placed]:
        """Start the replicas of an offer, wait until they have loaded it, and return its applications."""
        app = f"{self._prefix}{self._run}-{self._count}"
        self._count += 1
        self._started.append(app)
        try:
            # The working directory of Ray's processes is another one.
            offer = replace(offer, path=Path(offer.path).absolute())
            handle = ray_serve.run(_deployment(offer).bind(offer), name=app, route_prefix=None)
            applications = handle.applications.remote().result(timeout_s=_CONTROL_SECONDS)
        except Exception as error:
            reason = _reason(app) or str(error)
            raise ConfigurationError(f"{offer.kind} {offer.path}: no replica could load it: {reason}") from error
        return [Placed(app, _DEPLOYMENT, facts, published, offer.is_slow) for facts, published in applications]

    def adopt(self, placed: Sequence[Placed]) -> list[str]:
        """Take these as the applications of their names, and return the applications of Ray Serve without names now."""
        before = [self._apps[each.name] for each in placed if each.name in self._apps]
        self._apps.update({each.name: each.app for each in placed})
        # An offer may have several applications: it is needed as long as one of them is.
        return [app for app in dict.fromkeys(before) if app not in self._apps.values()]

    @contextmanager
    def trial(self) -> Iterator[list[Placed]]:
        """Delete what is started in the block, if it fails."""
        before = set(self._started)
        try:
            yield []
        except BaseException:
            self.delete([app for app in self._started if app not in before])
            raise

    def delete(self, apps: Iterable[str]) -> None:
        """End replicas, once they have answered."""
        for app in list(apps):
            try:
                ray_serve.delete(app)
            except Exception as error:
                _log.warning("the replicas of %s cannot be ended: %s", app, error)
            if app in self._started:
                self._started.remove(app)

    def delete_all(self) -> None:
        """End all replicas."""
        self.delete(self._started)
        self._apps = {}

    def delete_left_over(self) -> None:
        """End the replicas of an earlier service of this name, whose process has gone."""
        self.delete(app for app in ray_serve.status().applications if app.startswith(self._prefix))


def _placed(placing: _Placing, offers: Sequence[Offered]) -> tuple[list[Placed], list[Routed]]:
    """Start the replicas of all offers: applications, and what is in shards."""
    applications: list[Placed] = []
    routed: list[Routed] = []
    for offer in offers:
        if isinstance(offer, Offer):
            applications += _started(placing, [offer])
            continue
        routed.append(Routed(offer.router, offer.name, _started(placing, offer.offers())))
        applications += _started(placing, offer.beside())
    return applications, routed


def _started(placing: _Placing, offers: list[Offer]) -> list[Placed]:
    placed = [one for offer in offers for one in placing.place(offer)]
    taken = [each.name for each in placed if each.name in placing]
    if taken:
        raise ConfigurationError(f"two offers have the name {taken[0]}; name one of them")
    placing.adopt(placed)
    return placed


def _reason(app: str) -> str | None:
    """Return why the replicas of an application did not start: the last line of what the last one raised."""
    status = ray_serve.status().applications.get(app)
    messages = [deployment.message for deployment in status.deployments.values()] if status else []
    lines = [line.strip() for message in messages for line in message.splitlines()]
    raised = [line for line in lines if "Error: " in line]
    return raised[-1].split("Error: ", 1)[1] if raised else None


def _deployment(offer: Offer) -> Any:
    """Return the deployment of an offer: where its replicas run, and how many there are."""
    least, most = offer.bounds
    scale: dict[str, Any] = {"num_replicas": least}
    if most > least:
        scale = {
            "autoscaling_config": {
                "min_replicas": least,
                "max_replicas": most,
                "target_ongoing_requests": offer.queries_at_once,
            }
        }
    return ray_serve.deployment(
        name=_DEPLOYMENT,
        ray_actor_options=offer.resources,
        max_ongoing_requests=_WAITING,
        graceful_shutdown_timeout_s=_LAST_SECONDS,
        max_queued_requests=_QUEUED * most,
        health_check_period_s=2,
        health_check_timeout_s=30,
        **scale,
    )(Replica)


def _lines(**settings: str | Path | None) -> list[str]:
    """Lines of a configuration file in TOML."""
    return [f"{name} = {_quoted(str(value))}" for name, value in settings.items() if value is not None]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

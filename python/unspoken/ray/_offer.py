"""What is offered, and with which resources."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unspoken import _unspoken
from unspoken.errors import ConfigurationError

#: How answers of each kind are computed.
_KINDS = _unspoken.kinds()

#: Kinds of the last release, which the next release does not know, and their names now.
_OLD_KINDS = {"llama": "chat", "unseal": "oprf"}


def _last_part(path: Path) -> str:
    """Return the name of a directory, or of a file without its extension."""
    full = path.resolve()
    return full.stem if full.is_file() else full.name


@dataclass(frozen=True)
class Offer:
    """An application to serve, as ``unspoken serve --offer KIND:NAME=PATH,OPTION=VALUE`` names it.

    Parameters
    ----------
    kind : str
        The kind: ``classify``, ``embed``, ``digits``, ``matrix``, ``model``, ``pir``, ``search``, ``oprf``, ``sums`` or
        ``chat``; ``unspoken serve --help`` describes them. A collection (``search``) has two applications, which the
        same replicas serve.
    path : str or Path
        Directory or file, which every node must reach under this path.
    name : str, optional
        Name in the address of the service; by default the name for the kind.
    options : mapping of str to str
        Options of the kind.
    replicas : int or (int, int)
        Number of replicas, or the smallest and the largest between which Ray scales them by the number of waiting
        queries.
    cpus : int
        Cores of a replica; an answer uses all of them.
    memory : int, optional
        Bytes of memory that Ray reserves on the node of a replica, for placement.
    key_cache : int
        Bytes of evaluation keys that a replica keeps in memory, expanded; more are loaded again from the object store.
    helpers : int
        Further processes that compute parts of each answer, for ``chat``. Each has the cores, the memory and the keys
        of a replica. Ray places them on several nodes.
    gpus : float
        GPUs of a replica, for ``chat``, ``digits``, ``model`` and databases: 1, or less if several replicas share one.
    """

    kind: str
    path: str | Path
    name: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    replicas: int | tuple[int, int] = 1
    cpus: int = 1
    memory: int | None = None
    key_cache: int = 4 << 30
    helpers: int = 0
    gpus: float = 0

    def __post_init__(self) -> None:
        """Check what can be checked without the files."""
        if self.kind in _OLD_KINDS:
            kind = _OLD_KINDS[self.kind]
            warnings.warn(f"the kind {self.kind} of offers is {kind} now", FutureWarning, stacklevel=3)
            # Clients of the last release know the application by this name.
            object.__setattr__(self, "name", self.name or f"{self.kind}/{_last_part(Path(self.path))}")
            object.__setattr__(self, "kind", kind)
        if self.kind not in _KINDS:
            raise ConfigurationError(f"kind={self.kind!r}: needed one of {', '.join(_KINDS)}")
        least, most = self.bounds
        if not 1 <= least <= most:
            raise ConfigurationError(
                f"replicas={self.replicas!r}: found {least} to {most}, needed 1 or more, the smaller number first"
            )
        if self._serving["state"] in ("process", "directory") and most > 1:
            raise ConfigurationError(
                f"replicas={self.replicas!r}: found {most} replicas of kind {self.kind}, needed 1: its state is in "
                "that replica"
            )
        if self.cpus < 1:
            raise ConfigurationError(f"cpus={self.cpus!r}: needed 1 or more")
        if self.helpers < 0:
            raise ConfigurationError(f"helpers={self.helpers!r}: needed 0 or more")
        if self.helpers and not self._serving["in_parts"]:
            raise ConfigurationError(
                f"helpers={self.helpers!r}: found kind {self.kind}, whose answers have no parts, needed chat"
            )
        if not 0 <= self.gpus <= 1:
            raise ConfigurationError(f"gpus={self.gpus!r}: needed 0 to 1: a replica computes on one")
        if self.gpus and not self._serving["on_device"]:
            on_device = sorted(kind for kind, serving in _KINDS.items() if serving["on_device"])
            raise ConfigurationError(
                f"gpus={self.gpus!r}: found kind {self.kind}, which computes on the processor, needed one of "
                f"{', '.join(on_device)}"
            )

    @property
    def _serving(self) -> _unspoken._Serving:
        """How answers of the kind are computed."""
        return _KINDS[self.kind]

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest number of replicas."""
        return self.replicas if isinstance(self.replicas, tuple) else (self.replicas, self.replicas)

    @property
    def resources(self) -> dict[str, Any]:
        """What Ray reserves for each process."""
        resources: dict[str, Any] = {"num_cpus": self.cpus}
        if self.memory is not None:
            resources["memory"] = self.memory
        if self.gpus:
            resources["num_gpus"] = self.gpus
        return resources

    @property
    def device(self) -> str | None:
        """The device that a process computes on: Ray shows it no other one."""
        return "cuda:0" if self.gpus else None

    @property
    def has_own_directory(self) -> bool:
        """Whether a replica locks a directory, so that a second one cannot start beside it."""
        return self._serving["state"] == "directory" or "keep" in self.options

    @property
    def of_helpers(self) -> Offer:
        """The offer for helpers, which have no sessions."""
        options = {name: value for name, value in self.options.items() if name != "keep"}
        return replace(self, options=options, helpers=0)

    @property
    def queries_at_once(self) -> int:
        """The number of queries for each replica, by which Ray scales."""
        return self._serving["together"]

    @property
    def is_slow(self) -> bool:
        """Whether clients are told how far an answer is."""
        return self._serving["slow"]


@dataclass(frozen=True)
class Shards:
    """A database in shards, as ``unspoken pir shard`` makes them: each is served by its own replicas.

    A query goes to one replica of every shard; the gateway adds their partial answers. If a shard is missing nothing is
    answered, and a later version is used once all shards have it.

    Parameters
    ----------
    paths : sequence of str or Path
        The directories of the shards, which the nodes of their replicas must reach under these paths.
    name : str
        Name in the address of the service, such as ``pir/codes``.
    replicas : int or (int, int)
        Number of replicas of each shard, or the smallest and the largest between which Ray scales them. Queries that
        wait for a replica are answered by one pass over its table, up to 16 of them.
    cpus : int
        Cores of a replica.
    memory : int, optional
        Bytes of memory that Ray reserves on the node of a replica: 1.5 times the bytes of its records, and room for
        keys.
    key_cache : int
        Bytes of evaluation keys that a replica keeps in memory.
    """

    paths: Sequence[str | Path]
    name: str
    replicas: int | tuple[int, int] = 1
    cpus: int = 1
    memory: int | None = None
    key_cache: int = 4 << 30

    def __post_init__(self) -> None:
        """Check what can be checked without the files."""
        if not self.paths:
            raise ConfigurationError(f"shards of {self.name}: found no paths, needed those of all shards")
        self.offers()

    #: The kind of what puts the answers of the shards together.
    router = "pir-router"

    def offers(self) -> list[Offer]:
        """Return the offers of the shards, one by one."""
        rest = {"replicas": self.replicas, "cpus": self.cpus, "memory": self.memory, "key_cache": self.key_cache}
        return [
            Offer("pir-shard", path, f"{self.name}-{number}", **rest)  # type: ignore[arg-type]
            for number, path in enumerate(self.paths, 1)
        ]

    def beside(self) -> list[Offer]:
        """Return what is offered beside the database: nothing."""
        return []


@dataclass(frozen=True)
class CollectionShards:
    """A collection for private search whose table is shared among several replicas.

    A query goes to one replica of every shard, and the gateway puts their answers together. The documents are fetched
    from replicas of their own, as the application ``NAME-documents``. If a shard is missing nothing is answered. Each
    replica follows changes of the directory; a rebuild is used once all shards have it.

    Parameters
    ----------
    path : str or Path
        The directory of the collection, which the nodes of all replicas must reach under this path.
    name : str
        Name in the address of the service, such as ``search/notes``.
    shards : int
        Number of shards, at most the number of clusters in a block (``unspoken search info``).
    replicas : int or (int, int)
        Number of replicas of each shard and of the documents, or the smallest and the largest between which Ray scales
        them.
    cpus : int
        Cores of a replica.
    memory : int, optional
        Bytes of memory that Ray reserves on the node of a replica.
    key_cache : int
        Bytes of evaluation keys that a replica of the documents keeps in memory.
    """

    path: str | Path
    name: str
    shards: int
    replicas: int | tuple[int, int] = 1
    cpus: int = 1
    memory: int | None = None
    key_cache: int = 4 << 30

    #: The kind of what puts the answers of the shards together.
    router = "search-router"

    def __post_init__(self) -> None:
        """Check what can be checked without the files."""
        if self.shards < 1:
            raise ConfigurationError(f"shards={self.shards!r} of {self.name}: needed 1 or more")
        self.offers()

    def offers(self) -> list[Offer]:
        """Return the offers of the shards, one by one."""
        return [
            self._offer("search-shard", f"{self.name}-{number}", {"part": f"{number}/{self.shards}"})
            for number in range(1, self.shards + 1)
        ]

    def beside(self) -> list[Offer]:
        """Return what is offered beside the collection: its documents."""
        return [self._offer("search-documents", f"{self.name}-documents", {})]

    def _offer(self, kind: str, name: str, options: dict[str, str]) -> Offer:
        return Offer(kind, self.path, name, options, self.replicas, self.cpus, self.memory, self.key_cache)

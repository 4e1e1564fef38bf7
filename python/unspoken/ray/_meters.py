"""Metrics of a replica, which Ray's exporter has beside its own."""

from __future__ import annotations

from ray.util.metrics import Counter, Gauge, Histogram

#: Bounds of the times of answers, in seconds.
_SECONDS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]


class Meters:
    """Counts answers and their times, of all clients together."""

    def __init__(self, application: str) -> None:
        tags = {"application": application}
        self._answers = Counter(
            "unspoken_replica_answers", "Queries that replicas have finished", ("application", "outcome")
        )
        self._seconds = Histogram(
            "unspoken_replica_seconds",
            "Seconds from the arrival of a query at its replica to the answer",
            _SECONDS,
            ("application",),
        )
        self._keys = Gauge("unspoken_replica_clients", "Clients whose keys a replica has in memory", ("application",))
        self._parts = Counter(
            "unspoken_replica_parts", "Parts of answers that helpers were asked for", ("application", "outcome")
        )
        self._part_bytes = Counter(
            "unspoken_replica_part_bytes", "Bytes of parts and their results, to and from helpers", ("application",)
        )
        for meter in (self._answers, self._seconds, self._keys, self._parts, self._part_bytes):
            meter.set_default_tags(tags)

    def helped(self, outcome: str, sent: int, received: int) -> None:
        """Count a part that a helper was asked for."""
        self._parts.inc(1.0, {"outcome": outcome})
        self._part_bytes.inc(float(sent + received))

    def answered(self, outcome: str, seconds: float, clients: int) -> None:
        """Count a query, and note the number of clients."""
        self._answers.inc(1.0, {"outcome": outcome})
        self._seconds.observe(seconds)
        self._keys.set(clients)

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
        for meter in (self._answers, self._seconds, self._keys):
            meter.set_default_tags(tags)

    def answered(self, outcome: str, seconds: float, clients: int) -> None:
        """Count a query, and note the number of clients."""
        self._answers.inc(1.0, {"outcome": outcome})
        self._seconds.observe(seconds)
        self._keys.set(clients)

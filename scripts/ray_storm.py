"""Kills replicas, gateways and nodes of a service on Ray under load: `make storm-ray`.

`ray_storm.py [--kills N] [--clients N]`: a Ray cluster of three nodes on this machine, a recogniser of digits with two
replicas, and clients that ask all the time. Every answer is compared with the network in the clear. Prints what
happened, and exits with 1 if an answer was wrong, keys were lost, or a client waited longer than two minutes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray
from ray.cluster_utils import Cluster
from running import actors

import unspoken
import unspoken.ray

# Seconds that a client may wait for an answer.
LONGEST_WAIT = 120.0

# Seconds between two kills.
PAUSES = (0.5, 4.0)


class Asker(threading.Thread):
    """A client that asks all the time."""

    def __init__(self, url: str, state: Path, images: Any, needed: Any) -> None:
        super().__init__(daemon=True)
        self.url, self.state, self.images, self.needed = url, state, images, needed
        self.seen: Counter[str] = Counter()
        self.waits: list[float] = []
        self.keys_sent = 0
        self.is_done = False

    def run(self) -> None:
        """Asks until it is told to end."""
        client = unspoken.DigitsClient(self.url, state_dir=self.state, progress=False)
        while not self.is_done:
            start = time.monotonic()
            try:
                found = client.recognise(self.images)[0]
                self.seen["right" if (found == self.needed).all() else "WRONG"] += 1
            except unspoken.UnspokenError as error:
                self.seen[f"told: {type(error).__name__}"] += 1
            self.waits.append(time.monotonic() - start)
        self.keys_sent = client.usage.key_bytes


def storm(kills: int, askers: list[Asker], cluster: Cluster, worker: Any, draw: random.Random) -> Counter[str]:
    """Kills one thing after the other, each with SIGKILL."""
    killed: Counter[str] = Counter()
    while sum(killed.values()) < kills:
        time.sleep(draw.uniform(*PAUSES))
        what = draw.choices(["ServeReplica", "Gateway", "node"], weights=[7, 2, 1])[0]
        if what == "node":
            cluster.remove_node(worker, allow_graceful=False)
            worker = cluster.add_node(num_cpus=1)
        else:
            running = actors(what)
            if not running:
                continue
            os.kill(draw.choice(running), signal.SIGKILL)
        killed[what] += 1
        if sum(killed.values()) % 10 == 0:
            right = sum(asker.seen["right"] for asker in askers)
            print(f"{sum(killed.values())} of {kills} kills, {right} answers", file=sys.stderr)
    return killed


def main() -> int:
    """Runs the storm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 300 << 20})
    cluster.add_node(num_cpus=1)
    worker = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        images = np.random.default_rng(1).integers(0, 256, size=(40, 28, 28), dtype=np.uint8)
        network = unspoken.DigitsNetwork(epochs=1, progress=False).fit(images, np.arange(40) % 10)
        network.save(home / "digits")
        choices = {"preset": "n14_real_depth8_scale30", "batch": "4"}
        offer = unspoken.ray.Offer("digits", home / "digits", options=choices, replicas=2)
        # A port of its own, so that a gateway that comes back is found.
        listen = f"127.0.0.1:{20_000 + os.getpid() % 10_000}"
        service = unspoken.ray.serve([offer], listen=listen, data_dir=home / "keys")
        needed = network.predict(images[:4])
        askers = [Asker(service.url, home / f"state-{number}", images[:4], needed) for number in range(options.clients)]
        for asker in askers:
            asker.start()
        while not all(asker.seen["right"] for asker in askers):
            time.sleep(0.1)
        start = time.monotonic()
        killed = storm(options.kills, askers, cluster, worker, random.Random(options.seed))
        seconds = time.monotonic() - start
        for asker in askers:
            asker.is_done = True
        for asker in askers:
            asker.join(timeout=LONGEST_WAIT)
        seen = sum((asker.seen for asker in askers), Counter())
        waits = sorted(wait for asker in askers for wait in asker.waits)
        one_bundle = max(1, min(asker.keys_sent for asker in askers))
        sent_again = sum(asker.keys_sent // one_bundle - 1 for asker in askers)
        is_sound = seen["WRONG"] == 0 and waits[-1] <= LONGEST_WAIT and sent_again == 0
        lines = [
            f"killed      {', '.join(f'{count} {what}' for what, count in killed.items())} in {seconds:.0f} s",
            f"answers     {', '.join(f'{count} {what}' for what, count in sorted(seen.items()))}",
            f"waits       median {waits[len(waits) // 2]:.2f} s, longest {waits[-1]:.2f} s",
            f"keys        sent again {sent_again} times",
            "sound" if is_sound else "NOT SOUND",
        ]
        service.close()
    ray.shutdown()
    cluster.shutdown()
    # Last: Ray prints the logs of nodes that were killed.
    print("\n".join(lines))
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())

"""Kills replicas, helpers, gateways and nodes of a service on Ray under load: `make storm-ray`.

`ray_storm.py UNSPOKEN [--kills N] [--clients N]`: a Ray cluster of three nodes on this machine, a recogniser of digits
with two replicas, a language model in a small insecure ring with a helper, and clients that ask all the time. Every
answer is compared with the model in the clear. Prints what happened, and exits with 1 if an answer was wrong, keys were
lost, a client waited longer than two minutes, or one has no right answers after the last kill.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray
from ray.cluster_utils import Cluster
from running import MODEL, actors, prepare_stories

import unspoken
import unspoken.ray

# Seconds that a client may wait for an answer.
LONGEST_WAIT = 120.0

# A text of which the service knows the first part alone.
PUBLIC = "One day, Tom and Mia went to the park. They saw"
PRIVATE = " a dog"

# Seconds between two kills.
PAUSES = (0.5, 4.0)


class Asker(threading.Thread):
    """A client that asks all the time."""

    def __init__(self, client: Any, ask: Callable[[Any], bool]) -> None:
        super().__init__(daemon=True)
        self.client, self.ask = client, ask
        self.seen: Counter[str] = Counter()
        self.waits: list[float] = []
        self.is_done = False
        # An exception that ends the thread, and a client that hangs, leave it so.
        self.is_ended = False

    def run(self) -> None:
        """Asks until it is told to end."""
        while not self.is_done:
            start = time.monotonic()
            try:
                self.seen["right" if self.ask(self.client) else "WRONG"] += 1
            except unspoken.UnspokenError as error:
                self.seen[f"told: {type(error).__name__}"] += 1
                print(f"told: {error}", file=sys.stderr)
            self.waits.append(time.monotonic() - start)
        self.is_ended = True


def continued(binary: Path) -> str:
    """How the model in the clear continues the text that the storm asks for."""
    command = [binary, "llama", "run", "--model", MODEL, "--prompt", PUBLIC + PRIVATE, "--max-tokens", "1", "--json"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return str(json.loads(printed)["text"])


def answered(askers: list[Asker], before: list[int]) -> int:
    """How many clients have more right answers than before; waits until all have, or for the longest time of one."""
    deadline = time.monotonic() + LONGEST_WAIT
    while True:
        count = sum(asker.seen["right"] > rights for asker, rights in zip(askers, before, strict=True))
        if count == len(askers) or time.monotonic() > deadline:
            return count
        time.sleep(0.1)


def storm(kills: int, askers: list[Asker], cluster: Cluster, worker: Any, draw: random.Random) -> Counter[str]:
    """Kills one thing after the other, each with SIGKILL."""
    killed: Counter[str] = Counter()
    while sum(killed.values()) < kills:
        time.sleep(draw.uniform(*PAUSES))
        what = draw.choices(["ServeReplica", "Helper", "Gateway", "node"], weights=[5, 2, 2, 1])[0]
        if what == "node":
            cluster.remove_node(worker, allow_graceful=False)
            worker = cluster.add_node(num_cpus=2)
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
    parser.add_argument("unspoken", type=Path, help="the command")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=2, help="clients of the recogniser of digits")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # When a node is gone, the others have room for all actors.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 300 << 20})
    cluster.add_node(num_cpus=2)
    worker = cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        images = np.random.default_rng(1).integers(0, 256, size=(40, 28, 28), dtype=np.uint8)
        network = unspoken.DigitsNetwork(epochs=1, progress=False).fit(images, np.arange(40) % 10)
        network.save(home / "digits")
        stories = prepare_stories(options.unspoken, home)
        small = {"insecure_preset": "insecure_n11_boot_depth15_scale40", "chunk": "8", "chunks": "2"}
        choices = {"preset": "n14_real_depth8_scale30", "batch": "4"}
        offers = [
            unspoken.ray.Offer("digits", home / "digits", "digits/noise", choices, replicas=2),
            unspoken.ray.Offer("chat", stories, "chat/stories", small, helpers=1),
        ]
        # A port of its own, so that a gateway that comes back is found.
        listen = f"127.0.0.1:{20_000 + os.getpid() % 10_000}"
        service = unspoken.ray.serve(offers, listen=listen, data_dir=home / "keys")
        needed = network.predict(images[:4])

        def recognises(client: Any) -> bool:
            return bool((client.recognise(images[:4])[0] == needed).all())

        own: Any = {"model": stories / "client", "application": "chat/stories", "insecure_parameters": True}
        texts = unspoken.ChatClient(service.url, state_dir=home / "state", progress=False, **own)
        text = continued(options.unspoken)

        def continues(client: Any) -> bool:
            return bool(client.generate(PRIVATE, public=PUBLIC, max_tokens=1, progress=False).text == text)

        askers = [Asker(texts, continues)]
        for number in range(options.clients):
            rest: Any = {"state_dir": home / f"state-{number}", "application": "digits/noise", "progress": False}
            askers.append(Asker(unspoken.DigitsClient(service.url, **rest), recognises))
        for asker in askers:
            asker.start()
        if answered(askers, [0] * len(askers)) < len(askers):
            sys.exit(f"no right answers before the first kill: {[dict(asker.seen) for asker in askers]}")
        print(f"all clients have a right answer; {options.kills} kills begin", file=sys.stderr)
        keys_sent = [asker.client.usage.key_bytes for asker in askers]
        start = time.monotonic()
        killed = storm(options.kills, askers, cluster, worker, random.Random(options.seed))
        seconds = time.monotonic() - start
        recovered = answered(askers, [asker.seen["right"] for asker in askers])
        for asker in askers:
            asker.is_done = True
        for asker in askers:
            asker.join(timeout=LONGEST_WAIT)
        seen = sum((asker.seen for asker in askers), Counter())
        waits = sorted(wait for asker in askers for wait in asker.waits)
        sent_again = sum(asker.client.usage.key_bytes > sent for asker, sent in zip(askers, keys_sent, strict=True))
        ended = sum(asker.is_ended for asker in askers)
        is_sound = seen["WRONG"] == 0 and waits[-1] <= LONGEST_WAIT and sent_again == 0
        is_sound = is_sound and recovered == ended == len(askers)
        lines = [
            f"killed      {', '.join(f'{count} {what}' for what, count in killed.items())} in {seconds:.0f} s",
            f"answers     {', '.join(f'{count} {what}' for what, count in sorted(seen.items()))}",
            f"texts       {', '.join(f'{count} {what}' for what, count in sorted(askers[0].seen.items()))}",
            f"waits       median {waits[len(waits) // 2]:.2f} s, longest {waits[-1]:.2f} s",
            f"keys        sent again by {sent_again} clients",
            f"after       {recovered} of {len(askers)} clients had right answers after the last kill, {ended} ended",
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

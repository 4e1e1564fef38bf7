"""Services on Ray and without it, for `unspoken-bench cluster`: our own, in a process of its own as the peers are.

The protocol is in protocol.py. `setup` starts a Ray cluster on this machine. Its field `binary` is the command
`unspoken`; `part` is "overhead": a recogniser of digits on Ray and without it, or "shards": a database of `records`
records in each number of shards of `counts` on Ray, and whole without it, which is number 0. `time` asks a question of
`op`: "digits plain", "digits ray" or "shards NUMBER"; of "shards NUMBER at once" eight clients ask one each. Needs the
package with its extra: `pip install "unspoken[ray]"`.
"""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from protocol import PeerError, integer, serve, time_calls

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from running import serving  # noqa: E402

import unspoken  # noqa: E402
import unspoken.ray  # noqa: E402

PRESET = {"preset": "n14_real_depth8_scale30", "batch": "4"}
RECORD_BYTES = 2048
# Those that ask at once.
CLIENTS = 8
# Logical ones: Ray places replicas by them, and all of them share the real ones.
LOGICAL_CPUS = 32


class Cluster:
    """All services, and the question of each."""

    def __init__(self):
        self.stack = ExitStack()
        self.home = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.threads = self.stack.enter_context(ThreadPoolExecutor(CLIENTS))
        self.questions = {}
        self.binary = None
        self.database = None

    def setup(self, command):
        """Start Ray, and the services of a part."""
        self.binary = Path(command["binary"])
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        options = {"num_cpus": LOGICAL_CPUS, "include_dashboard": False, "log_to_driver": False}
        ray.init("local", object_store_memory=512 << 20, **options)
        if command["part"] == "overhead":
            self.digits()
        else:
            records = integer(command, "records", 4096, 1, 1 << 24)
            for count in command["counts"]:
                self.shards(count, records)
        return {"ray": ray.__version__, "cores": os.cpu_count()}

    def digits(self):
        """Serve a recogniser of digits with and without Ray."""
        images = np.random.default_rng(1).integers(0, 256, size=(40, 28, 28), dtype=np.uint8)
        network = unspoken.DigitsNetwork(epochs=1, progress=False).fit(images, np.arange(40) % 10)
        network.save(self.home / "digits")
        needed = network.predict(images[:1])

        def ask(client):
            if (client.recognise(images[:1])[0] != needed).any():
                raise PeerError("a service recognises another digit than the network in the clear")

        words = ",".join(f"{name}={value}" for name, value in PRESET.items())
        plain = self.plain("plain", "--offer", f"digits:digits/mnist={self.home / 'digits'},{words}")
        self.add("digits plain", unspoken.DigitsClient, plain, ask)
        offer = unspoken.ray.Offer("digits", self.home / "digits", options=PRESET, cpus=os.cpu_count())
        self.add("digits ray", unspoken.DigitsClient, self.on_ray("digits", offer), ask)

    def plain(self, name, *options):
        """Start a service without Ray."""
        home = self.home / name
        home.mkdir()
        return self.stack.enter_context(serving(self.binary, home, *options))

    def on_ray(self, name, offer):
        """Start a service on Ray."""
        data = self.home / f"{name}-data"
        service = unspoken.ray.serve([offer], listen="127.0.0.1:0", data_dir=data, name=name)
        return self.stack.enter_context(service).url

    def add(self, op, client, url, ask):
        """Connect a client, which sends its keys."""
        made = client(url, state_dir=self.home / f"state {op}", progress=False)
        ask(made)
        self.questions[op] = (ask, made)

    def add_many(self, op, url, ask):
        """Connect further clients with the same keys, which ask at the same time."""
        state = self.home / f"state {op}"
        made = [unspoken.RetrievalClient(url, state_dir=state, progress=False).connect() for _ in range(CLIENTS)]

        def ask_all(clients):
            list(self.threads.map(ask, clients))

        self.questions[f"{op} at once"] = (ask_all, made)

    def shards(self, count, records):
        """Serve a database in shards on Ray, or whole without it."""
        cores = os.cpu_count()
        if self.database is None:
            self.database = self.home / "whole"
            rows = "".join(f"{number:08d}" + "x" * (RECORD_BYTES - 8) + "\n" for number in range(records))
            (self.home / "rows.csv").write_text("value\n" + rows)
            build = ["pir", "build", "--from", self.home / "rows.csv", "--value", "value", "--tables", "dense"]
            self.run(*build, self.database)

        def ask(client):
            if not client.get_index(records - 1).startswith(b"%08d" % (records - 1)):
                raise PeerError("a service returns another record")

        if count == 0:
            url = self.plain("whole service", "--offer", f"pir:pir/rows={self.database}")
        elif count == 1:
            url = self.on_ray("shards-1", unspoken.ray.Offer("pir", self.database, "pir/rows", cpus=cores))
        else:
            out = self.home / f"shards-{count}"
            self.run("pir", "shard", self.database, "--of", count, out)
            paths = [out / f"shard-{number}" for number in range(1, count + 1)]
            threads = max(1, cores // count)
            url = self.on_ray(f"shards-{count}", unspoken.ray.Shards(paths, "pir/rows", cpus=threads))
        self.add(f"shards {count}", unspoken.RetrievalClient, url, ask)
        self.add_many(f"shards {count}", url, ask)

    def run(self, *command):
        """Run the command `unspoken`."""
        subprocess.run([self.binary, *map(str, command)], check=True, stdout=sys.stderr)

    def time(self, command, reps):
        """Ask the same question so many times."""
        if command.get("op") not in self.questions:
            raise PeerError(f"op: found {command.get('op')!r}, needed one of {', '.join(self.questions)}")
        ask, client = self.questions[command["op"]]
        return time_calls(lambda: ask(client), reps)

    def close(self):
        """End all services."""
        self.stack.close()
        ray.shutdown()
        shutil.rmtree(self.home, ignore_errors=True)


if __name__ == "__main__":
    cluster = Cluster()
    try:
        serve(cluster)
    finally:
        cluster.close()

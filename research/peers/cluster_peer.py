"""Services on Ray and without it, for `unspoken-bench cluster`: our own, in a process of its own as the peers are.

The protocol is in protocol.py. `setup` starts a Ray cluster on this machine. Its field `binary` is the command
`unspoken`; `part` is one of

- "overhead": a recogniser of digits on Ray and without it;
- "shards": a database of `records` records in each number of shards of `counts` on Ray, and whole without it, which is
  number 0;
- "llama": the first `layers` layers of stories260K after `public` tokens, with `preset` and `chunk` tokens of a pass,
  in `processes` processes of one core; with `random`, as many layers of a model with random weights, whose heads and
  activations do not fit one vector of a small ring. The answer has what `unspoken llama plan` predicts.

`time` asks a question of `op`: "digits plain", "digits ray", "shards NUMBER", or "llama", which runs a pass, and whose
answer has the `sent_bytes` of a pass to and from helpers. Of "shards NUMBER at once" eight clients ask one each. Needs
the package with its extra: `pip install "unspoken[ray]"`.
"""

import json
import logging
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from protocol import PeerError, integer, serve, time_calls

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray  # noqa: E402
from running import serving  # noqa: E402

import unspoken  # noqa: E402
import unspoken.ray  # noqa: E402

STORIES = ROOT / "models/stories260K"
PRESET = {"preset": "n14_real_depth8_scale30", "batch": "4"}
RECORD_BYTES = 2048
# Between two reports of Ray's metrics.
REPORT_SECONDS = 0.5
# Clients that ask at once.
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
        self.exporter = None

    def setup(self, command):
        """Start Ray, and the services of a part."""
        self.binary = Path(command["binary"])
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        store = 3 << 30 if command["part"] == "llama" else 512 << 20
        options = {"num_cpus": LOGICAL_CPUS, "include_dashboard": False, "log_to_driver": False}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.exporter = free.getsockname()[1]
        options |= {"_metrics_export_port": self.exporter}
        options |= {"_system_config": {"metrics_report_interval_ms": int(1000 * REPORT_SECONDS)}}
        ray.init("local", object_store_memory=store, **options)
        if command["part"] == "overhead":
            self.digits()
        elif command["part"] == "llama":
            return {"ray": ray.__version__, "cores": os.cpu_count(), "predicted": self.llama(command)}
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

    def llama(self, command):
        """Serve some layers of a model in several processes, and return what is predicted of a pass."""
        processes, chunk = integer(command, "processes", 1, 1, 16), integer(command, "chunk", 8, 8, 64)
        public, layers = integer(command, "public", 64, 1, 400), integer(command, "layers", 5, 1, 5)
        model, out = self.home / "model", self.home / "prepared"
        model.mkdir()
        shutil.copy(STORIES / "tok512.bin", model)
        random = command.get("random", False)
        checkpoint = (
            random_model(layers) if random else first_layers((STORIES / "stories260K.bin").read_bytes(), layers)
        )
        (model / "model.bin").write_bytes(checkpoint)
        names, animals = ["Tom", "Lily", "Sam", "Mia", "Ben", "Anna"], ["dog", "cat", "bird", "frog", "bear", "fish"]
        told = [self.told(f"One day, {name} and a {animal} went to the park.") for name in names for animal in animals]
        (self.home / "stories.txt").write_text("\n".join(told))
        # Polynomials are chosen for the number of tokens that a session may have.
        sizes = ["--public", public, "--private", chunk, "--chunk", chunk, "--tokens", 2000]
        self.run("llama", "prepare", "--model", model / "model.bin", "--text", self.home / "stories.txt", *sizes,
                 "--out", out)  # fmt: skip
        preset = command["preset"]
        kind = "insecure_preset" if preset.startswith("insecure_") else "preset"
        options = {kind: preset, "chunk": str(chunk), "chunks": "1", "sessions": "1"}
        offer = unspoken.ray.Offer("chat", out, "chat/stories", options, helpers=processes - 1)
        url = self.on_ray("llama", offer)
        client = unspoken.ChatClient(
            url, model=out / "client", state_dir=self.home / "state", progress=False, insecure_parameters=True
        )
        text = " ".join(told)

        def ask(client):
            generation = client.generate(" The", public=self.tokens_of(text, out, public), max_tokens=1)
            if generation.passes != 1:
                raise PeerError(f"found {generation.passes} passes, needed one")

        ask(client)
        self.questions["llama"] = (ask, client)
        plan = ["llama", "plan", "--preparation", out, "--preset", preset, "--private", chunk, "--public", public - 1]
        command = [self.binary, *map(str, plan), "--processes", str(processes), "--json"]
        one_core = {**os.environ, "RAYON_NUM_THREADS": "1"}
        planned = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=one_core).stdout)
        return {"alone": planned["seconds"], **planned["processes"][0]}

    def told(self, prompt):
        """Return a story that the model tells."""
        model = STORIES / "stories260K.bin"
        command = [self.binary, "llama", "run", "--model", model, "--max-tokens", "120", "--prompt", prompt]
        return prompt + subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def tokens_of(self, text, prepared, count):
        """Return the beginning of a text, about `count` tokens of the model."""
        half = unspoken._unspoken.LlamaModel.load(str(prepared / "client"))
        words = text.split()
        while len(half.tokens(" ".join(words))) > count - 4:
            words = words[: max(1, len(words) * 9 // 10)]
        return " ".join(words)

    def sent(self):
        """Return the bytes that helpers have been sent and have sent back, as Ray's exporter says."""
        time.sleep(4 * REPORT_SECONDS)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.exporter}/metrics") as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("ray_unspoken_replica_part_bytes"))

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
        made = [unspoken.PirClient(url, state_dir=state, progress=False).connect() for _ in range(CLIENTS)]

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
        self.add(f"shards {count}", unspoken.PirClient, url, ask)
        self.add_many(f"shards {count}", url, ask)

    def run(self, *command):
        """Run the command `unspoken`."""
        subprocess.run([self.binary, *map(str, command)], check=True, stdout=sys.stderr)

    def time(self, command, reps):
        """Ask the same question so many times."""
        if command.get("op") not in self.questions:
            raise PeerError(f"op: found {command.get('op')!r}, needed one of {', '.join(self.questions)}")
        ask, client = self.questions[command["op"]]
        if command["op"] == "llama":
            before = self.sent()
            return {**time_calls(lambda: ask(client), reps), "sent_bytes": (self.sent() - before) / reps}
        return time_calls(lambda: ask(client), reps)

    def close(self):
        """End all services."""
        self.stack.close()
        ray.shutdown()
        shutil.rmtree(self.home, ignore_errors=True)


def random_model(layers):
    """Return a llama2.c checkpoint of a model with random weights and the tokens of stories260K."""
    width, hidden, heads, kv_heads, vocabulary, context = 256, 256, 32, 8, 512, 512
    keys = width // heads * kv_heads
    random = np.random.default_rng(1)

    def matrices(count, rows, columns, gain):
        return gain * random.uniform(-1, 1, (count, rows, columns)) / np.sqrt(columns)

    parts = [
        matrices(1, vocabulary, width, 12),
        np.ones((layers, width)),
        matrices(layers, width, width, 1.5),
        matrices(layers, keys, width, 1.5),
        matrices(layers, keys, width, 1),
        matrices(layers, width, width, 2),
        np.ones((layers, width)),
        matrices(layers, hidden, width, 2),
        matrices(layers, width, hidden, 2),
        matrices(layers, hidden, width, 1),
        np.ones(width),
        # Tables of rotations, which readers ignore.
        np.zeros(context * width // heads),
    ]
    header = struct.pack("<7i", width, hidden, layers, heads, kv_heads, vocabulary, context)
    return header + b"".join(part.astype(np.float32).tobytes() for part in parts)


def first_layers(checkpoint, layers):
    """Return a llama2.c checkpoint with the first layers of another one."""
    header = list(struct.unpack("<7i", checkpoint[:28]))
    width, hidden, all_layers, heads, kv_heads, vocabulary, _ = header
    keys = width // heads * kv_heads
    embedding = abs(vocabulary) * width
    of_layers = [width, width * width, keys * width, keys * width, width * width]
    of_layers += [width, hidden * width, hidden * width, hidden * width]
    numbers = np.frombuffer(checkpoint[28:], np.float32)
    parts, first = [], embedding
    for size in of_layers:
        parts.append(numbers[first : first + size * layers])
        first += size * all_layers
    header[2] = layers
    return struct.pack("<7i", *header) + b"".join(
        part.tobytes() for part in [numbers[:embedding], *parts, numbers[first:]]
    )


if __name__ == "__main__":
    cluster = Cluster()
    try:
        serve(cluster)
    finally:
        cluster.close()

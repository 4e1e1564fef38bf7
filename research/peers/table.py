"""Drives one peer over its protocol and prints a table of medians.

    .peers/venv/bin/python research/peers/table.py openfhe [--reps K] [--check]
    .peers/venv/bin/python research/peers/table.py seal    [--reps K] [--check]

`--check` uses a small ring and one repetition: it checks in a second or two
that the peer works on this machine. `make peers` runs it.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EVALUATIONS = ["rotate", "mult_relin", "rescale", "hoist", "hoisted_rotation", "mult_plain", "add"]
ENCRYPTIONS = [
    "encode",
    "encode_one",
    "encrypt_public",
    "encrypt_public_zero_of_all_primes",
    "encrypt_symmetric",
    "encrypt_symmetric_seeded",
]
# peer: (operations, levels, small parameters)
PEERS = {
    "openfhe": (EVALUATIONS, ["full", "half", "lowest"], {"log_n": 11, "log_qp": 500, "digits": 3}),
    "seal": (ENCRYPTIONS, ["-"], {"log_n": 12, "log_qp": 105, "primes": 3, "scale_bits": 30}),
}


class Peer:
    """A peer process, which ends with the `with` block, also after errors."""

    def __init__(self, name):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / f"{name}_peer.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, **command):
        """Sends one command; returns its answer or ends the program with its error."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{command['cmd']}: the peer ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(f"{command}: {answer['error']}")
        return answer


def main():
    """Prints the parameters, then one line per operation and level."""
    parser = argparse.ArgumentParser(description="print a peer's timings on this machine")
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="small ring, one repetition")
    options = parser.parse_args()
    operations, levels, small = PEERS[options.peer]
    reps = 1 if options.check else options.reps
    with Peer(options.peer) as peer:
        setup = peer.ask(cmd="setup", **(small if options.check else {}))
        if options.check:
            print(f"{setup['peer']} {setup['version']}: N = {setup['n']}", end="")
        else:
            print(json.dumps(setup, indent=2))
            print(f"{'operation':34} {'level':8} {'median ms':>10} {'best':>10} {'cpu median':>11}")
        last = {}
        for operation in operations:
            for level in levels:
                last = peer.ask(cmd="time", op=operation, level=level, reps=reps)
                if not options.check:
                    print(
                        f"{operation:34} {level:8} {statistics.median(last['ms']):10.2f} "
                        f"{min(last['ms']):10.2f} {statistics.median(last['cpu_ms']):11.2f}",
                        flush=True,
                    )
    if options.check:
        print(f", {len(operations)} operations at {len(levels)} level(s) ran, decrypted results right")
    else:
        print(f"peak memory {last['peak_memory_mb']:.0f} MiB, threads {last['threads']}")


if __name__ == "__main__":
    main()

"""The line protocol of the peers.

A peer is a long-lived child process. It reads one JSON object per line from
standard input and answers each with one JSON object per line on standard
output. Standard output carries nothing else: output of libraries goes to
standard error. The process ends at `{"cmd": "quit"}` or at end of input.

    {"cmd": "setup", ...}                            -> the real parameters
    {"cmd": "time", "op": OP, "level": LEVEL, "reps": K}
                                   -> {"ms": [...], "cpu_ms": [...], ...}
    {"cmd": "quit"}                                  -> {"bye": true}

The answer to a failed command is `{"error": "..."}`; the process continues
to accept commands.
"""

import json
import os
import resource
import sys
import time

# Maximum repetitions per command, so that a driver's mistake cannot occupy a core for hours.
MAX_REPS = 10_000


class PeerError(Exception):
    """A command failed; the message states the reason and the remedy."""


def peak_memory_mb():
    """Peak resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def thread_count():
    """Threads of this process, or None where /proc does not exist."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("Threads:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def integer(command, name, default, low, high):
    """The integer field `name` of a command, checked against its range."""
    value = command.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PeerError(f"{name}: found {value!r}, needed an integer from {low} to {high}")
    return value


def time_calls(call, reps):
    """Times `call` `reps` times, each alone.

    Wall-clock and CPU milliseconds. The result of a call is released after
    the clocks have stopped.
    """
    wall, cpu = [], []
    for _ in range(reps):
        cpu_start = time.process_time()
        wall_start = time.perf_counter()
        result = call()
        wall_end = time.perf_counter()
        cpu_end = time.process_time()
        del result
        wall.append((wall_end - wall_start) * 1e3)
        cpu.append((cpu_end - cpu_start) * 1e3)
    return {"ms": wall, "cpu_ms": cpu}


def _answer(peer, command):
    if not isinstance(command, dict):
        raise PeerError("command: needed a JSON object on one line")
    name = command.get("cmd")
    if name == "setup":
        return peer.setup(command)
    if name == "time":
        reps = integer(command, "reps", 1, 1, MAX_REPS)
        return peer.time(command, reps)
    raise PeerError(f"cmd: found {name!r}, needed one of setup, time, quit")


def serve(peer):
    """Answers commands until `quit` or end of input.

    `peer` has two methods: `setup(command)` and `time(command, reps)`. Both
    return a dict that JSON can hold.
    """
    # Keep the real standard output for answers and send all other writes to descriptor 1, including native code, to
    # standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            command = json.loads(line)
            if isinstance(command, dict) and command.get("cmd") == "quit":
                print(json.dumps({"bye": True}), file=answers, flush=True)
                return
            reply = _answer(peer, command)
        except PeerError as error:
            reply = {"error": str(error)}
        # The boundary of the process: every failure, also of a library, becomes an answer instead of ending the child.
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)

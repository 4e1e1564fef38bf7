"""The line protocol that both peers speak.

A peer is a long-lived child process. It reads one JSON object per line from
standard input and answers each with one JSON object per line on standard
output. Standard output carries nothing else: whatever a library prints goes
to standard error. The process ends at `{"cmd": "quit"}` or at end of input.

    {"cmd": "setup", ...}                            -> the real parameters
    {"cmd": "time", "op": OP, "level": LEVEL, "reps": K}
                                   -> {"ms": [...], "cpu_ms": [...], ...}
    {"cmd": "quit"}                                  -> {"bye": true}

An answer to a command that failed is `{"error": "..."}`; the process stays
alive and takes further commands.
"""

import json
import os
import resource
import sys
import time

# An upper bound on repetitions per command, so that a driver's mistake cannot
# keep a core busy for hours.
MAX_REPS = 10_000


class PeerError(Exception):
    """A command that cannot be carried out, with the reason and the remedy."""


def peak_memory_mb():
    """Largest resident size of this process so far, in MiB."""
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
    # Keep the real standard output for answers and send everything else that
    # is written to descriptor 1, native code included, to standard error.
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
        # The boundary of the process: every failure, a library's own
        # included, becomes an answer and not a dead child.
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)

"""Clients that were used before a fork, as servers of many processes and `multiprocessing` do."""

from __future__ import annotations

import os
import textwrap

import pytest
from conftest import Child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Asks before the fork, in a child with the same client and with a new one, in a child of the child, and again.
SCRIPT = textwrap.dedent(
    """
    import asyncio, os, sys, threading, unspoken, unspoken.aio

    url, state, kind = sys.argv[1:]

    def new():
        made = unspoken.aio.PirClient if kind == "asyncio" else unspoken.PirClient
        return made(url, "pir/codes", state_dir=state, progress=False)

    def in_child(work):
        pid = os.fork()
        if pid == 0:
            try:
                work()
                os._exit(0)
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
                os._exit(1)
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("a child failed")

    def ask(client):
        if kind == "asyncio":
            assert asyncio.run(client.get("C007")) == b"t" * 7 + b"7"
            return
        assert client.get("C007") == b"t" * 7 + b"7"

    client = new()
    ask(client)
    if kind in ("same", "asyncio"):
        in_child(lambda: (ask(client), ask(client), in_child(lambda: ask(client))))
    elif kind == "new":
        in_child(lambda: ask(new()))
    elif kind == "busy":
        # Another thread of the parent holds the client; in the child nobody does.
        client._lock.acquire()
        in_child(lambda: ask(client))
        client._lock.release()
    ask(client)
    print("done", flush=True)
    """
)


@pytest.mark.parametrize("kind", ["same", "new", "busy", "asyncio"])
def test_clients_work_in_children(retrieval_service, state, kind):
    child = Child(SCRIPT, retrieval_service.url, state, kind)
    out, errors = child.finish(120)
    assert out == "done\n", out + errors


# Connects through a proxy that passes nothing on after the fork: it accepts, and keeps silent.
TIMEOUT = textwrap.dedent(
    """
    import os, socket, sys, threading, time, unspoken

    host, port = sys.argv[1].removeprefix("http://").split(":")
    listening = socket.create_server(("127.0.0.1", 0))
    silent = threading.Event()
    kept = []

    def pump(source, target):
        while data := source.recv(1 << 16):
            target.sendall(data)

    def serve():
        while True:
            near = listening.accept()[0]
            kept.append(near)
            if not silent.is_set():
                far = socket.create_connection((host, int(port)))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    client = unspoken.PirClient(address, "pir/codes", state_dir=sys.argv[2], progress=False, timeout=5)
    assert client.get("C007") == b"t" * 7 + b"7"
    silent.set()
    pid = os.fork()
    if pid == 0:
        start = time.monotonic()
        try:
            client.get("C007")
        except unspoken.TimedOutError:
            os._exit(0 if time.monotonic() - start < 20 else 2)
        os._exit(1)
    print(os.waitpid(pid, 0)[1], flush=True)
    os._exit(0)
    """
)


def test_a_timeout_holds_in_a_child(retrieval_service, tmp_path):
    child = Child(TIMEOUT, retrieval_service.url, tmp_path)
    out, errors = child.finish(120)
    assert out == "0\n", out + errors

"""What tests of the page do with it in a browser."""

from __future__ import annotations

import base64
import socket
import threading
from typing import Any

# Milliseconds for everything that computes: the machine of continuous integration is slow.
PATIENCE = 120_000


class Wire:
    """A forwarder in front of the service, which keeps every byte that a page sends."""

    def __init__(self, service: str) -> None:
        self.service, self.sent, self.lock = service, bytearray(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        host, port = self.service.removeprefix("http://").split(":")
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection((host, int(port)))
            threading.Thread(target=self._forward, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(far, near, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_sent: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if is_sent:
                    with self.lock:
                        self.sent += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()

    def close(self) -> None:
        self.listener.close()


def opened(context: Any, url: str) -> Any:
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    connected(page)
    return page


def connected(page: Any) -> None:
    page.locator("#status", has_text="Connected").wait_for()


def unlock(page: Any, passphrase: str) -> None:
    page.locator("#settings summary").click()
    page.locator("input[name=passphrase]").fill(passphrase)
    page.get_by_role("button", name="Apply").click()
    connected(page)


def card(page: Any, kind: str) -> Any:
    return page.locator(f"article[data-kind={kind}]").first


def named(page: Any, name: str) -> Any:
    return page.locator("article", has=page.get_by_text(name, exact=True))


def ask(place: Any) -> str:
    place.locator("button.main").click()
    place.locator(".took").wait_for()
    return place.locator(".answer").inner_text()


def unfold(place: Any) -> Any:
    """The numbers of a card, and its secret."""
    folded = place.locator("details.numbers")
    if folded.get_attribute("open") is None:
        folded.locator("summary").click()
    return folded


def requests(page: Any) -> list[str]:
    """The rows of the record of all requests, which is folded."""
    return page.locator("#requests tr").all_text_contents()


def queries(page: Any) -> int:
    return sum(row.startswith("query") for row in requests(page))


def stored(page: Any) -> str:
    """All that IndexedDB, local and session storage and the cookies contain."""
    return page.evaluate(
        """async () => {
            const parts = [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie];
            for (const { name } of await indexedDB.databases()) {
                const database = await new Promise((done) => {
                    const request = indexedDB.open(name);
                    request.onsuccess = () => done(request.result);
                });
                for (const store of database.objectStoreNames) {
                    const rows = await new Promise((done) => {
                        const request = database.transaction(store).objectStore(store).getAll();
                        request.onsuccess = () => done(request.result);
                    });
                    const hex = (value) => value instanceof Uint8Array
                        ? Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("")
                        : String(value);
                    rows.forEach((row) => parts.push(...Object.values(row).map(hex)));
                }
                database.close();
            }
            return parts.join(" ");
        }"""
    )


def entries(page: Any) -> int:
    """The number of entries of all stores of IndexedDB."""
    return page.evaluate(
        """async () => {
            let count = 0;
            for (const { name } of await indexedDB.databases()) {
                const database = await new Promise((done) => {
                    const request = indexedDB.open(name);
                    request.onsuccess = () => done(request.result);
                });
                for (const store of database.objectStoreNames) {
                    count += await new Promise((done) => {
                        const request = database.transaction(store).objectStore(store).count();
                        request.onsuccess = () => done(request.result);
                    });
                }
                database.close();
            }
            return count;
        }"""
    )


def secret_of(place: Any) -> str:
    unfold(place).get_by_role("button", name="Show it").click()
    shown = place.locator("code.secret")
    shown.wait_for()
    return shown.inner_text()


def megabytes(text: str) -> float:
    """A number of megabytes, as the page shows it, less the digits that it does not show."""
    number, unit = text.split()
    assert unit == "MB"
    return float(number) - 0.1


def forms(secret: bytes) -> list[bytes]:
    """A secret and parts of it, in the forms in which it could leak."""
    parts = [secret, *(secret[at : at + 16] for at in range(0, len(secret) - 15, 16))]
    encoded = [base64.b64encode(part).rstrip(b"=")[:-1] for part in parts]
    return [*parts, *(part.hex().encode() for part in parts), *encoded]

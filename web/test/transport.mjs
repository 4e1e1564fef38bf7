// Requests of the client for browsers, against services and proxies on this machine. `make web` builds it; then
// `node --test web/test/`.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { Transport, applicationPath } from "../dist/transport.js";

/** Calls `use` with the address of a server that answers every request with the next of `answers`, and its requests. */
async function serving(answers, use) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const [status, headers, body] = answers[Math.min(requests.length, answers.length) - 1];
    response.writeHead(status, { Connection: "close", ...headers });
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${server.address().port}`, requests);
  } finally {
    server.close();
  }
}

const ANSWER = [200, { "Content-Type": "application/json" }, '{"names": []}'];
const PAGE = "<html>a page</html>";
const asked = { purpose: "description", method: "GET", path: applicationPath("classify/spam") };
const quiet = () => undefined;

test("slashes of names stay, and a path of the address too", async () => {
  await serving([ANSWER], async (url, requests) => {
    await new Transport({ url }, quiet).json(asked);
    await new Transport({ url: `${url}/unspoken/` }, quiet).json(asked);
    assert.deepEqual(requests, ["GET /v1/apps/classify/spam", "GET /unspoken/v1/apps/classify/spam"]);
  });
  assert.equal(applicationPath("a b/c?"), "/v1/apps/a%20b/c%3F");
  for (const url of ["https://example.org/?a=b", "https://example.org/#a"]) {
    assert.throws(() => new Transport({ url }, quiet), { code: "argument" });
  }
});

test("a proxy that does not reach the service is tried again", async () => {
  for (const status of [429, 502, 503, 504]) {
    await serving([[status, { "Content-Type": "text/html" }, PAGE], ANSWER], async (url, requests) => {
      assert.deepEqual(await new Transport({ url }, quiet).json(asked), { names: [] });
      assert.equal(requests.length, 2);
    });
  }
});

test("other pages, and refusals of the service itself, are final", async () => {
  const problem = JSON.stringify({ code: "queue_full", message: "full" });
  const answers = [
    ["unknown", 404, { "Content-Type": "text/html" }, PAGE],
    ["unknown", 500, { "Content-Type": "text/html" }, PAGE],
    ["queue_full", 503, { "Content-Type": "application/json" }, problem],
  ];
  for (const [code, ...answer] of answers) {
    await serving([answer, ANSWER], async (url, requests) => {
      await assert.rejects(new Transport({ url }, quiet).json(asked), { code, status: answer[0] });
      assert.equal(requests.length, 1);
    });
  }
});

test("a proxy without its service is not asked for ever", async () => {
  await serving([[502, { "Content-Type": "text/html" }, PAGE]], async (url) => {
    const start = performance.now();
    await assert.rejects(new Transport({ url, patience: 2 }, quiet).json(asked), { status: 502 });
    assert.ok(performance.now() - start < 10_000);
  });
});

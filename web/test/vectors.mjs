// The module for browsers against the known answers of `vectors/`. `make web` builds the module; then
// `node --test web/test/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ClearModel, Client, initSync } from "../dist/wasm/unspoken_web.js";

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));
const bytesOf = (base64) => new Uint8Array(Buffer.from(base64, "base64"));

initSync({ module: readFileSync(new URL("../dist/wasm/unspoken_web_bg.wasm", import.meta.url)) });

/** A field of bytes in protobuf. */
function field(number, bytes) {
  const front = [(number << 3) | 2];
  let length = bytes.length;
  for (; length >= 128; length >>>= 7) {
    front.push((length & 127) | 128);
  }
  return Buffer.concat([Buffer.from([...front, length]), bytes]);
}

/** The files of a model as `GET /v1/models/{name}` returns them. */
function published(files) {
  const entries = Object.entries(files);
  return Buffer.concat(
    entries.map(([name, content]) =>
      field(1, Buffer.concat([field(1, Buffer.from(name)), field(2, bytesOf(content))])),
    ),
  );
}

/** The client's half of the files. */
const half = (files) => Object.fromEntries(Object.entries(files).filter(([name]) => name.startsWith("client.")));

const asked = ({ pixels, ...question }) => (pixels === undefined ? question : { pixels: bytesOf(pixels) });

/** The input that a refused case has in place of the sound one. */
function damaged({ flip, cut, bytes }, sound) {
  if (flip !== undefined) {
    const changed = bytesOf(sound);
    changed[flip] ^= 1;
    return changed;
  }
  return cut === undefined ? bytesOf(bytes) : bytesOf(sound).subarray(0, cut);
}

function open(kind, { description, secret, model, options }, changed = {}) {
  const opened = { secret: bytesOf(secret), acceptInsecure: true, ...options, ...changed.options };
  if (kind === "classify") {
    opened.model = published(half(model));
  }
  return Client.open(changed.description ?? bytesOf(description), opened);
}

/** An answer of the module in the form of the vectors. */
function written(answer) {
  if ("record" in answer) {
    const { record, version } = answer;
    return { record: record === undefined ? null : Buffer.from(record).toString("base64"), version };
  }
  const { labels, ...rest } = answer;
  return rest;
}

function assertClose(found, expected, tolerance) {
  assert.equal(found.length, expected.length);
  found.forEach(({ scores: foundScores = [], ...foundRest }, i) => {
    const { scores = [], ...rest } = expected[i];
    assert.deepEqual(foundRest, rest);
    assert.equal(foundScores.length, scores.length);
    foundScores.forEach((score, j) => assert.ok(Math.abs(score - scores[j]) <= tolerance, `${score} ${scores[j]}`));
  });
}

for (const kind of ["classify", "digits", "retrieve"]) {
  const file = vectors(kind);
  assert.deepEqual([file.format, file.version], [`unspoken-vectors/${kind}`, 1]);
  for (const vector of file.cases) {
    test(`${kind}: ${vector.name}`, () => {
      const client = open(kind, vector);
      assert.equal(client.kind, kind);
      assert.equal(client.preset, vector.server.preset);
      assert.deepEqual(client.secret(), bytesOf(vector.secret));
      assert.deepEqual(client.bundleContents(), bytesOf(vector.bundle_contents));
      // The secret alone opens an answer: a new request with the same questions does for the stored one.
      const questions = vector.questions.map(asked);
      const request = client.ask(questions);
      assert.equal(request.takeBytes().length, bytesOf(vector.query).length);
      const answers = client.read(request, bytesOf(vector.answer)).map(written);
      assertClose(answers, vector.answers, vector.tolerance);
      if (vector.clear !== undefined) {
        assertClose(answers, vector.clear.answers, vector.clear.error);
        const model = ClearModel.open(kind, published(vector.model));
        assertClose(
          questions.map((question) => written(model.ask(question))),
          vector.clear.answers,
          1e-12,
        );
      }

      assert.throws(() => open(kind, vector, { options: { acceptInsecure: false } }), /a secure one/);
      for (const refused of vector.refused) {
        const input = damaged(refused, vector[refused.field]);
        switch (refused.field) {
          case "description":
            assert.throws(() => open(kind, vector, { description: input }), { message: new RegExp(refused.error) });
            break;
          case "secret":
            // A malformed one is refused at once, another one with the answer.
            assert.throws(
              () => {
                const other = open(kind, vector, { options: { secret: input } });
                other.read(other.ask(questions), bytesOf(vector.answer));
              },
              { message: new RegExp(refused.error) },
            );
            break;
          case "answer":
            assert.throws(() => client.read(request, input), { message: new RegExp(refused.error) });
            break;
          default:
            // Clients do not read queries.
            assert.equal(refused.field, "query");
        }
      }
    });
  }
}

for (const { name, passphrase, same_passphrase, secret, sealed, refused } of vectors("seal").cases) {
  test(`seal: ${name}`, () => {
    const description = bytesOf(vectors("retrieve").cases[0].description);
    const opened = (passphrase, sealed) =>
      Client.open(description, { sealed: bytesOf(sealed), passphrase, acceptInsecure: true });
    const client = opened(passphrase, sealed);
    assert.deepEqual(client.secret(), bytesOf(secret));
    assert.deepEqual(opened(same_passphrase, sealed).secret(), bytesOf(secret));
    for (const other of refused) {
      assert.throws(() => opened(other.passphrase, other.sealed), { code: "argument" }, other.name);
    }
    // What the module seals, it opens.
    const again = Buffer.from(client.seal(passphrase)).toString("base64");
    assert.notEqual(again, sealed);
    assert.deepEqual(opened(passphrase, again).secret(), bytesOf(secret));
  });
}

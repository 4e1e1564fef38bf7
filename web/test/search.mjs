// What a search sends, whatever its answers decrypt to: with connections that record what they are asked. `make web`
// builds it; then `node --test web/test/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { UnspokenError } from "../dist/errors.js";
import { find, withDocuments } from "../dist/search.js";
import { ClearModel, documentOf, hasDocumentsOf, initSync } from "../dist/wasm/unspoken_web.js";

initSync({ module: readFileSync(new URL("../dist/wasm/unspoken_web_bg.wasm", import.meta.url)) });

const COSTS = {
  encryptMilliseconds: 1,
  decryptMilliseconds: 2,
  serviceMilliseconds: 3,
  queryBytes: 100,
  answerBytes: 1000,
};
const HITS = [
  { position: 7, cosine: 0.5 },
  { position: 3, cosine: 0.25 },
];
const BUILD = 0x1abcdef0;

/** The record of a document, as `unspoken search build` stores it. */
function record(id, content) {
  const front = Buffer.alloc(2);
  front.writeUInt16LE(id === undefined ? 0 : id.length + 1);
  return Buffer.concat([front, Buffer.from(id ?? ""), Buffer.from(content)]);
}

/** An answer of the documents of a build, as far as it is not encrypted: its version. */
function answerOf(build, version = 5) {
  const answer = Buffer.alloc(16);
  answer.writeBigUInt64LE((BigInt(build) << 32n) + BigInt(version));
  return answer;
}

/** An answer with scores of a build, as far as it is not encrypted: its id, and the versions of the documents. */
function scoresOf(build, first = 5, last = 5) {
  const answer = Buffer.alloc(24);
  answer.writeUInt32LE(2 * build);
  answer.writeUInt32LE(first, 16);
  answer.writeUInt32LE(last, 20);
  return answer;
}

const unreadable = () => new UnspokenError("unreadable", "the answer cannot be read");
const nothing = () => undefined;
const signal = new AbortController().signal;

/**
 * Searches with connections that give these answers, one after the other: hits or an error of reading them, and builds
 * of the documents or an error of reading them. Returns what was found or thrown, and what was sent.
 */
async function searched({ hits = [HITS], fetched = [[BUILD]], builds = [BUILD], most = 4 }) {
  const sent = [];
  const next = (all) => (all.length > 1 ? all.shift() : all[0]);
  const answered = async (arrived, answers, read) => {
    arrived(answers);
    if (read instanceof Error) {
      throw read;
    }
    return { answers: read, ...COSTS };
  };
  const index = {
    info: { name: "search/notes", kind: "search" },
    collection: {},
    async ask([question], _report, _signal, arrived) {
      sent.push(["search", question]);
      const found = next(hits);
      return await answered(arrived, [scoresOf(next(builds))], found instanceof Error ? found : [{ hits: found }]);
    },
  };
  const documents = {
    info: { name: "search/notes-documents", kind: "retrieve" },
    async prepare() {
      sent.push(["keys"]);
    },
    async ask(questions, _report, _signal, arrived) {
      sent.push(["fetch", questions.length]);
      this.asked = questions.map(({ index }) => index);
      const [build, error] = next(fetched);
      const read = questions.map(({ index }) => ({ record: index === 3 ? undefined : record("k", `text ${index}`) }));
      return await answered(arrived, [answerOf(build)], error ?? read);
    },
  };
  const question = { vector: [1, 0], most };
  try {
    return {
      found: await find({ index, documents, documentOf, hasDocumentsOf }, question, nothing, signal),
      sent,
      documents,
    };
  } catch (error) {
    return { error, sent, documents };
  }
}

const once = (most = 4) => [["keys"], ["search", { vector: [1, 0], most }], ["fetch", most]];
const steps = (sent) => sent.map(([step, count]) => (step === "fetch" ? `${step} ${count}` : step));

test("documents are found and fetched, as many as are wanted", async () => {
  const { found, sent, documents } = await searched({});
  assert.deepEqual(sent, once());
  assert.deepEqual(documents.asked, [7, 3, 0, 0]);
  // The document at 3 was removed after the scores were computed.
  const [document, ...others] = found.documents;
  assert.deepEqual([document.position, document.cosine, others], [7, 0.5, []]);
  assert.equal(Buffer.from(document.content).toString(), "text 7");
  assert.equal(Buffer.from(document.id).toString(), "k");
  assert.deepEqual([found.queryBytes, found.answerBytes, found.decryptMilliseconds], [200, 2000, 4]);
  const few = await searched({ most: 1 });
  assert.deepEqual([few.sent, few.documents.asked], [once(1), [7]]);
});

test("an answer that cannot be read changes nothing that is sent", async () => {
  const { error, sent, documents } = await searched({ hits: [unreadable()] });
  assert.equal(error.code, "unreadable");
  assert.deepEqual([sent, documents.asked], [once(), [0, 0, 0, 0]]);
  for (const code of ["unreadable", "malformed"]) {
    const { error, sent } = await searched({ fetched: [[BUILD, new UnspokenError(code, "in an answer")]] });
    assert.equal(error.code, code);
    assert.deepEqual(sent, once());
  }
});

test("a collection that was rebuilt is searched again, whether its answers could be read or not", async () => {
  const twice = ["keys", "search", "fetch 4", "search", "fetch 4"];
  const { found, sent } = await searched({ fetched: [[BUILD + 1], [BUILD + 1]], builds: [BUILD, BUILD + 1] });
  assert.deepEqual(steps(sent), twice);
  assert.deepEqual([found.documents.length, found.queryBytes], [1, 400]);
  for (const error of [unreadable(), new UnspokenError("malformed", "no such index")]) {
    const fetched = () => [[BUILD + 1, error], [BUILD]];
    assert.deepEqual(steps((await searched({ fetched: fetched() })).sent), twice);
    assert.deepEqual(steps((await searched({ fetched: fetched(), hits: [unreadable(), HITS] })).sent), twice);
  }
  const never = await searched({ fetched: [[BUILD + 1]] });
  assert.equal(never.error.code, "mismatch");
  assert.deepEqual(steps(never.sent), [...twice, "search", "fetch 4", "search", "fetch 4"]);
});

test("what cannot be asked is refused before anything is sent", async () => {
  for (const most of [0, 1001, 1.5]) {
    const { error, sent } = await searched({ most });
    assert.deepEqual([error.code, sent], ["argument", []]);
  }
});

test("records that are no documents are refused, and removed ones are none", () => {
  assert.equal(documentOf(new Uint8Array()), undefined);
  assert.equal(documentOf(record(undefined, "text")).id, undefined);
  for (const malformed of [[1], [3, 0, 1], [255, 255, 0]]) {
    assert.throws(() => documentOf(Uint8Array.from(malformed)), { code: "unreadable" });
  }
  assert.equal(hasDocumentsOf(new Uint8Array(7), scoresOf(BUILD)), false);
  assert.equal(hasDocumentsOf(answerOf(BUILD), new Uint8Array(23)), false);
  const fitting = (version, first, last) => hasDocumentsOf(answerOf(BUILD, version), scoresOf(BUILD, first, last));
  assert.deepEqual(
    [4, 5, 6, 7, 8].map((version) => fitting(version, 5, 6)),
    [false, true, true, true, false],
  );
  assert.deepEqual([fitting(5, 5, 4), fitting(4, 5, 4), fitting(5, 5, 3)], [true, false, false]);
  assert.equal(ClearModel.open("search", new Uint8Array()), undefined);
});

test("what a search costs is that of both applications", () => {
  const object = { what: "dense query", securityBits: 128 };
  const info = { keyBytes: 5, hasKeys: true, keyMilliseconds: 1, queryBytes: 10, answerBytes: 20, objects: [object] };
  const documents = { ...info, keyBytes: 7, hasKeys: false, objects: [object, { ...object, what: "compact query" }] };
  const joined = withDocuments(info, documents, { queryBytes: 100, answerBytes: 200 });
  assert.deepEqual([joined.keyBytes, joined.hasKeys, joined.queryBytes, joined.answerBytes], [12, false, 110, 220]);
  assert.deepEqual(
    joined.objects.map(({ what }) => what),
    ["dense query", "compact query"],
  );
});

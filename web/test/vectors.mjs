// The module for browsers against the known answers of `vectors/`. `make web` builds the module; then
// `node --test web/test/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { isCurrent } from "../dist/storage.js";
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
const half = (files) =>
  Object.fromEntries(
    Object.entries(files).filter(([name]) => /^(chat_template|client|coverage|head|tokenizer)\./.test(name)),
  );

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
  if (kind === "classify" || kind === "llama") {
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
  if ("outputs" in answer) {
    return {
      outputs: answer.outputs.map(({ values, labels }) => (labels === undefined ? { values } : { values, labels })),
    };
  }
  const { labels, ...rest } = answer;
  return rest;
}

/** Numbers agree up to the tolerance, everything else exactly. */
function assertClose(found, expected, tolerance) {
  if (typeof expected === "number") {
    assert.ok(Math.abs(found - expected) <= tolerance, `${found} ${expected}`);
  } else if (typeof expected === "object" && expected !== null) {
    assert.deepEqual(Object.keys(found), Object.keys(expected));
    Object.keys(expected).forEach((key) => assertClose(found[key], expected[key], tolerance));
  } else {
    assert.equal(found, expected);
  }
}

function cases(kind) {
  const file = vectors(kind);
  assert.deepEqual([file.format, file.version], [`unspoken-vectors/${kind}`, 1]);
  return file.cases;
}

/** A client with the stored secret. */
function opened(kind, vector) {
  const client = open(kind, vector);
  assert.equal(client.kind, kind);
  assert.equal(client.preset, vector.server.preset);
  assert.deepEqual(client.secret(), bytesOf(vector.secret));
  assert.deepEqual(client.bundleContents(), bytesOf(vector.bundle_contents));
  return client;
}

/** Checks all inputs to refuse. `read` reads an answer with a client. */
function assertRefused(kind, vector, client, read) {
  assert.throws(() => open(kind, vector, { options: { acceptInsecure: false } }), /a secure one/);
  for (const refused of vector.refused) {
    const input = damaged(refused, vector[refused.field]);
    const message = { message: new RegExp(refused.error) };
    switch (refused.field) {
      case "description":
        assert.throws(() => open(kind, vector, { description: input }), message);
        break;
      case "secret":
        // A malformed one is refused at once, another one with the answer.
        assert.throws(() => read(open(kind, vector, { options: { secret: input } }), bytesOf(vector.answer)), message);
        break;
      case "answer":
        assert.throws(() => read(client, input), message);
        break;
      default:
        // Clients do not read queries.
        assert.equal(refused.field, "query");
    }
  }
}

for (const kind of ["classify", "digits", "model", "retrieve"]) {
  for (const vector of cases(kind)) {
    test(`${kind}: ${vector.name}`, () => {
      if (vector.options?.mode === "session") {
        assert.throws(() => open(kind, vector), /session queries need counters/);
        return;
      }
      const client = opened(kind, vector);
      // The secret alone opens an answer: a new request with the same questions does for the stored one.
      const questions = vector.questions.map(asked);
      const request = client.ask(questions);
      assert.equal(request.takeBytes().length, bytesOf(vector.query).length);
      const answers = client.read(request, bytesOf(vector.answer)).map(written);
      assertClose(answers, vector.answers, vector.tolerance);
      if (vector.clear !== undefined) {
        assertClose(answers, vector.clear.answers, vector.clear.error);
        const model = ClearModel.open(kind, published(vector.model));
        // Owners keep the models that they bring.
        assert.equal(model === undefined, kind === "model");
        if (model !== undefined) {
          assertClose(
            questions.map((question) => written(model.ask(question))),
            vector.clear.answers,
            1e-12,
          );
        }
      }

      assertRefused(kind, vector, client, (client, answer) => client.read(client.ask(questions), answer));
    });
  }
}

test("model: a row outside its ranges has no answer, and the others have theirs", () => {
  const [vector] = cases("model");
  const client = opened("model", vector);
  const [first, second, third] = vector.questions;
  const outside = { inputs: Object.fromEntries(Object.entries(second.inputs).map(([name, row]) => [name, [...row]])) };
  outside.inputs[Object.keys(outside.inputs)[0]][1] = 1e9;
  client.check([first, outside, third]);
  const request = client.ask([first, outside, third]);
  assert.equal(request.takeBytes().length, bytesOf(vector.query).length);
  const read = client.read(request, bytesOf(vector.answer));
  assert.match(read[1].error, /^input ".*": found a number outside in element 1/);
  assertClose([read[0], read[2]].map(written), [vector.answers[0], vector.answers[2]], vector.tolerance);
  const gives = client.model().outputs.map(({ gives }) => gives);
  assert.deepEqual(gives, ["labels", "probabilities"]);
  assert.deepEqual(
    read[0].outputs.map(({ gives }) => gives),
    gives,
  );
});

for (const vector of cases("llama")) {
  test(`llama: ${vector.name}`, () => {
    const client = opened("llama", vector);
    const [question] = vector.questions;
    const { vocab } = JSON.parse(Buffer.from(vector.model["tokenizer.json"], "base64")).model;
    const words = Object.entries(vocab)
      .sort(([, a], [, b]) => a - b)
      .map(([word]) => word);
    const text = (tokens) => tokens.map((token) => words[token]).join(" ");
    // As they are: the recorded queries are those of one chunk.
    const texts = [text(question.public), text(question.tokens), 1, undefined, true];
    const { begin, end, lost } = vector.session;
    const ask = (client, continuation, query, answer) => {
      const request = client.askNext(continuation);
      assert.equal(request.takeBytes().length, bytesOf(query).length);
      client.take(continuation, request, answer);
    };
    // Answers do not name the session: those of the stored one do for that of a new text.
    const read = (client, answer) => {
      const continuation = client.continueText(...texts);
      ask(client, continuation, begin.query, bytesOf(begin.answer));
      ask(client, continuation, vector.query, answer);
      ask(client, continuation, end.query, bytesOf(end.answer));
      assert.equal(client.askNext(continuation), undefined);
      return continuation.told();
    };
    const told = read(client, bytesOf(vector.answer));
    for (const { logits } of [...vector.answers, ...vector.clear.answers]) {
      const last = logits.at(-1);
      assert.equal(told.text.trim(), words[last.indexOf(Math.max(...last))]);
    }
    assert.deepEqual([told.tokens, told.passes, told.end], [1, 1, "maximum"]);

    // Tokens that the preparation never ran are known before a question is sent.
    const { id } = JSON.parse(Buffer.from(vector.model["client.json"], "base64")).model;
    const covering = (tokens) => {
      const coverage = Buffer.from(JSON.stringify({ id, tokens })).toString("base64");
      const model = { ...vector.model, "coverage.json": coverage };
      return opened("llama", { ...vector, model })
        .continueText(...texts)
        .told().uncovered;
    };
    const used = [...new Set([...question.public, ...question.tokens])].sort((a, b) => a - b);
    assert.deepEqual([told.uncovered, covering([[0, words.length]])], [[], []]);
    assert.deepEqual(
      covering([]).map((piece) => piece.trim()),
      used.map((token) => words[token]),
    );
    assert.equal(ClearModel.open("llama", published(vector.model)).continueText(...texts.slice(0, 4), 1), told.text);

    // A client whose session is lost begins again.
    const continuation = client.continueText(...texts);
    ask(client, continuation, begin.query, bytesOf(begin.answer));
    ask(client, continuation, vector.query, bytesOf(lost.answer));
    ask(client, continuation, begin.query, bytesOf(begin.answer));
    ask(client, continuation, vector.query, bytesOf(vector.answer));
    assert.equal(continuation.told().text, told.text);

    assertRefused("llama", vector, client, read);

    // A conversation: the template puts words behind each other.
    assert.ok(!client.takesMessages);
    const said = (...contents) =>
      contents.map((content, i) => ({ role: ["system", "user", "assistant"][i % 3], content }));
    const asked = (messages, options) => ({ messages, mostTokens: 1, unixSeconds: 0, ...options });
    assert.throws(() => client.answer(client.converse(), asked(said("w3", "w4"))), {
      code: "argument",
      message: /--chat-template/,
    });
    const template = { source: "{% for m in messages %}{{ m.content }} {% endfor %}", tokens: {} };
    const file = Buffer.from(JSON.stringify({ id, template })).toString("base64");
    const talking = opened("llama", { ...vector, model: { ...vector.model, "chat_template.json": file } });
    assert.ok(talking.takesMessages);
    const conversation = talking.converse();
    const unfit = { code: "argument", message: /has not begun/ };
    assert.throws(() => talking.askNext(conversation), unfit);
    for (const [messages, message] of [
      [[], /0 messages/],
      [said("w3 </s>", "w4"), /message 1 contains <\/s>/],
      [[{ role: "user" }], /messages: found .*content/],
    ]) {
      assert.throws(() => talking.answer(conversation, asked(messages)), { code: "argument", message });
    }
    const front = said(texts[0], texts[1]);
    talking.answer(conversation, asked(front, { publicMessages: 1 }));
    ask(talking, conversation, begin.query, bytesOf(begin.answer));
    ask(talking, conversation, vector.query, bytesOf(vector.answer));
    // The session stays: no request ends it.
    assert.equal(talking.askNext(conversation), undefined);
    assert.deepEqual(conversation.told(), told);

    // The next answer needs the second chunk alone, also after one that nobody waited for and with another message.
    // The number of a chunk is not sent if it is 0, and has two bytes here.
    for (const next of ["w3", "w4 w5"]) {
      const messages = [...front, { role: "assistant", content: told.text }, { role: "user", content: next }];
      talking.answer(conversation, asked(messages, { publicMessages: 1 }));
      assert.deepEqual([conversation.told().text, conversation.told().reused], ["", question.tokens.length]);
      assert.equal(talking.askNext(conversation).takeBytes().length, bytesOf(vector.query).length + 2);
      assert.throws(() => talking.askNext(conversation), unfit);
      conversation.stop();
      assert.deepEqual([conversation.told().tokens, conversation.told().end], [0, "stop"]);
    }
    // The first answer once more: its chunk has its last token.
    talking.answer(conversation, asked(front, { publicMessages: 1 }));
    ask(talking, conversation, vector.query, bytesOf(vector.answer));
    assert.deepEqual(conversation.told(), told);
    // With another public part, the session begins again.
    talking.answer(conversation, asked(front));
    assert.notEqual(talking.askNext(conversation).takeBytes().length, bytesOf(vector.query).length);
  });
}

for (const { name, passphrase, same_passphrase, service, application, secret, sealed, refused } of vectors("seal")
  .cases) {
  test(`seal: ${name}`, () => {
    const description = bytesOf(vectors("retrieve").cases[0].description);
    const opened = (passphrase, sealed, purpose = { service, application }) =>
      Client.open(description, { sealed: bytesOf(sealed), passphrase, ...purpose, acceptInsecure: true });
    const client = opened(passphrase, sealed);
    assert.deepEqual(client.secret(), bytesOf(secret));
    assert.deepEqual(opened(same_passphrase, sealed).secret(), bytesOf(secret));
    for (const other of refused) {
      const purpose = { service: other.service ?? service, application: other.application ?? application };
      assert.throws(() => opened(other.passphrase, other.sealed, purpose), { code: "argument" }, other.name);
    }
    // What the module seals, it opens.
    const again = Buffer.from(client.seal(passphrase, service, application)).toString("base64");
    assert.notEqual(again, sealed);
    assert.deepEqual(opened(passphrase, again).secret(), bytesOf(secret));
    // The page finds the version of both.
    assert.ok(isCurrent({ sealed: bytesOf(sealed) }) && isCurrent({ sealed: bytesOf(again) }));
    const earlier = bytesOf(again);
    earlier[7] = 1;
    assert.ok(!isCurrent({ sealed: earlier }));
  });
}

test("model: rows of another form are refused before anything is sent; numbers are not judged", () => {
  const [vector] = cases("model");
  const client = open("model", vector);
  const { inputs, outputs } = client.model();
  const [input] = inputs;
  assert.deepEqual([inputs.length, input.name, input.shape, input.tableRows], [1, "X", [4], undefined]);
  assert.deepEqual(input.elements, ["sepal length", "sepal width", "petal length", "petal width"]);
  assert.deepEqual(
    outputs.map(({ name, shape }) => [name, shape]),
    [
      ["output_label", []],
      ["output_probability", [3]],
    ],
  );
  const middle = input.low.map((low, at) => (low + input.high[at]) / 2);
  client.check([{ inputs: { X: middle } }, { inputs: { X: Float64Array.from(middle) } }]);
  const far = middle.with(2, input.high[2] + 1);
  client.check([{ inputs: { X: far } }, { inputs: { X: far }, clip: true }]);
  // A service sees whether a query comes: a row outside its range, or without a number, is asked like others.
  client.check([{ inputs: { X: middle.with(0, NaN) } }]);
  for (const [question, code, message] of [
    [{ inputs: { X: middle.slice(1) } }, "mismatch", /found 3 numbers, needed 4/],
    [{ inputs: { Y: middle } }, "argument", /found "Y", needed "X"/],
    [{ inputs: { X: middle, Y: [] } }, "argument", /found "X", "Y", needed "X"/],
    [{ inputs: {} }, "argument", /found none, needed "X"/],
    [{ inputs: { X: ["1", 2, 3, 4] } }, "argument", /questions/],
    [{ text: "a row" }, "argument", /found a text, needed inputs of a model/],
  ]) {
    for (const refused of [() => client.check([question]), () => client.ask([question])]) {
      assert.throws(refused, { code, message });
    }
  }
});

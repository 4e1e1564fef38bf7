// A client of the module for `unspoken-bench web`: commands in JSON, one in each line of standard input, and one line
// of JSON for each on standard output. `make web` builds the module.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Client, Kernels, initSync } from "../dist/wasm/unspoken_web.js";

initSync({ module: readFileSync(new URL("../dist/wasm/unspoken_web_bg.wasm", import.meta.url)) });

const bytesOf = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
const hexOf = (bytes) => Buffer.from(bytes).toString("hex");

let client;
let question;
/** The last request, and its answer. */
let request;
let answer;

function timed(work) {
  const start = performance.now();
  const result = work();
  return [result, performance.now() - start];
}

/** What an answer says, as the bench compares it. */
function told({ digit, record }) {
  return digit === undefined ? { record: record === undefined ? null : Array.from(record) } : { digit };
}

const commands = {
  open({ kernels, opening }) {
    Kernels.choose(kernels);
    const { description, secret, mode } = opening;
    client = Client.open(bytesOf(description), { secret: bytesOf(secret), ...(mode === undefined ? {} : { mode }) });
    question =
      opening.question.pixels === undefined ? opening.question : { pixels: Uint8Array.from(opening.question.pixels) };
    return null;
  },
  keys() {
    const chunks = [];
    const [, ms] = timed(() =>
      client.writeKeys(
        (bytes) => chunks.push(bytes.slice()),
        () => undefined,
      ),
    );
    return { ms };
  },
  encrypt() {
    const [made, ms] = timed(() => client.ask([question]));
    made.free();
    return { ms };
  },
  query() {
    request?.free();
    request = client.ask([question]);
    return hexOf(request.takeBytes());
  },
  answer(command) {
    answer = bytesOf(command.answer);
    return told(client.read(request, answer)[0]);
  },
  decrypt() {
    const [, ms] = timed(() => client.read(request, answer));
    return { ms };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  let result;
  try {
    const command = JSON.parse(line);
    result = commands[command.cmd](command);
  } catch (error) {
    result = { error: String(error) };
  }
  console.log(JSON.stringify(result));
}

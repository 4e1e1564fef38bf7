/** The worker: clients, their secrets, and all requests. The page sees answers only. */

import { Connection } from "./connection.js";
import { UnansweredError, UnspokenError } from "./errors.js";
import type {
  AnswerOptions,
  ApplicationInfo,
  CallName,
  Calls,
  FromWorker,
  OpenOptions,
  Progress,
  TextToContinue,
  ToWorker,
} from "./messages.js";
import { DOCUMENTS, find, withDocuments } from "./search.js";
import { Transport, cancelled } from "./transport.js";
import init, {
  type InitOutput,
  Kernels,
  documentOf,
  hasDocumentsOf,
  type Message,
  panicPlace,
  type Question,
  type SearchQuestion,
} from "./wasm/unspoken_web.js";

let module: InitOutput | undefined;
let transport: Transport | undefined;
const connections = new Map<string, Connection>();
const running = new Map<number, AbortController>();

interface Context {
  report: (progress: Progress) => void;
  signal: AbortSignal;
}

const handlers: {
  [C in CallName]: (context: Context, ...given: Calls[C]["arguments"]) => Promise<Calls[C]["result"]>;
} = {
  async start(_, options, kernels) {
    module = await init({ module_or_path: new URL("./wasm/unspoken_web_bg.wasm", import.meta.url) });
    if (kernels !== undefined) {
      Kernels.choose(kernels);
    }
    transport = new Transport(options, (record) => {
      post({ record });
    });
    return null;
  },
  async applications({ signal }) {
    const list = await service().json({ purpose: "applications", method: "GET", path: "/v1/apps", signal });
    const names = list["names"];
    if (!Array.isArray(names)) {
      throw new UnspokenError("protocol", "found no list of applications; is this an Unspoken service?");
    }
    return names.map(String);
  },
  async open(context, name: string, options: OpenOptions) {
    const connection = await open(context, name, options);
    const documents = connection.collection?.documents;
    if (documents !== undefined) {
      const { passphrase, acceptInsecure } = options;
      await open(context, documents, { passphrase, acceptInsecure });
    }
    return infoOf(name);
  },
  async check(_, name: string, questions: Question[]) {
    connected(name).check(questions);
    return null;
  },
  async prepare({ report, signal }, name: string) {
    await connected(name).prepare(report, signal);
    await documentsOf(name)?.prepare(report, signal);
    return infoOf(name);
  },
  async ask({ report, signal }, name: string, questions: Question[]) {
    return await connected(name).ask(questions, report, signal);
  },
  async find({ report, signal }, name: string, question: SearchQuestion) {
    const [index, documents] = [connected(name), documentsOf(name)];
    if (documents === undefined) {
      throw new UnspokenError("argument", `${name}: found kind ${index.info.kind}, needed kind search; use ask`);
    }
    return await find({ index, documents, documentOf, hasDocumentsOf }, question, report, signal);
  },
  async continueText({ report, signal }, name: string, text: TextToContinue) {
    return await connected(name).continueText(text, report, signal);
  },
  async answer({ report, signal }, name: string, messages: Message[], options: AnswerOptions) {
    return await connected(name).answer(messages, options, report, signal);
  },
  clearText: async (_, name: string, text: TextToContinue) => connected(name).clearText(text),
  clear: async (_, name: string, question: Question) => connected(name).clear(question),
  secret: async (_, name: string) => connected(name).secret(),
  async forget(_, name: string) {
    const forgotten = [connected(name), documentsOf(name)];
    for (const connection of forgotten) {
      if (connection !== undefined) {
        connections.delete(connection.name);
        await connection.forget();
      }
    }
    return null;
  },
  memory: async () => module?.memory.buffer.byteLength ?? 0,
};

function service(): Transport {
  if (transport === undefined) {
    throw new UnspokenError("argument", "the worker was not started");
  }
  return transport;
}

/** Opens a connection, in place of an earlier one. */
async function open({ report, signal }: Context, name: string, options: OpenOptions): Promise<Connection> {
  const connection = await Connection.open(service(), name, options, connections.get(name), report, signal);
  if (signal.aborted) {
    await connection.free();
    throw cancelled();
  }
  // What was open is replaced only now: if opening fails, it stays.
  const replaced = connections.get(name);
  connections.set(name, connection);
  await replaced?.free();
  return connection;
}

/** The connection to the documents of a collection, if the application searches one. */
function documentsOf(name: string): Connection | undefined {
  const documents = connected(name).collection?.documents;
  return documents === undefined ? undefined : connected(documents);
}

function infoOf(name: string): ApplicationInfo {
  const [{ info }, documents] = [connected(name), documentsOf(name)];
  return documents === undefined ? info : withDocuments(info, documents.info, documents.bytesOf(DOCUMENTS));
}

function connected(name: string): Connection {
  const connection = connections.get(name);
  if (connection === undefined) {
    throw new UnspokenError("argument", `${name}: not open; open the application first`);
  }
  return connection;
}

function post(message: FromWorker): void {
  self.postMessage(message);
}

/** The error for a trap of the module: it panicked, or its memory ran out. Its state cannot be used after that. */
function trap(thrown: WebAssembly.RuntimeError): UnspokenError {
  const place = panicPlace();
  if (place !== undefined) {
    return new UnspokenError(
      "internal",
      `the module stopped at ${place} (${thrown.message}); this is a bug: please report it`,
    );
  }
  const remedy = "close other tabs, or use the command line or Python";
  return new UnspokenError("memory", `this page has no memory for the computation (${thrown.message}); ${remedy}`);
}

async function run(id: number, call: CallName, given: unknown[]): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  const context: Context = {
    report: (progress) => {
      post({ id, progress });
    },
    signal: controller.signal,
  };
  try {
    const handler = handlers[call] as (context: Context, ...given: unknown[]) => Promise<unknown>;
    post({ id, result: await handler(context, ...given) });
  } catch (thrown) {
    if (thrown instanceof UnansweredError) {
      post({ id, answers: thrown.answers, errors: thrown.errors });
      return;
    }
    const isFatal = thrown instanceof WebAssembly.RuntimeError;
    const { code, message, status } = isFatal ? trap(thrown) : UnspokenError.of(thrown);
    post({ id, error: { code, message, status, isFatal } });
  } finally {
    running.delete(id);
  }
}

self.onmessage = ({ data }: MessageEvent<ToWorker>): void => {
  if ("cancel" in data) {
    running.get(data.cancel)?.abort();
  } else {
    void run(data.id, data.call, data.arguments);
  }
};

/** A service and its applications, for a page. */

import { UnansweredError, UnspokenError } from "./errors.js";
import type {
  AnswerOptions,
  ApplicationInfo,
  Asked,
  CallName,
  Calls,
  Continued,
  Found,
  FromWorker,
  OpenOptions,
  Progress,
  TextToContinue,
  ToWorker,
} from "./messages.js";
import type { RequestRecord, TransportOptions } from "./transport.js";
import type { Answer, Message, Question, SearchQuestion } from "./wasm/unspoken_web.js";

/** How a service is opened. */
export interface ServiceOptions extends Omit<TransportOptions, "url"> {
  /** The kernels: `simd128`, which is the default, or `portable`, to compare their times. */
  kernels?: string | undefined;
  /** Called with every request, as the service saw it. */
  onRequest?: (record: RequestRecord) => void;
  /**
   * Called when the worker was started again, because a call that cannot be interrupted was cancelled or the module
   * stopped: all secrets in memory are gone, open the applications again.
   */
  onRestart?: () => void;
}

/** What may be passed to calls that take long. */
export interface CallOptions {
  onProgress?: (progress: Progress) => void;
  signal?: AbortSignal | undefined;
}

interface Pending {
  call: CallName;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  onProgress: ((progress: Progress) => void) | undefined;
}

/** Milliseconds until a worker that does not react to a cancelled call is ended. */
const CANCEL_PATIENCE = 1000;

/**
 * A service. Clients, secrets and requests are in a worker of this object: the page sees answers only.
 *
 * @example
 * const service = await Service.open("https://service.example.org");
 * const digits = await service.application("digits/mnist");
 * const { answers } = await digits.ask([{ pixels }]);
 */
export class Service {
  readonly #transport: TransportOptions;
  readonly #options: ServiceOptions;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | undefined;
  #ready: Promise<void> = Promise.resolve();
  #calls = 0;

  private constructor(url: string, options: ServiceOptions) {
    this.#transport = { url, token: options.token, patience: options.patience };
    this.#options = options;
  }

  /**
   * Opens a service: starts a worker and loads the module. Nothing is sent.
   *
   * @throws {UnspokenError} `unsupported`, if the browser lacks WebAssembly with SIMD or workers; `argument`, if the
   * address is not `https`, or `http` on this machine.
   */
  static async open(url: string, options: ServiceOptions = {}): Promise<Service> {
    checkSupport();
    const service = new Service(url, options);
    service.#start();
    try {
      await service.#ready;
      return service;
    } catch (error) {
      service.close();
      throw error;
    }
  }

  /** The address. */
  get url(): string {
    return this.#transport.url;
  }

  /** The names of the applications. */
  async applications(options: CallOptions = {}): Promise<string[]> {
    return await this.call("applications", options);
  }

  /**
   * Opens an application: reads its description, and takes the stored secret or makes a new one. Sends no keys: the
   * first question does, or `Application.prepare`.
   */
  async application(name: string, options: OpenOptions & CallOptions = {}): Promise<Application> {
    const { onProgress, signal, ...opening } = options;
    const info = await this.call("open", callOptions(onProgress, signal), name, opening);
    return new Application(this, info);
  }

  /** Bytes of memory of the module. */
  async memory(): Promise<number> {
    return await this.call("memory", {});
  }

  /** Ends the worker. Secrets in memory are gone. */
  close(): void {
    this.#end(new UnspokenError("cancelled", "the service was closed"));
  }

  /** @internal Calls the worker, once it has started. */
  async call<C extends CallName>(
    call: C,
    options: CallOptions,
    ...given: Calls[C]["arguments"]
  ): Promise<Calls[C]["result"]> {
    await this.#ready;
    return await this.#send(call, options, ...given);
  }

  async #send<C extends CallName>(
    call: C,
    options: CallOptions,
    ...given: Calls[C]["arguments"]
  ): Promise<Calls[C]["result"]> {
    const { signal, onProgress } = options;
    if (signal?.aborted) {
      throw new UnspokenError("cancelled", "cancelled");
    }
    const id = (this.#calls += 1);
    const result = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { call, resolve, reject, onProgress });
    });
    const cancel = (): void => {
      this.#cancel(id);
    };
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      this.#post({ id, call, arguments: given });
      return (await result) as Calls[C]["result"];
    } finally {
      signal?.removeEventListener("abort", cancel);
      this.#pending.delete(id);
    }
  }

  #start(): void {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<FromWorker>): void => {
      this.#receive(data);
    };
    worker.onerror = (event): void => {
      event.preventDefault();
      this.#end(new UnspokenError("internal", `the worker failed: ${event.message || "its script cannot be loaded"}`));
    };
    this.#worker = worker;
    this.#ready = this.#send("start", {}, this.#transport, this.#options.kernels).then(() => undefined);
    // Every call reports it.
    this.#ready.catch(() => undefined);
  }

  #post(message: ToWorker): void {
    if (this.#worker === undefined) {
      throw new UnspokenError("cancelled", "the service was closed; open it again");
    }
    this.#worker.postMessage(message);
  }

  #receive(message: FromWorker): void {
    if ("record" in message) {
      this.#options.onRequest?.(message.record);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (pending === undefined) {
      return;
    }
    if ("progress" in message) {
      pending.onProgress?.(message.progress);
    } else if ("errors" in message) {
      pending.reject(new UnansweredError(message.answers, message.errors));
      this.#pending.delete(message.id);
    } else if ("error" in message) {
      const { code, message: text, status, isFatal } = message.error;
      pending.reject(new UnspokenError(code, text, status));
      this.#pending.delete(message.id);
      // A module that cannot start would not start again either.
      if (isFatal && pending.call !== "start") {
        this.#restart(new UnspokenError("cancelled", "the module stopped; open the application again"));
      }
    } else {
      pending.resolve(message.result);
    }
  }

  /** Cancels a call; ends the worker if it computes and does not react. */
  #cancel(id: number): void {
    const message: ToWorker = { cancel: id };
    this.#worker?.postMessage(message);
    setTimeout(() => {
      if (this.#pending.has(id)) {
        this.#restart(new UnspokenError("cancelled", "cancelled; open the application again"));
      }
    }, CANCEL_PATIENCE);
  }

  /** Ends the worker, and with it all secrets in memory, and starts another. */
  #restart(error: UnspokenError): void {
    this.#end(error);
    this.#start();
    this.#options.onRestart?.();
  }

  #end(error: UnspokenError): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    pending.forEach(({ reject }) => {
      reject(error);
    });
  }
}

function callOptions(onProgress: CallOptions["onProgress"], signal: AbortSignal | undefined): CallOptions {
  return onProgress === undefined ? { signal } : { onProgress, signal };
}

/** An application of a service. */
export class Application {
  readonly #service: Service;
  #info: ApplicationInfo;

  /** @internal */
  constructor(service: Service, info: ApplicationInfo) {
    this.#service = service;
    this.#info = info;
  }

  /** What the application is, and what it costs. */
  get info(): ApplicationInfo {
    return this.#info;
  }

  /** Makes and sends keys, unless the service has them. */
  async prepare(options: CallOptions = {}): Promise<void> {
    this.#info = await this.#service.call("prepare", options, this.#info.name);
  }

  /**
   * Asks questions under encryption, in as many requests as their number needs. Sends keys first, if needed.
   *
   * @throws {UnansweredError} if a number of a question to a model is outside its range: after the last answer, with the
   * answers to the other questions.
   */
  async ask(questions: Question[], options: CallOptions = {}): Promise<Asked> {
    await this.#prepareFor(questions, options);
    return await this.#service.call("ask", options, this.#info.name, questions);
  }

  /**
   * Finds the `most` documents of a collection that are nearest to a vector, or to a text if the service publishes the
   * table that makes vectors of texts (`info.collection.takesTexts`), and fetches them. The service sees neither which
   * question was asked nor which documents are fetched: always `most` of them. There are fewer in the answer if
   * documents were removed, or the part of the collection that was searched has fewer. Sends keys first, if needed.
   */
  async find(question: SearchQuestion, options: CallOptions = {}): Promise<Found> {
    await this.#prepareFor([question], options);
    return await this.#service.call("find", options, this.#info.name, question);
  }

  /** Makes and sends keys, unless the service has them, and not for questions that cannot be asked. */
  async #prepareFor(questions: Question[], options: CallOptions): Promise<void> {
    if (!this.#info.hasKeys) {
      await this.#service.call("check", options, this.#info.name, questions);
      await this.prepare(options);
    }
  }

  /**
   * Continues a text with a model of language at the service, which does not see the private part nor what follows.
   * Each pass runs a chunk of tokens and may take a minute; `onProgress` gets the text so far. Sends keys first, if
   * needed. The service sees how many passes there are.
   */
  async continueText(text: TextToContinue, options: CallOptions = {}): Promise<Continued> {
    const continued = await this.#service.call("continueText", options, this.#info.name, text);
    await this.#lookAtKeys(options);
    return continued;
  }

  /**
   * Answers a conversation with a model of language whose published part has a template (`info.takesMessages`). The
   * service sees neither messages nor answer, besides the first `publicMessages`. It keeps one session for the
   * application: the next call runs only what is new, also after the last message was changed. Otherwise as
   * `continueText`. If the call is cancelled, the text of the last `onProgress` is the answer so far. One call at a time.
   *
   * @example
   * const messages = [{ role: "user", content: "Why is the sky blue?" }];
   * const { text } = await application.answer(messages, { mostTokens: 64, onProgress: ({ text }) => show(text) });
   * messages.push({ role: "assistant", content: text }, { role: "user", content: "And at night?" });
   */
  async answer(messages: Message[], options: AnswerOptions & CallOptions = {}): Promise<Continued> {
    const { onProgress, signal, ...answering } = options;
    const given = callOptions(onProgress, signal);
    const answer = await this.#service.call("answer", given, this.#info.name, messages, answering);
    await this.#lookAtKeys(given);
    return answer;
  }

  /** Learns what the keys took that a text needed. The text is there, so an error is none. */
  async #lookAtKeys(options: CallOptions): Promise<void> {
    if (!this.#info.hasKeys) {
      await this.prepare(options).catch(() => undefined);
    }
  }

  /** Continues a text in the clear, in this page, if the whole model is published (`info.hasClear`). */
  async clearText(text: TextToContinue): Promise<{ text: string; milliseconds: number }> {
    return await this.#service.call("clearText", {}, this.info.name, text);
  }

  /** Answers a question in the clear, in this page, if the whole model is published (`info.hasClear`). */
  async clear(question: Question): Promise<{ answer: Answer; milliseconds: number }> {
    return await this.#service.call("clear", {}, this.info.name, question);
  }

  /** The secret: who has it can read the questions. */
  async secret(): Promise<Uint8Array> {
    return await this.#service.call("secret", {}, this.info.name);
  }

  /** Wipes the secret, deletes the stored one, and deletes the keys at the service. */
  async forget(): Promise<void> {
    await this.#service.call("forget", {}, this.info.name);
  }
}

/** A module with one function, which uses an instruction of WebAssembly SIMD. */
const SIMD_MODULE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

/** Refuses browsers that cannot run the module. */
function checkSupport(): void {
  const missing =
    typeof WebAssembly === "undefined"
      ? "WebAssembly"
      : !WebAssembly.validate(SIMD_MODULE)
        ? "WebAssembly SIMD"
        : typeof Worker === "undefined"
          ? "workers"
          : undefined;
  if (missing !== undefined) {
    throw new UnspokenError(
      "unsupported",
      `this browser lacks ${missing}; use a release of Chrome, Edge, Firefox or Safari from 2023 or later`,
    );
  }
}

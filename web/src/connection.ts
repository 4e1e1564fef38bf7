/** One application of a service: its client half, its keys at the service, and its questions. */

import { UnansweredError, UnspokenError } from "./errors.js";
import { type Exchange, attempt, costs, freeAll, freed, summed } from "./exchange.js";
import { deleteBundle, holdsBundle, sendBundle } from "./keys.js";
import type {
  AnswerOptions,
  ApplicationInfo,
  Asked,
  Continued,
  Costs,
  OpenOptions,
  Progress,
  TextToContinue,
} from "./messages.js";
import { type Offer, described, published } from "./offer.js";
import * as storage from "./storage.js";
import { type Transport, applicationPath, cancelled } from "./transport.js";
import {
  type Answer,
  ClearModel,
  Client,
  type Collection,
  type Conversation,
  type Message,
  type OpenOptions as ClientOptions,
  type Question,
  type SamplingOptions,
} from "./wasm/unspoken_web.js";

/** Longest keys that a page makes. They are in blobs, which browsers keep on disk where memory is short. */
const MAX_KEY_BYTES = 2e9;
/** Most bytes of queries and answers that one call keeps in memory. */
const MAX_KEPT_BYTES = 256e6;
/** Times that a description or keys are renewed for one call. */
const RENEWALS = 1;
/** Tokens that follow a text or messages, if the caller does not say how many. */
const DEFAULT_TOKENS = 32;

type Report = (progress: Progress) => void;

/** An earlier connection to the same application, in this page. */
export interface Earlier {
  description: Uint8Array;
}

export class Connection {
  readonly #transport: Transport;
  readonly #name: string;
  readonly #client: Client;
  readonly #clear: ClearModel | undefined;
  readonly #passphrase: string | undefined;
  /** Aborted when the connection ends. */
  readonly #ended = new AbortController();
  #offer: Offer;
  /** The id of the bundle at the service, and which keys it has. */
  #key = "";
  #contents = new Uint8Array();
  #keyMilliseconds = 0;
  #restored = false;
  #isStored = false;
  #preparing: Promise<void> | undefined;
  /** The conversation whose session the service keeps, once there is one, and whether an answer is under way. */
  #conversation: Conversation | undefined;
  #isAnswering = false;
  #uses = 0;

  private constructor(
    transport: Transport,
    name: string,
    offer: Offer,
    client: Client,
    clear: ClearModel | undefined,
    passphrase: string | undefined,
  ) {
    this.#transport = transport;
    this.#passphrase = passphrase;
    this.#name = name;
    this.#offer = offer;
    this.#client = client;
    this.#clear = clear;
  }

  /**
   * Opens an application, with a stored secret or with a new one. Sends no keys. The description must not follow the
   * `earlier` or the stored one, if that would reveal something.
   */
  static async open(
    transport: Transport,
    name: string,
    options: OpenOptions,
    earlier: Earlier | undefined,
    report: Report,
    signal: AbortSignal,
  ): Promise<Connection> {
    report({ step: "describing", done: 0, total: 1 });
    const offer = await described(transport, name, signal);
    report({ step: "loading the model", done: 0, total: 1 });
    const model = options.model ?? (await published(transport, name, signal));
    const kept = options.passphrase === undefined ? undefined : await storage.load(transport.url, name);
    const stored = kept !== undefined && storage.isCurrent(kept) ? kept : undefined;
    if (signal.aborted) {
      throw cancelled();
    }
    const purpose = { service: transport.url, application: name };
    const opening = clientOptions(options, purpose, model, stored, kept?.description ?? earlier?.description);
    if (stored !== undefined) {
      report({ step: "opening the secret", done: 0, total: 1 });
    }
    const client = Client.open(offer.description, opening);
    try {
      const clear = model === undefined ? undefined : ClearModel.open(client.kind, model);
      const connection = new Connection(transport, name, offer, client, clear, options.passphrase);
      if (stored !== undefined && client.isRestored) {
        await connection.#restore(stored, signal);
      }
      return connection;
    } catch (error) {
      client.free();
      throw error;
    }
  }

  get info(): ApplicationInfo {
    const client = this.#client;
    return {
      name: this.#name,
      kind: client.kind,
      preset: client.preset,
      keyBytes: client.keyBytes,
      hasKeys: this.#key !== "",
      keyMilliseconds: this.#keyMilliseconds,
      ...this.bytesOf(1),
      batch: client.batch,
      objects: client.objects(),
      collection: this.collection,
      model: client.model(),
      takesMessages: client.takesMessages,
      hasClear: this.#clear !== undefined,
      restored: this.#restored,
      isStored: this.#isStored,
    };
  }

  /** The name of the application. */
  get name(): string {
    return this.#name;
  }

  /** The collection that the application searches now, if it does. */
  get collection(): Collection | undefined {
    return this.#client.collection();
  }

  /** Bytes of the requests with so many questions, and those expected of their answers. */
  bytesOf(questions: number): { queryBytes: number; answerBytes: number } {
    const [client, sum] = [this.#client, { queryBytes: 0, answerBytes: 0 }];
    for (let left = questions; left > 0; left -= client.batch) {
      const each = Math.min(left, client.batch);
      sum.queryBytes += client.queryBytes(each);
      sum.answerBytes += client.expectedAnswerBytes(each);
    }
    return sum;
  }

  /** The description that this connection accepted. */
  get description(): Uint8Array {
    return this.#offer.description;
  }

  /** Throws what is wrong with questions, before anything is sent for them. */
  check(questions: Question[]): void {
    this.#client.check(questions);
  }

  /** Makes and sends keys, unless the service has them. Stores the secret, if a passphrase was given. */
  async prepare(report: Report, signal: AbortSignal): Promise<void> {
    // A second call waits for the first, and makes keys only if that one failed.
    await this.#preparing?.catch(() => undefined);
    const both = AbortSignal.any([signal, this.#ended.signal]);
    const preparing = this.#use(async () => {
      if (this.#key === "") {
        await this.#sendKeys(report, both);
      }
      await this.#store(both);
    });
    this.#preparing = preparing;
    await preparing;
  }

  /** The secret, to be shown to the person whose it is. */
  secret(): Uint8Array {
    return this.#client.secret();
  }

  /** Answers a question in the clear, if the whole model is published. */
  clear(question: Question): { answer: Answer; milliseconds: number } {
    const start = performance.now();
    const answer = this.#published().ask(question);
    return { answer, milliseconds: performance.now() - start };
  }

  #published(): ClearModel {
    if (this.#clear === undefined) {
      const found = "the service publishes no model, so there is nothing to compare with";
      throw new UnspokenError("argument", `${this.#name}: ${found}`);
    }
    return this.#clear;
  }

  /**
   * Asks questions, in as many requests as their number needs, once the service has the keys. All requests are made
   * before the first is sent, and all answers arrive before the first is decrypted: the number and the times of the
   * requests must not depend on questions or answers. For the same reason nothing is sent again after an answer could
   * not be read. `arrived` is called with the answers when all are there, before the first is decrypted: an error after
   * that depends on what they decrypt to.
   */
  async ask(
    questions: Question[],
    report: Report,
    signal: AbortSignal,
    arrived?: (answers: Uint8Array[]) => void,
  ): Promise<Asked> {
    return await this.#use(async () => {
      this.#checkKeptBytes(questions.length);
      const exchanges = await this.#exchange(questions, report, AbortSignal.any([signal, this.#ended.signal]));
      try {
        arrived?.(exchanges.map(({ answer }) => answer));
        return this.#read(exchanges);
      } finally {
        freeAll(exchanges);
      }
    });
  }

  /**
   * Continues a text, in as many requests as its passes need, once the service has the keys. How many there are depends
   * on the text. If the service has lost the keys, they are sent once more.
   */
  async continueText(text: TextToContinue, report: Report, signal: AbortSignal): Promise<Continued> {
    return await this.#use(async () => {
      // Made first: a text that does not fit must not cost an upload.
      const conversation = this.#client.continueText(...textArguments(text), text.tellLength ?? false);
      try {
        return await this.#continued(conversation, report, signal);
      } finally {
        freed(conversation);
      }
    });
  }

  /**
   * Answers messages as `continueText` continues a text. The session stays, so that the next call runs only what is
   * new. If a call is cancelled or fails, its answer ends there, and the next call goes on.
   */
  async answer(messages: Message[], options: AnswerOptions, report: Report, signal: AbortSignal): Promise<Continued> {
    return await this.#use(async () => {
      if (this.#isAnswering) {
        const needed = "one conversation at a time; wait for the answer, or cancel it";
        throw new UnspokenError("argument", `${this.#name}: found another answer under way, needed ${needed}`);
      }
      this.#conversation ??= this.#client.converse();
      const conversation = this.#conversation;
      this.#client.answer(conversation, {
        messages,
        publicMessages: options.publicMessages ?? 0,
        mostTokens: options.mostTokens ?? DEFAULT_TOKENS,
        unixSeconds: Math.floor(Date.now() / 1000),
        sampling: options.sampling,
        tellLength: options.tellLength ?? false,
      });
      this.#isAnswering = true;
      try {
        return await this.#continued(conversation, report, signal);
      } catch (error) {
        attempt(() => {
          conversation.stop();
        });
        throw error;
      } finally {
        this.#isAnswering = false;
      }
    });
  }

  /** Asks until a text that has begun ends. */
  async #continued(conversation: Conversation, report: Report, signal: AbortSignal): Promise<Continued> {
    const both = AbortSignal.any([signal, this.#ended.signal]);
    await this.prepare(report, both);
    const turns: Costs[] = [];
    const renewals = { left: RENEWALS };
    for (;;) {
      const turn = await this.#turn(conversation, renewals, report, both);
      if (turn === undefined) {
        return { ...conversation.told(), ...summed(turns) };
      }
      turns.push(turn);
    }
  }

  /** Asks the next question of a text and takes its answer. Returns what it took; nothing if the text has ended. */
  async #turn(
    conversation: Conversation,
    renewals: { left: number },
    report: Report,
    signal: AbortSignal,
  ): Promise<Costs | undefined> {
    const { text, end } = conversation.told();
    report({ step: "asking", done: 0, total: 1, text });
    const start = performance.now();
    const request = this.#client.askNext(conversation);
    if (request === undefined) {
      return undefined;
    }
    const encrypted = performance.now() - start;
    const exchange: Exchange = { request, answer: new Uint8Array(), queryBytes: 0, encrypted, answered: 0 };
    try {
      await this.#send(exchange, signal, (done, total) => {
        report({ step: "asking", done, total, text });
      });
      const received = performance.now();
      this.#client.take(conversation, request, exchange.answer);
      return costs(exchange, performance.now() - received);
    } catch (error) {
      // After a trap the module cannot be used.
      if (error instanceof WebAssembly.RuntimeError) {
        throw error;
      }
      // Only the session was to be ended: it expires.
      if (end !== undefined) {
        return undefined;
      }
      if (renewals.left === 0 || UnspokenError.of(error).code !== "key_not_found") {
        throw error;
      }
      renewals.left -= 1;
      await this.#renew(error, signal);
      await this.prepare(report, signal);
      conversation.retry();
    } finally {
      freed(request);
    }
    return await this.#turn(conversation, renewals, report, signal);
  }

  /** Continues a text in the clear, if the whole model is published. */
  clearText(text: TextToContinue): { text: string; milliseconds: number } {
    const start = performance.now();
    const chunk = text.tellLength === true ? 1 : this.#client.chunkTokens;
    const continued = this.#published().continueText(...textArguments(text), chunk);
    return { text: continued, milliseconds: performance.now() - start };
  }

  /** Ends the connection, wipes the secret, and deletes the stored one and the keys at the service. */
  async forget(): Promise<void> {
    this.#end();
    const stored = await storage.load(this.#transport.url, this.#name).catch(() => undefined);
    const keys = new Set([this.#key, stored?.key ?? ""].filter((key) => key !== ""));
    await Promise.all([...keys].map((key) => deleteBundle(this.#transport, key)));
    if (stored !== undefined) {
      await storage.remove(this.#transport.url, this.#name);
    }
  }

  /** Ends the connection and wipes the secret, as soon as no call uses it. Keys that no secret can use are deleted. */
  async free(): Promise<void> {
    this.#end();
    if (this.#key !== "" && !this.#isStored) {
      await deleteBundle(this.#transport, this.#key);
    }
  }

  #end(): void {
    if (!this.#ended.signal.aborted) {
      this.#ended.abort();
      this.#freeUnused();
    }
  }

  /** Keeps the client until `work` has ended, also if the connection ends meanwhile. */
  async #use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#ended.signal.aborted) {
      throw cancelled();
    }
    this.#uses += 1;
    try {
      return await work();
    } finally {
      this.#uses -= 1;
      this.#freeUnused();
    }
  }

  #freeUnused(): void {
    if (this.#ended.signal.aborted && this.#uses === 0) {
      this.#conversation?.free();
      this.#client.free();
      this.#clear?.free();
    }
  }

  /** Takes up the keys of a stored secret, if the service still has them. */
  async #restore(stored: storage.Entry, signal: AbortSignal): Promise<void> {
    this.#restored = true;
    const usable = this.#client.isCoveredBy(stored.contents);
    if (usable && (await holdsBundle(this.#transport, stored.key, signal))) {
      this.#key = stored.key;
      this.#contents = stored.contents.slice();
      // The entry may have an earlier description.
      this.#isStored = equal(stored.description, this.#offer.description);
    }
  }

  /** Refuses a call whose queries and answers are too large to keep until all have arrived. */
  #checkKeptBytes(questions: number): void {
    const batch = this.#client.batch;
    const each = this.#client.queryBytes(batch) + this.#client.expectedAnswerBytes(batch);
    const found = each * Math.ceil(questions / batch);
    if (found > MAX_KEPT_BYTES) {
      const needed = `${MAX_KEPT_BYTES} at most; ask fewer questions at once`;
      throw new UnspokenError(
        "argument",
        `${this.#name}: found ${found} bytes of queries and answers, needed ${needed}`,
      );
    }
  }

  /** Sends all questions; once more if the service has lost the keys, or has another description now. */
  async #exchange(questions: Question[], report: Report, signal: AbortSignal): Promise<Exchange[]> {
    for (let renewals = 0; ; renewals += 1) {
      let exchanges: Exchange[] = [];
      try {
        await this.prepare(report, signal);
        exchanges = this.#encrypted(questions);
        for (const [done, exchange] of exchanges.entries()) {
          report({ step: "asking", done, total: exchanges.length });
          await this.#send(exchange, signal);
        }
        report({ step: "asking", done: exchanges.length, total: exchanges.length });
        return exchanges;
      } catch (error) {
        freeAll(exchanges);
        if (renewals === RENEWALS || !(await this.#renew(error, signal))) {
          throw error;
        }
      }
    }
  }

  /** Makes all requests. */
  #encrypted(questions: Question[]): Exchange[] {
    const exchanges: Exchange[] = [];
    try {
      for (let from = 0; from < questions.length; from += this.#client.batch) {
        const start = performance.now();
        const request = this.#client.ask(questions.slice(from, from + this.#client.batch));
        const encrypted = performance.now() - start;
        exchanges.push({ request, answer: new Uint8Array(), queryBytes: 0, encrypted, answered: 0 });
      }
      return exchanges;
    } catch (error) {
      freeAll(exchanges);
      throw error;
    }
  }

  async #send(
    exchange: Exchange,
    signal: AbortSignal,
    progress?: (done: number, total: number) => void,
  ): Promise<void> {
    const { request } = exchange;
    const body = request.takeBytes();
    const sent = performance.now();
    const { body: answer } = await this.#transport.send({
      purpose: "query",
      method: "POST",
      path: `${applicationPath(this.#name)}?key=${this.#key}`,
      body,
      headers: {
        "Content-Type": "application/octet-stream",
        Accept: "application/octet-stream, application/json;q=0.5",
      },
      most: request.answerBytes,
      report: progress,
      signal,
    });
    Object.assign(exchange, { answer, queryBytes: body.length, answered: performance.now() - sent });
    // What can be checked without the secret: these errors may lead to another try.
    this.#client.checkAnswer(request, answer);
  }

  #read(exchanges: Exchange[]): Asked {
    const start = performance.now();
    // All of them, before an error ends it.
    const read = exchanges.map(({ request, answer }) => attempt(() => this.#client.read(request, answer)));
    const answers = UnansweredError.all(read.flatMap((result) => result()));
    const decrypted = performance.now() - start;
    return {
      answers,
      ...summed(exchanges.map((exchange) => costs(exchange, 0))),
      decryptMilliseconds: decrypted,
    };
  }

  /** Whether a call that failed may succeed now: the service has lost the keys, or a newer description was taken up. */
  async #renew(error: unknown, signal: AbortSignal): Promise<boolean> {
    const { code } = UnspokenError.of(error);
    if (signal.aborted) {
      return false;
    }
    if (code === "key_not_found") {
      this.#key = "";
      this.#isStored = false;
      return true;
    }
    if (!["does_not_fit", "malformed_query", "too_large", "too_long", "mismatch", "malformed"].includes(code)) {
      return false;
    }
    const offer = await described(this.#transport, this.#name, signal);
    if (equal(offer.description, this.#offer.description)) {
      return false;
    }
    this.#client.update(offer.description);
    this.#offer = offer;
    this.#isStored = false;
    if (!this.#client.isCoveredBy(this.#contents)) {
      this.#key = "";
    }
    return true;
  }

  /** Makes keys and sends them. Their bytes are in a blob, which the browser may keep on disk. */
  async #sendKeys(report: Report, signal: AbortSignal): Promise<void> {
    const [total, most] = [this.#client.keyBytes, Math.min(this.#offer.maxKeyBytes, MAX_KEY_BYTES)];
    if (total > most) {
      const remedy = total > MAX_KEY_BYTES ? "use the command line or Python" : "do not trust this service";
      throw new UnspokenError(
        "memory",
        `${this.#name}: found keys of ${total} bytes, needed ${most} at most; ${remedy}`,
      );
    }
    const pieces: Blob[] = [];
    const start = performance.now();
    const hash = this.#client.writeKeys(
      // A copy in a blob of its own: the module's memory is used again.
      (bytes) => {
        pieces.push(new Blob([bytes as Uint8Array<ArrayBuffer>]));
      },
      (done, count) => report({ step: "making keys", done, total: count }),
    );
    this.#keyMilliseconds = performance.now() - start;
    if (signal.aborted) {
      throw cancelled();
    }
    const bytes = new Blob(pieces);
    const bundle = { application: this.#name, keyFormat: this.#offer.keyFormat, bytes, hash };
    const sent = (done: number): void => report({ step: "sending keys", done, total: bytes.size });
    const key = await sendBundle(this.#transport, bundle, sent, signal);
    if (signal.aborted) {
      await deleteBundle(this.#transport, key);
      throw cancelled();
    }
    this.#key = key;
    this.#contents = this.#client.bundleContents().slice();
  }

  /** Stores the secret and what belongs to it, if a passphrase was given and it is not stored yet. */
  async #store(signal: AbortSignal): Promise<void> {
    if (this.#passphrase === undefined || this.#isStored) {
      return;
    }
    const entry: storage.Entry = {
      sealed: this.#client.seal(this.#passphrase, this.#transport.url, this.#name),
      key: this.#key,
      contents: this.#contents,
      description: this.#offer.description,
    };
    const before = await storage.load(this.#transport.url, this.#name);
    if (signal.aborted) {
      throw cancelled();
    }
    await storage.save(this.#transport.url, this.#name, entry);
    this.#isStored = true;
    if (before !== undefined && before.key !== this.#key) {
      await deleteBundle(this.#transport, before.key);
    }
  }
}

/** What the module is told of a text to continue. */
function textArguments(
  text: TextToContinue,
): [publicText: string, privateText: string, mostTokens: number, sampling: SamplingOptions | undefined] {
  return [text.publicText ?? "", text.privateText, text.mostTokens ?? DEFAULT_TOKENS, text.sampling];
}

function clientOptions(
  options: OpenOptions,
  purpose: { service: string; application: string },
  model: Uint8Array | undefined,
  stored: storage.Entry | undefined,
  description: Uint8Array | undefined,
): ClientOptions {
  const opening: ClientOptions = { acceptInsecure: options.acceptInsecure ?? false };
  if (model !== undefined) {
    opening.model = model;
  }
  if (options.mode !== undefined) {
    opening.mode = options.mode;
  }
  if (stored !== undefined && options.passphrase !== undefined) {
    opening.sealed = stored.sealed;
    opening.passphrase = options.passphrase;
    Object.assign(opening, purpose);
  }
  if (description !== undefined) {
    opening.earlier = description;
  }
  return opening;
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

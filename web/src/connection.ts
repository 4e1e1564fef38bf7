/** One application of a service: its client half, its keys at the service, and its questions. */

import { UnspokenError } from "./errors.js";
import type { ApplicationInfo, Asked, OpenOptions, Progress } from "./messages.js";
import * as storage from "./storage.js";
import { CONTROL_BYTES, type Transport, applicationPath, cancelled } from "./transport.js";
import {
  type Answer,
  ClearModel,
  Client,
  type OpenOptions as ClientOptions,
  type Question,
  type Request,
} from "./wasm/unspoken_web.js";

/** Bytes of keys in one request. */
const PIECE_BYTES = 8 << 20;
/** Longest keys that a page makes: more do not fit beside them into its memory. */
const MOST_KEY_BYTES = 1e9;
/** Longest published model in bytes. */
const MODEL_BYTES = 512 << 20;
/** Times that a description or keys are renewed for one call. */
const RENEWALS = 1;

type Report = (progress: Progress) => void;

/** What a service says of an application. */
interface Offer {
  description: Uint8Array;
  keyFormat: number;
  maxKeyBytes: number;
}

/** A request, its answer, and what they took, in milliseconds. */
interface Exchange {
  request: Request;
  answer: Uint8Array;
  queryBytes: number;
  encrypted: number;
  answered: number;
}

export class Connection {
  readonly #transport: Transport;
  readonly #name: string;
  readonly #client: Client;
  readonly #clear: ClearModel | undefined;
  readonly #passphrase: string | undefined;
  #offer: Offer;
  #key = "";
  #keyMilliseconds = 0;
  #restored = false;
  #preparing: Promise<void> | undefined;
  #uses = 0;
  #isFreed = false;

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

  /** Opens an application, with a stored secret or with a new one. Sends no keys. */
  static async open(
    transport: Transport,
    name: string,
    options: OpenOptions,
    report: Report,
    signal: AbortSignal,
  ): Promise<Connection> {
    report({ step: "describing", done: 0, total: 1 });
    const offer = await described(transport, name, signal);
    report({ step: "loading the model", done: 0, total: 1 });
    const model = options.model ?? (await published(transport, name, signal));
    const stored = options.passphrase === undefined ? undefined : await storage.load(transport.url, name);
    const opening: ClientOptions = {};
    if (model !== undefined) {
      opening.model = model;
    }
    if (options.mode !== undefined) {
      opening.mode = options.mode;
    }
    if (options.acceptInsecure) {
      opening.acceptInsecure = true;
    }
    if (stored !== undefined && options.passphrase !== undefined) {
      report({ step: "opening the secret", done: 0, total: 1 });
      opening.sealed = stored.sealed;
      opening.passphrase = options.passphrase;
    }
    const client = Client.open(offer.description, opening);
    try {
      const clear = model === undefined ? undefined : ClearModel.open(client.kind, model);
      const connection = new Connection(transport, name, offer, client, clear, options.passphrase);
      connection.#restored = stored !== undefined;
      const usable = stored !== undefined && client.isCoveredBy(stored.contents);
      if (usable && (await connection.#isHeld(stored.key, signal))) {
        connection.#key = stored.key;
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
      queryBytes: client.queryBytes(1),
      answerBytes: client.expectedAnswerBytes(1),
      batch: client.batch,
      objects: client.objects(),
      hasClear: this.#clear !== undefined,
      restored: this.#restored,
    };
  }

  /** Makes and sends keys, unless the service has them. Stores the secret, if a passphrase was given. */
  async prepare(report: Report, signal: AbortSignal): Promise<void> {
    // A second call waits for the first, and makes keys only if that one failed.
    await this.#preparing?.catch(() => undefined);
    if (this.#key === "") {
      const preparing = this.#use(async () => {
        await this.#sendKeys(report, signal);
        await this.#store();
      });
      this.#preparing = preparing;
      await preparing;
    }
  }

  /** The secret, to be shown to the person whose it is. */
  secret(): Uint8Array {
    return this.#client.secret();
  }

  /** Answers a question in the clear, if the whole model is published. */
  clear(question: Question): { answer: Answer; milliseconds: number } {
    if (this.#clear === undefined) {
      throw new UnspokenError(
        "argument",
        `${this.#name}: the service publishes no model, so there is nothing to compare with`,
      );
    }
    const start = performance.now();
    const answer = this.#clear.ask(question);
    return { answer, milliseconds: performance.now() - start };
  }

  /**
   * Asks questions, in as many requests as their number needs, once the service has the keys. All answers arrive before
   * the first is decrypted: the number and the times of the requests must not depend on the answers. For the same
   * reason nothing is sent again after an answer could not be read.
   */
  async ask(questions: Question[], report: Report, signal: AbortSignal): Promise<Asked> {
    return await this.#use(async () => {
      const exchanges = await this.#exchange(questions, report, signal);
      try {
        return this.#read(exchanges);
      } finally {
        exchanges.forEach(({ request }) => {
          request.free();
        });
      }
    });
  }

  /** Wipes the secret, and deletes the stored one and the keys at the service. */
  async forget(): Promise<void> {
    const key = this.#key;
    this.free();
    await storage.remove(this.#transport.url, this.#name);
    if (key !== "") {
      await this.#transport.send({
        purpose: "delete keys",
        method: "DELETE",
        path: `/v1/keys/${key}`,
        most: CONTROL_BYTES,
      });
    }
  }

  /** Wipes the secret, as soon as no call uses it. */
  free(): void {
    if (!this.#isFreed) {
      this.#isFreed = true;
      this.#freeUnused();
    }
  }

  /** Keeps the client until `work` has ended, also if it is freed meanwhile. */
  async #use<T>(work: () => Promise<T>): Promise<T> {
    this.#uses += 1;
    try {
      return await work();
    } finally {
      this.#uses -= 1;
      this.#freeUnused();
    }
  }

  #freeUnused(): void {
    if (this.#isFreed && this.#uses === 0) {
      this.#client.free();
      this.#clear?.free();
    }
  }

  /** Sends all questions; once more if the service has lost the keys, or has another description now. */
  async #exchange(questions: Question[], report: Report, signal: AbortSignal): Promise<Exchange[]> {
    for (let renewals = 0; ; renewals += 1) {
      const exchanges: Exchange[] = [];
      try {
        await this.prepare(report, signal);
        for (let from = 0; from < questions.length; from += this.#client.batch) {
          report({ step: "asking", done: from, total: questions.length });
          await this.#send(questions.slice(from, from + this.#client.batch), exchanges, signal);
        }
        report({ step: "asking", done: questions.length, total: questions.length });
        return exchanges;
      } catch (error) {
        exchanges.forEach(({ request }) => {
          request.free();
        });
        if (renewals === RENEWALS || !(await this.#renew(error, signal))) {
          throw error;
        }
      }
    }
  }

  async #send(questions: Question[], exchanges: Exchange[], signal: AbortSignal): Promise<void> {
    const start = performance.now();
    const request = this.#client.ask(questions);
    const exchange: Exchange = { request, answer: new Uint8Array(), queryBytes: 0, encrypted: 0, answered: 0 };
    exchanges.push(exchange);
    const body = request.bytes;
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
      signal,
    });
    const answered = performance.now() - sent;
    Object.assign(exchange, { answer, queryBytes: body.length, encrypted: sent - start, answered });
  }

  #read(exchanges: Exchange[]): Asked {
    const start = performance.now();
    // All of them, before an error ends it.
    const read = exchanges.map(({ request, answer }) => attempt(() => this.#client.read(request, answer)));
    const answers = read.flatMap((result) => result());
    const sum = (of: (exchange: Exchange) => number): number => exchanges.reduce((total, next) => total + of(next), 0);
    return {
      answers,
      encryptMilliseconds: sum(({ encrypted }) => encrypted),
      decryptMilliseconds: performance.now() - start,
      serviceMilliseconds: sum(({ answered }) => answered),
      queryBytes: sum(({ queryBytes }) => queryBytes),
      answerBytes: sum(({ answer }) => answer.length),
    };
  }

  /** Whether a call that failed may succeed now: the service has lost the keys, or a newer description was taken up. */
  async #renew(error: unknown, signal: AbortSignal): Promise<boolean> {
    const { code } = UnspokenError.of(error);
    if (code === "key_not_found") {
      this.#key = "";
      return true;
    }
    if (!["does_not_fit", "malformed_query", "too_large", "too_long"].includes(code)) {
      return false;
    }
    const offer = await described(this.#transport, this.#name, signal);
    if (equal(offer.description, this.#offer.description)) {
      return false;
    }
    this.#client.update(offer.description);
    this.#offer = offer;
    return true;
  }

  async #isHeld(key: string, signal: AbortSignal): Promise<boolean> {
    try {
      const status = await this.#transport.json({
        purpose: "key status",
        method: "GET",
        path: `/v1/keys/${key}`,
        signal,
      });
      return isReady(status);
    } catch (error) {
      if (UnspokenError.of(error).code === "key_not_found") {
        return false;
      }
      throw error;
    }
  }

  /** Makes keys and sends them. Their bytes are in a blob, which the browser may keep on disk. */
  async #sendKeys(report: Report, signal: AbortSignal): Promise<void> {
    const total = this.#client.keyBytes;
    if (total > MOST_KEY_BYTES) {
      throw new UnspokenError(
        "memory",
        `${this.#name}: needs keys of ${total} bytes, and a page makes at most ${MOST_KEY_BYTES}; use the command line or Python`,
      );
    }
    if (total > this.#offer.maxKeyBytes) {
      throw new UnspokenError(
        "protocol",
        `${this.#name}: keys of ${total} bytes, of which the service accepts ${this.#offer.maxKeyBytes}; do not trust this service`,
      );
    }
    const pieces: Blob[] = [];
    const start = performance.now();
    const hash = this.#client.writeKeys(
      // A copy in a blob of its own: the module's memory is used again.
      (bytes) => {
        pieces.push(new Blob([bytes as Uint8Array<ArrayBuffer>]));
      },
      (done, total) => report({ step: "making keys", done, total }),
    );
    this.#keyMilliseconds = performance.now() - start;
    if (signal.aborted) {
      throw cancelled();
    }
    const bundle = new Blob(pieces);
    const declaration = {
      application: this.#name,
      key_format: this.#offer.keyFormat,
      length: bundle.size,
      blake3: hex(hash),
    };
    const status = await this.#transport.json({
      purpose: "keys",
      method: "POST",
      path: "/v1/keys",
      headers: { "Content-Type": "application/json" },
      body: new TextEncoder().encode(JSON.stringify(declaration)),
      signal,
    });
    const id = status["id"];
    if (typeof id !== "string" || !/^[0-9a-f]{32}$/.test(id)) {
      throw new UnspokenError("protocol", "keys: found no id in the service's answer; is this an Unspoken service?");
    }
    await this.#upload(id, bundle, Number(status["offset"] ?? 0), report, signal);
    report({ step: "checking keys", done: 0, total: 1 });
    const ready = await this.#transport.json({
      purpose: "keys",
      method: "POST",
      path: `/v1/keys/${id}/complete`,
      signal,
    });
    if (!isReady(ready)) {
      throw new UnspokenError("protocol", "keys: the service has not accepted them; try again");
    }
    this.#key = id;
  }

  async #upload(id: string, bundle: Blob, offset: number, report: Report, signal: AbortSignal): Promise<void> {
    let at = offset;
    while (at < bundle.size) {
      report({ step: "sending keys", done: at, total: bundle.size });
      const status = await this.#transport.json({
        purpose: "keys",
        method: "PATCH",
        path: `/v1/keys/${id}`,
        headers: { "Content-Type": "application/octet-stream", "Upload-Offset": String(at) },
        body: bundle.slice(at, at + PIECE_BYTES),
        signal,
      });
      const next = Number(status["offset"]);
      if (!(next > at && next <= bundle.size)) {
        throw new UnspokenError(
          "protocol",
          `keys: the service has ${next} of ${bundle.size} bytes after ${at} were sent; do not trust this service`,
        );
      }
      at = next;
    }
    report({ step: "sending keys", done: bundle.size, total: bundle.size });
  }

  async #store(): Promise<void> {
    if (this.#passphrase !== undefined) {
      const [sealed, contents] = [this.#client.seal(this.#passphrase), this.#client.bundleContents()];
      await storage.save(this.#transport.url, this.#name, { sealed, key: this.#key, contents });
    }
  }
}

async function described(transport: Transport, name: string, signal: AbortSignal): Promise<Offer> {
  const fields = await transport.json({ purpose: "description", method: "GET", path: applicationPath(name), signal });
  const limits = (fields["limits"] ?? {}) as Record<string, unknown>;
  return {
    description: bytesOfJson(fields["description"]),
    keyFormat: Number(limits["key_format"] ?? 0),
    maxKeyBytes: Number(limits["max_key_bytes"] ?? 0),
  };
}

/** The published model of an application, if there is one. */
async function published(transport: Transport, name: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
  try {
    const path = `/v1/models/${encodeURIComponent(name)}`;
    const headers = { Accept: "application/x-protobuf" };
    return (await transport.send({ purpose: "model", method: "GET", path, headers, most: MODEL_BYTES, signal })).body;
  } catch (error) {
    if (UnspokenError.of(error).status === 404) {
      return undefined;
    }
    throw error;
  }
}

function isReady(status: Record<string, unknown>): boolean {
  return status["state"] === "ready";
}

/** Bytes of a message of JSON, which are in base64. */
function bytesOfJson(value: unknown): Uint8Array {
  try {
    return Uint8Array.from(atob(value as string), (letter) => letter.charCodeAt(0));
  } catch {
    throw new UnspokenError("protocol", "found a message without its bytes; is this an Unspoken service?");
  }
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function attempt<T>(work: () => T): () => T {
  try {
    const result = work();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

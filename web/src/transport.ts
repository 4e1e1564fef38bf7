/** HTTP requests to a service, with retries, and a record of each. It does not know what keys and queries mean. */

import { UnspokenError } from "./errors.js";
import { type AnswerFrame, AnswerStream } from "./wasm/unspoken_web.js";

/** One request, as the service saw it. */
export interface RequestRecord {
  /** What the request was for. */
  purpose: Purpose;
  method: string;
  /** Path and query string. */
  path: string;
  /** HTTP status; 0 if there was no response. */
  status: number;
  /** Bytes of the body that were sent. */
  sent: number;
  /** Bytes of the body that were received. */
  received: number;
  /** Milliseconds from sending the request to the end of the response. */
  milliseconds: number;
  /** When the request was sent: milliseconds since 1970. */
  time: number;
  /** The first bytes that were sent: what the service sees. */
  sample: Uint8Array;
}

export type Purpose = "applications" | "description" | "model" | "keys" | "query" | "key status" | "delete keys";

/** The address of a service, and who asks. */
export interface TransportOptions {
  url: string;
  token?: string | undefined;
  /** Seconds for which a request is repeated while the service is busy. */
  patience?: number | undefined;
}

interface Sent {
  purpose: Purpose;
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  body?: Uint8Array | Blob | undefined;
  headers?: Record<string, string>;
  /** Maximum length of the response in bytes. */
  most: number;
  /** Gets the progress of an answer that the service sends while it computes it, if it does. */
  report?: ((done: number, total: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** When a service gave its newest sign of life, in milliseconds. */
interface Life {
  newest: number;
}

/** A response with a status below 400. */
export interface Received {
  body: Uint8Array;
  headers: Headers;
}

/** Bytes of a request that are recorded. */
const SAMPLE_BYTES = 64;
/** Longest control message in bytes. */
export const CONTROL_BYTES = 64 << 20;
/** Seconds between attempts: the first pause, and the longest. */
const FIRST_PAUSE = 0.5;
const LONGEST_PAUSE = 8;
/** Seconds for which a service that does not answer at all is tried again. */
const UNREACHABLE_PATIENCE = 10;
/** Statuses by which a proxy says that it does not get through to the service now, or that there is too much to do. */
const OF_BUSY_PROXIES = [429, 502, 503, 504];
/** Code of a refusal that names none: a proxy on the way answered, not the service. */
const OF_PROXY = "unknown";
/** Media type of an answer that is sent while it is computed. */
const PROGRESS = "application/x-unspoken-progress";
/** Bytes beside an answer that such a stream may have: each step has some ten. */
const STREAM_BYTES = 16 << 20;

export class Transport {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #patience: number;
  readonly #record: (record: RequestRecord) => void;

  constructor(options: TransportOptions, record: (record: RequestRecord) => void) {
    const url = checkedUrl(options.url);
    this.#base = url.href.replace(/\/$/, "");
    this.#token = options.token;
    this.#patience = options.patience ?? 120;
    this.#record = record;
  }

  /** The address of the service. */
  get url(): string {
    return this.#base;
  }

  /** Sends a request, again while the service is busy or cannot be reached. */
  async send(sent: Sent): Promise<Received> {
    const start = performance.now();
    const life = { newest: start };
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        return await this.#attempt(sent, life);
      } catch (error) {
        const isLost = error instanceof UnspokenError && (error.code === "unreachable" || isOfBusyProxy(error));
        // A long answer that breaks off is lost since its last sign of life.
        const seconds = (performance.now() - (isLost ? life.newest : start)) / 1000;
        const wait = again(error, pause);
        const most = isLost ? UNREACHABLE_PATIENCE : this.#patience;
        if (wait === undefined || seconds + wait > Math.min(most, this.#patience)) {
          throw error;
        }
        await sleep(wait * (0.75 + 0.5 * Math.random()), sent.signal);
      }
    }
  }

  /** Sends a request for a message in JSON. */
  async json(sent: Omit<Sent, "most">): Promise<Record<string, unknown>> {
    const headers = { Accept: "application/json", ...sent.headers };
    const { body } = await this.send({ ...sent, headers, most: CONTROL_BYTES });
    const value: unknown = parsed(body);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new UnspokenError(
        "protocol",
        `${sent.path}: found no JSON object; needed one: is this an Unspoken service?`,
      );
    }
    return value as Record<string, unknown>;
  }

  async #attempt(sent: Sent, life: Life): Promise<Received> {
    const headers: Record<string, string> = { ...sent.headers };
    if (sent.report !== undefined) {
      headers["Accept"] = `${PROGRESS}, ${headers["Accept"] ?? "*/*"}`;
    }
    if (this.#token !== undefined && this.#token !== "") {
      headers["Authorization"] = `Bearer ${this.#token}`;
    }
    const size = sent.body === undefined ? 0 : sent.body instanceof Blob ? sent.body.size : sent.body.length;
    const record: RequestRecord = {
      purpose: sent.purpose,
      method: sent.method,
      path: sent.path,
      status: 0,
      sent: size,
      received: 0,
      milliseconds: 0,
      time: Date.now(),
      sample: await sampleOf(sent.body),
    };
    const start = performance.now();
    try {
      const response = await fetch(this.#base + sent.path, {
        method: sent.method,
        headers,
        body: (sent.body ?? null) as BodyInit | null,
        signal: sent.signal ?? null,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        referrerPolicy: "no-referrer",
      });
      record.status = response.status;
      if (response.ok) {
        life.newest = performance.now();
      }
      if (response.headers.get("Content-Type") === PROGRESS) {
        return { body: await answerOf(response, sent, record, life), headers: response.headers };
      }
      const body = await bodyOf(response, response.ok ? sent.most : CONTROL_BYTES, sent.path);
      record.received = body.length;
      if (!response.ok) {
        throw refusal(response, body, sent.path);
      }
      return { body, headers: response.headers };
    } catch (error) {
      // A trap of the module ends the worker.
      if (error instanceof UnspokenError || error instanceof WebAssembly.RuntimeError) {
        throw error;
      }
      if (sent.signal?.aborted) {
        throw cancelled();
      }
      const cause = error instanceof Error ? error.message : String(error);
      throw new UnspokenError(
        "unreachable",
        `${this.#base}: the service cannot be reached (${cause}); check the address, that the service runs, and that it allows this page's origin`,
      );
    } finally {
      record.milliseconds = performance.now() - start;
      this.#record(record);
    }
  }
}

/** The path of an application. Its slashes stay: common proxies refuse `%2F` in a path. */
export function applicationPath(name: string): string {
  return `/v1/apps/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function cancelled(): UnspokenError {
  return new UnspokenError("cancelled", "cancelled");
}

function checkedUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new UnspokenError("argument", `address: found ${JSON.stringify(text)}, needed https://host:port`);
  }
  if (url.search !== "" || url.hash !== "") {
    throw new UnspokenError("argument", `address: found ${JSON.stringify(text)}, needed no "?" and no "#"`);
  }
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && local)) {
    throw new UnspokenError(
      "argument",
      `address: found ${url.protocol}//${url.host}, needed https, or http on this machine: others could read and change what is sent`,
    );
  }
  return url;
}

/** Seconds to wait before the next attempt, if one may help. */
function again(error: unknown, pause: number): number | undefined {
  if (!(error instanceof UnspokenError)) {
    return undefined;
  }
  if (error.code === "unreachable" || isOfBusyProxy(error)) {
    return pause;
  }
  return error.retryAfter === undefined ? undefined : Math.max(pause, error.retryAfter);
}

/** Whether a proxy answered that the service may be there later, and not when. */
function isOfBusyProxy(error: UnspokenError): boolean {
  return error.code === OF_PROXY && error.retryAfter === undefined && OF_BUSY_PROXIES.includes(error.status ?? 0);
}

/** The error for a response with a status of 400 or more. */
function refusal(response: Response, body: Uint8Array, path: string): UnspokenError {
  const fields: unknown = parsed(body);
  const problem = (typeof fields === "object" && fields !== null ? fields : {}) as Record<string, unknown>;
  const text = (name: string): string => (typeof problem[name] === "string" ? problem[name] : "");
  const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const retryAfter = Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
  const message = text("message") || `${path}: status ${response.status}`;
  return refused(text("code") || OF_PROXY, message, text("remedy"), response.status, retryAfter);
}

function refused(code: string, message: string, remedy: string, status: number, retryAfter?: number): UnspokenError {
  return new UnspokenError(code, [message, remedy].filter(Boolean).join("; "), status, retryAfter);
}

/** Reads an answer that is sent while it is computed, and reports its progress. */
async function answerOf(response: Response, sent: Sent, record: RequestRecord, life: Life): Promise<Uint8Array> {
  const stream = new AnswerStream(sent.most);
  let answer: Uint8Array | undefined;
  try {
    for await (const piece of piecesOf(response, sent.most + STREAM_BYTES, sent.path)) {
      record.received += piece.length;
      life.newest = performance.now();
      for (const frame of framesOf(stream, piece)) {
        if ("progress" in frame) {
          sent.report?.(frame.progress.done, frame.progress.total);
        } else if ("problem" in frame) {
          const { code, message, remedy, status, retryAfterSeconds } = frame.problem;
          record.status = status;
          throw refused(code, message, remedy, status, retryAfterSeconds > 0 ? retryAfterSeconds : undefined);
        } else {
          answer = frame.answer;
        }
      }
    }
  } finally {
    stream.free();
  }
  if (answer === undefined) {
    throw new UnspokenError("unreachable", `${sent.path}: the connection ended before the answer; try again`);
  }
  return answer;
}

function framesOf(stream: AnswerStream, piece: Uint8Array): AnswerFrame[] {
  try {
    return stream.push(piece);
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) {
      throw error;
    }
    throw new UnspokenError("protocol", UnspokenError.of(error).message);
  }
}

/** Reads a body of at most `most` bytes. */
async function bodyOf(response: Response, most: number, path: string): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of piecesOf(response, most, path)) {
    pieces.push(piece);
    length += piece.length;
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    body.set(piece, at);
    at += piece.length;
  }
  return body;
}

/** The pieces of a body of at most `most` bytes. */
async function* piecesOf(response: Response, most: number, path: string): AsyncGenerator<Uint8Array> {
  const refuse = (found: number): UnspokenError =>
    new UnspokenError(
      "too_long",
      `${path}: found a response of ${found} bytes or more, needed at most ${most}; do not trust this service`,
    );
  const announced = Number(response.headers.get("Content-Length") ?? 0);
  if (announced > most) {
    await response.body?.cancel();
    throw refuse(announced);
  }
  if (response.body === null) {
    return;
  }
  let length = 0;
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      length += value.length;
      if (length > most) {
        throw refuse(length);
      }
      yield value;
    }
  } finally {
    // What is not read is not sent.
    await reader.cancel();
  }
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
}

async function sampleOf(body: Uint8Array | Blob | undefined): Promise<Uint8Array> {
  if (body === undefined) {
    return new Uint8Array();
  }
  return body instanceof Blob
    ? new Uint8Array(await body.slice(0, SAMPLE_BYTES).arrayBuffer())
    : body.slice(0, SAMPLE_BYTES);
}

/** Waits, unless it is aborted. */
export async function sleep(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    if (signal?.aborted) {
      reject(cancelled());
      return;
    }
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(cancelled());
      },
      { once: true },
    );
  });
}

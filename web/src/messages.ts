/** Messages between a page and its worker. */

import type {
  Answer,
  Collection,
  Document,
  Message,
  ModelInterface,
  Question,
  SamplingOptions,
  SearchQuestion,
  SecuredObject,
  Told,
} from "./wasm/unspoken_web.js";
import type { RequestRecord, TransportOptions } from "./transport.js";

/** Where the secret of an application is kept. */
export interface StoreOptions {
  /** Encrypts the secret in IndexedDB under this passphrase. Without it the secret is in memory only. */
  passphrase?: string | undefined;
}

/** How an application is opened. */
export interface OpenOptions extends StoreOptions {
  /** The kind of queries to a database: `packed` (the default), `bits` or `compact`. */
  mode?: string | undefined;
  /** The client's part of the model, if the service does not publish it. */
  model?: Uint8Array | undefined;
  /** Whether parameter sets for tests are accepted, which are not secure. */
  acceptInsecure?: boolean | undefined;
}

/** What an application is, and what it costs. */
export interface ApplicationInfo {
  name: string;
  kind: string;
  preset: string;
  /** Bytes of the evaluation keys, sent once. */
  keyBytes: number;
  /** Whether the service has the keys. */
  hasKeys: boolean;
  /** Milliseconds for making the keys; 0 if none were made. */
  keyMilliseconds: number;
  /** Bytes of a request with one question, and those expected of its answer; of a search for ten documents, all of it. */
  queryBytes: number;
  answerBytes: number;
  /** Maximum number of questions in a request. */
  batch: number;
  /** What the service sees, with its security. */
  objects: SecuredObject[];
  /** The collection, if the application searches one. Bytes and keys are those of its documents, too. */
  collection: Collection | undefined;
  /** What the model takes and gives, if the application has one that its owner brought. */
  model: ModelInterface | undefined;
  /** Whether it answers messages: a model of language whose published part has a template of conversations. */
  takesMessages: boolean;
  /** Whether the whole model is published, so that answers can be compared with the clear. */
  hasClear: boolean;
  /** Whether the secret was read from storage. */
  restored: boolean;
  /** Whether the secret is stored under the passphrase. */
  isStored: boolean;
}

/** What the questions of a call took. */
export interface Costs {
  /** Milliseconds for encryption, and for decryption, in this page. */
  encryptMilliseconds: number;
  decryptMilliseconds: number;
  /** Milliseconds from sending queries to receiving their answers. */
  serviceMilliseconds: number;
  queryBytes: number;
  answerBytes: number;
}

/** The answers to the questions of one call, and what they took. */
export interface Asked extends Costs {
  answers: Answer[];
}

/** A document that was found and fetched. */
export interface FoundDocument extends Document {
  /** The cosine of its vector and the query's, with the error of encryption and of coordinates of 8 bits. */
  cosine: number;
  /** Its position in the collection, which a rebuild changes. */
  position: number;
}

/** The documents that a search found, the nearest first, and what it took. */
export interface Found extends Costs {
  documents: FoundDocument[];
}

/** A text to continue. */
export interface TextToContinue {
  /** What comes first and the service reads: context, instructions. Empty by default. */
  publicText?: string | undefined;
  /** What follows and the service does not see. */
  privateText: string;
  /** Maximum number of tokens that follow; 32 by default. */
  mostTokens?: number | undefined;
  /** How tokens are chosen; by default, the most likely ones. */
  sampling?: SamplingOptions | undefined;
  /** Whether private text goes as it is. Otherwise dots in front fill it up to whole chunks, so that the service does
   * not learn its length. */
  tellLength?: boolean | undefined;
}

/** How messages are answered. */
export interface AnswerOptions {
  /** The number of messages in front that the service may read, for instance 1 for a system message; 0 by default. */
  publicMessages?: number | undefined;
  /** Maximum number of tokens of the answer; 32 by default. */
  mostTokens?: number | undefined;
  /** How tokens are chosen; by default, the most likely ones. */
  sampling?: SamplingOptions | undefined;
  /** As for a text to continue: dots come in front of the first message, or after the last answer. */
  tellLength?: boolean | undefined;
}

/** A text that was continued, or an answer to messages, and what it took. */
export interface Continued extends Told, Costs {}

/** How far something is. */
export interface Progress {
  step: "describing" | "loading the model" | "opening the secret" | "making keys" | "sending keys" | "asking";
  done: number;
  total: number;
  /** The text so far, of a text that is continued or an answer to messages. */
  text?: string;
}

/** Calls that a page makes. */
export interface Calls {
  start: { arguments: [options: TransportOptions, kernels: string | undefined]; result: null };
  applications: { arguments: []; result: string[] };
  open: { arguments: [name: string, options: OpenOptions]; result: ApplicationInfo };
  check: { arguments: [name: string, questions: Question[]]; result: null };
  prepare: { arguments: [name: string]; result: ApplicationInfo };
  ask: { arguments: [name: string, questions: Question[]]; result: Asked };
  find: { arguments: [name: string, question: SearchQuestion]; result: Found };
  continueText: { arguments: [name: string, text: TextToContinue]; result: Continued };
  answer: { arguments: [name: string, messages: Message[], options: AnswerOptions]; result: Continued };
  clearText: { arguments: [name: string, text: TextToContinue]; result: { text: string; milliseconds: number } };
  clear: { arguments: [name: string, question: Question]; result: { answer: Answer; milliseconds: number } };
  secret: { arguments: [name: string]; result: Uint8Array };
  forget: { arguments: [name: string]; result: null };
  memory: { arguments: []; result: number };
}

export type CallName = keyof Calls;

/** From the page to the worker. */
export type ToWorker = { id: number; call: CallName; arguments: unknown[] } | { cancel: number };

/** From the worker to the page. */
export type FromWorker =
  | { id: number; result: unknown }
  | { id: number; error: { code: string; message: string; status?: number | undefined; isFatal: boolean } }
  | { id: number; answers: (Answer | undefined)[]; errors: (string | undefined)[] }
  | { id: number; progress: Progress }
  | { record: RequestRecord };

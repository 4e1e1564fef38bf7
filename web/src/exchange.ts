/** Requests of the module with their answers. */

import type { Costs } from "./messages.js";
import type { Request } from "./wasm/unspoken_web.js";

/** A request, its answer, and what they took, in milliseconds. */
export interface Exchange {
  request: Request;
  answer: Uint8Array;
  queryBytes: number;
  encrypted: number;
  answered: number;
}

/** What a request took. */
export function costs({ encrypted, answered, queryBytes, answer }: Exchange, decrypted: number): Costs {
  return {
    encryptMilliseconds: encrypted,
    decryptMilliseconds: decrypted,
    serviceMilliseconds: answered,
    queryBytes,
    answerBytes: answer.length,
  };
}

/** What several requests took together. */
export function summed(all: Costs[]): Costs {
  const sum = (of: (each: Costs) => number): number => all.reduce((total, each) => total + of(each), 0);
  return {
    encryptMilliseconds: sum((each) => each.encryptMilliseconds),
    decryptMilliseconds: sum((each) => each.decryptMilliseconds),
    serviceMilliseconds: sum((each) => each.serviceMilliseconds),
    queryBytes: sum((each) => each.queryBytes),
    answerBytes: sum((each) => each.answerBytes),
  };
}

/** Frees all requests. */
export function freeAll(exchanges: Exchange[]): void {
  for (const { request } of exchanges.splice(0)) {
    freed(request);
  }
}

/** Frees an object of the module. After a trap it cannot be freed, and the module ends with its worker. */
export function freed(object: { free(): void }): void {
  try {
    object.free();
  } catch {
    // The trap is reported.
  }
}

/** What `work` returns or throws, when it is called. */
export function attempt<T>(work: () => T): () => T {
  try {
    const result = work();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

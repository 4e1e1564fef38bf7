/** The requests of one question. */

import type { ApplicationInfo, RequestRecord } from "../index.js";
import { listen } from "./requests.js";

/** What leaves this page for one question, and what comes back, from now on until `end`. */
export class Trace {
  /** The requests with ciphertexts of the question. */
  readonly queries: RequestRecord[] = [];
  readonly #names: (string | undefined)[];
  /** Bytes of keys that were sent meanwhile, by the id that the service gave them. */
  readonly #keys = new Map<string, number>();
  /** Ends the trace. */
  readonly end: () => void;

  constructor({ name, collection }: ApplicationInfo) {
    this.#names = [name, collection?.documents];
    this.end = listen((request) => {
      this.#take(request);
    });
  }

  /** Bytes of the question that were sent, all requests together, and bytes that came back. */
  get sent(): number {
    return this.queries.reduce((sum, { sent }) => sum + sent, 0);
  }

  get received(): number {
    return this.queries.reduce((sum, { received }) => sum + received, 0);
  }

  /** Bytes of keys that were sent for it. */
  get keys(): number {
    const used = new Set(this.queries.map(({ path }) => queryPath(path).key));
    return [...used].reduce((sum, key) => sum + (this.#keys.get(key) ?? 0), 0);
  }

  #take(request: RequestRecord): void {
    const [, id] = /^\/v1\/keys\/([0-9a-f]+)/.exec(request.path) ?? [];
    if (request.purpose === "keys" && id !== undefined) {
      this.#keys.set(id, (this.#keys.get(id) ?? 0) + request.sent);
    } else if (request.purpose === "query" && this.#names.includes(queryPath(request.path).name)) {
      this.queries.push(request);
    }
  }
}

/** The application and the id of the keys of a query. */
function queryPath(path: string): { name: string; key: string } {
  const [place = "", parameters] = path.split("?");
  const name = decodeURIComponent(place.replace(/^\/v1\/apps\//, ""));
  return { name, key: new URLSearchParams(parameters).get("key") ?? "" };
}

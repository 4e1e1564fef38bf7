/** The requests of the page, for all who show them. */

import type { RequestRecord } from "../index.js";

type Listener = (request: RequestRecord) => void;

const listeners = new Set<Listener>();

/** Calls `listener` with every request from now on. Returns what ends that. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Tells all listeners of a request. */
export function announce(request: RequestRecord): void {
  listeners.forEach((listener) => {
    listener(request);
  });
}

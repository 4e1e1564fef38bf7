/** The last question, as you, the network and the service saw it. */

import { byId, bytes, duration, element, facts, firstBytes } from "./elements.js";
import type { Trace } from "./trace.js";

type Child = Node | string;

/** A question that was answered. */
export interface Happened {
  /** The application that was asked. */
  name: string;
  question: Child;
  answer: Child;
  /** The part of the question that the service reads, if there is one. */
  read?: string | undefined;
  trace: Trace;
  /** Milliseconds from sending queries to receiving their answers. */
  milliseconds: number;
}

/** Shows what each of the three saw of a question. */
export function showHappened({ name, question, answer, read, trace, milliseconds }: Happened): void {
  const [first] = trace.queries;
  const time = first === undefined ? "–" : new Date(first.time).toLocaleTimeString();
  const keys: [string, Child][] = trace.keys > 0 ? [["Keys, once", bytes(trace.keys)]] : [];
  const publicPart: [string, Child][] = read ? [["Text that it may read", read]] : [];
  byId("you-saw").replaceChildren(
    facts([
      ["Question", element("div", { class: "seen-by-you" }, question)],
      ["Answer", element("div", { class: "seen-by-you" }, answer)],
    ]),
  );
  byId("network-saw").replaceChildren(
    facts([
      ...keys,
      ["Sent", bytes(trace.sent)],
      ["Received", bytes(trace.received)],
      ["Requests", String(trace.queries.length)],
      ["Time", time],
      ["Took", duration(milliseconds)],
    ]),
  );
  byId("service-saw").replaceChildren(
    facts([
      ["Asked", name],
      ["Time", time],
      ...publicPart,
      ["Question", firstBytes(first?.sample ?? new Uint8Array())],
      ["Answer", `${bytes(trace.received)} of ciphertext`],
    ]),
  );
  byId("happened").hidden = false;
}

/** What a question took, in one line. */
export function inOneLine({ trace, milliseconds }: Happened): string {
  const keys = trace.keys > 0 ? `, and ${bytes(trace.keys)} of keys, once` : "";
  return `${bytes(trace.sent)} left this page${keys}. The service and the network took ${duration(milliseconds)}.`;
}

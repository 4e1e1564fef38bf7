/** The record of all requests, as a table. */

import type { RequestRecord } from "../index.js";
import { byId, byteCount, bytes, duration, element, hex } from "./elements.js";

/** Rows that are kept. */
const MAX_ROWS = 200;

const totals = { requests: 0, sent: 0, received: 0 };

/** Adds a request to the record. */
export function record(request: RequestRecord): void {
  totals.requests += 1;
  totals.sent += request.sent;
  totals.received += request.received;
  byId("total-requests").textContent = String(totals.requests);
  byId("total-sent").replaceChildren(byteCount(totals.sent));
  byId("total-received").replaceChildren(byteCount(totals.received));
  const status = request.status === 0 ? "no answer" : String(request.status);
  const row = element(
    "tr",
    {},
    element(
      "td",
      {},
      element("strong", {}, request.purpose),
      element("br"),
      `${request.method} ${request.path} (${status})`,
    ),
    element("td", { class: "number" }, byteCount(request.sent)),
    element("td", { class: "number" }, byteCount(request.received)),
    element("td", { class: "number" }, duration(request.milliseconds)),
    element("td", {}, element("code", {}, hex(request.sample) || "–")),
  );
  const rows = byId("requests");
  rows.prepend(row);
  while (rows.childElementCount > MAX_ROWS) {
    rows.lastElementChild?.remove();
  }
}

/** Shows the memory of the module. */
export function showMemory(count: number): void {
  byId("total-memory").textContent = bytes(count);
}

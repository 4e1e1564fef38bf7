/** The bytes in the drawing of the three parties, as they leave and arrive. */

import type { RequestRecord } from "../index.js";
import { byId, byteCount, firstBytes } from "./elements.js";

/** What moves between the page and the service. */
const lanes = { keys: 0, questions: 0, answers: 0 };
let sent = 0;

/** Adds a request to the drawing. */
export function showLive({ purpose, sent: there, received, sample }: RequestRecord): void {
  if (purpose === "keys") {
    move("keys", there);
  } else if (purpose === "query") {
    move("questions", there);
    move("answers", received);
  }
  if (there > 0) {
    sent += there;
    byId("live-state").replaceChildren(byteCount(sent), " have left this page since you opened it.");
    byId("live-bytes").replaceChildren(firstBytes(sample));
    byId("live-sample").hidden = false;
  }
}

/** Counts bytes on a lane, whose arrow then shows that something moves. */
function move(name: keyof typeof lanes, bytes: number): void {
  lanes[name] += bytes;
  byId(`live-${name}`).replaceWith(byteCount(lanes[name], `live-${name}`));
  const lane = byId(`lane-${name}`);
  lane.classList.remove("moving");
  // Without a look at the layout, the movement would not begin again.
  lane.getBoundingClientRect();
  lane.classList.add("moving");
}

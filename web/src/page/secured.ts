/** What the service has of a client, with its security. */

import type { SecuredObject } from "../index.js";
import { element } from "./elements.js";

const HEADS = ["What the service has", "Dimension", "Modulus", "Secret", "Security"];

/** A table of the objects that the service sees. */
export function securityTable(objects: SecuredObject[]): HTMLElement {
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Security of each object" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...HEADS.map((head) => element("th", { scope: "col" }, head)))),
      element("tbody", {}, ...objects.map(row)),
    ),
  );
}

function row(object: SecuredObject): HTMLElement {
  return element(
    "tr",
    {},
    element("td", {}, object.what),
    element("td", { class: "number" }, `2^${Math.log2(object.dimension).toFixed(1).replace(/\.0$/, "")}`),
    element("td", { class: "number" }, `${object.log2Modulus.toFixed(0)} bits`),
    element("td", {}, object.secret),
    element("td", { class: "number" }, `${Math.floor(object.securityBits)} bits`),
  );
}

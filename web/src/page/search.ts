/** Documents to find by what they mean. */

import type { Application, CallOptions, Collection, Found, SearchQuestion } from "../index.js";
import type { Inquiry, View } from "./card.js";
import { element } from "./elements.js";

/** Bytes of a document that are shown. */
const SHOWN_BYTES = 2000;

/** The view of a collection: texts are asked if the service publishes what makes their vectors, and vectors otherwise. */
export function searchView(collection: Collection | undefined): View {
  const takesTexts = collection?.takesTexts ?? false;
  const input = element("textarea", { rows: "2", maxlength: "20000", autocomplete: "off", spellcheck: "false" });
  const most = element("input", { type: "number", min: "1", max: "100", step: "1", required: "" });
  most.value = "5";
  const label = takesTexts
    ? "What the documents are about"
    : `A vector, as JSON: ${collection?.width ?? "some"} numbers in brackets, of ${collection?.embedder || "the embedder of the documents"}`;
  const inquiry = (): Inquiry => {
    if (!most.reportValidity()) {
      throw new Error("Choose a number of documents from 1 to 100.");
    }
    const wanted = { most: most.valueAsNumber };
    const question: SearchQuestion = takesTexts
      ? { text: textOf(input.value), ...wanted }
      : { vector: vectorOf(input.value), ...wanted };
    return {
      asked: input.value,
      async ask(application: Application, options: CallOptions) {
        const found = await application.find(question, options);
        return {
          shown: shown(found),
          text: found.documents.map(({ position }) => position).join(" "),
          costs: found,
          rows: [["Documents fetched", `${question.most}; the service sees how many, not which`]],
        };
      },
    };
  };
  return {
    title: "Find documents",
    form: element(
      "form",
      {},
      element("label", {}, label, input),
      element("label", {}, "Documents to find", most),
      element("p", { class: "help" }, `Among ${collection?.count ?? "some"} documents, the nearest first.`),
    ),
    inquiry,
  };
}

function textOf(written: string): string {
  if (written.trim() === "") {
    throw new Error("Type what the documents are about first.");
  }
  return written;
}

/** The numbers of a vector in JSON. */
function vectorOf(written: string): number[] {
  try {
    const parsed: unknown = JSON.parse(written);
    if (Array.isArray(parsed) && parsed.every((each) => typeof each === "number")) {
      return parsed as number[];
    }
  } catch {
    // The same error as for other values.
  }
  throw new Error("Type a vector first, for instance [0.25, -1, 0.5].");
}

/** Documents with their cosines. */
function shown({ documents }: Found): HTMLElement {
  if (documents.length === 0) {
    return element("p", {}, "no documents");
  }
  const rows = documents.map(({ cosine, content, id }) => {
    const name = id === undefined ? "" : `${decoded(id)}: `;
    return element("li", {}, element("span", { class: "cosine" }, cosine.toFixed(3)), " ", name, decoded(content));
  });
  return element("ol", { class: "documents" }, ...rows);
}

function decoded(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes.subarray(0, SHOWN_BYTES));
  return bytes.length > SHOWN_BYTES ? `${text}…` : text;
}

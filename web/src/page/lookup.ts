/** A record to look up. */

import type { Answer, Question, Retrieved } from "../index.js";
import type { View } from "./card.js";
import { element } from "./elements.js";
import { questionView } from "./question.js";

/** The kinds of queries that a page offers. */
const MODES = [
  ["packed", "small keys, queries of some hundred bytes"],
  ["compact", "queries of 36 bytes for each place of a key, large keys"],
] as const;

/** The view of a database; `choose` is called with another kind of queries. */
export function lookupView(mode: string, choose: (mode: string) => void): View {
  const input = element("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: "200" });
  input.value = "E11.9";
  const choices = MODES.map(([name, about]) => {
    const radio = element("input", { type: "radio", name: "mode", value: name });
    radio.checked = name === mode;
    radio.addEventListener("change", () => {
      choose(name);
    });
    return element("label", {}, radio, ` ${name}: ${about}`);
  });
  return questionView({
    title: "Look something up",
    form: element(
      "form",
      {},
      element("label", {}, "Key of the record, for instance the code of a diagnosis", input),
      element(
        "details",
        {},
        element("summary", {}, "How it is asked"),
        element("fieldset", {}, element("legend", {}, "Queries"), ...choices),
      ),
    ),
    question(): Question {
      if (input.value.trim() === "") {
        throw new Error("Type a key first.");
      }
      return { key: input.value.trim() };
    },
    asked: () => input.value.trim(),
    show(answer: Answer): HTMLElement {
      return element("p", {}, element("strong", {}, text(answer)));
    },
    text,
  });
}

function text(answer: Answer): string {
  const { record } = answer as Retrieved;
  return record === undefined ? "no such record" : new TextDecoder().decode(record);
}

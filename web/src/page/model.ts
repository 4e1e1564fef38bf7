/** A row of a model that its owner brought: a form of its inputs, and its outputs. */

import type { Answer, ModelInput, ModelInterface, ModelOutput, Predicted, Question } from "../index.js";
import type { View } from "./card.js";
import { element } from "./elements.js";
import { type Entry, fieldsEntry, textEntry } from "./entries.js";
import { sizeOf } from "./numbers.js";
import { pictureEntry } from "./picture.js";
import { sizeOfPicture } from "./pixels.js";
import { questionView } from "./question.js";

/** An input with more numbers has one field for all. */
const MAX_FIELDS = 32;
/** Numbers of an output that are shown. */
const SHOWN = 10;

/** The view of a model. */
export function modelView(model: ModelInterface | undefined): View {
  const inputs = model?.inputs ?? [];
  const clip = element("input", { type: "checkbox" });
  const entries = inputs.map((input) => entryOf(input, () => clip.checked));
  clip.addEventListener("change", () => {
    entries.forEach((entry) => {
      entry.refresh();
    });
  });
  return questionView({
    title: "Ask the model",
    form: element(
      "form",
      {},
      ...entries.map(({ shown }) => shown),
      element("label", { class: "check" }, clip, " Move numbers outside their ranges to the nearest end"),
      element(
        "p",
        { class: "help" },
        "The ranges are those of the rows on which the owner calibrated the model, with a margin. Outside, its answers are wrong.",
      ),
    ),
    question(): Question {
      const numbers = entries.map((entry) => entry.numbers());
      return {
        inputs: Object.fromEntries(inputs.map(({ name }, at) => [name, numbers[at] ?? []])),
        clip: clip.checked,
      };
    },
    asked: () => element("div", {}, ...entries.map((entry) => element("div", {}, entry.asked()))),
    show: (answer: Answer) => element("div", {}, ...(answer as Predicted).outputs.map(shown)),
    text: (answer: Answer) => (answer as Predicted).outputs.map(({ values }) => values.join(" ")).join("; "),
  });
}

function entryOf(input: ModelInput, clip: () => boolean): Entry {
  const size = sizeOfPicture(input);
  if (size !== undefined) {
    return pictureEntry(input, size, clip);
  }
  return sizeOf(input) <= MAX_FIELDS ? fieldsEntry(input, clip) : textEntry(input, clip);
}

/** An output for the person: bars for probabilities, otherwise its labels or numbers. */
function shown(output: ModelOutput): HTMLElement {
  const { name, values, labels, gives } = output;
  const label = (at: number): string => labels?.[at] ?? String(at);
  if (gives === "probabilities" || gives === "logProbabilities") {
    const probabilities = values.map(Number).map((value) => (gives === "probabilities" ? value : Math.exp(value)));
    const order = probabilities.map((value, at) => ({ value, label: label(at) })).sort((a, b) => b.value - a.value);
    return element(
      "div",
      {},
      element("p", { class: "help" }, name),
      element("ul", { class: "bars" }, ...order.slice(0, SHOWN).map(bar)),
      ...more(order.length),
    );
  }
  const [first] = values;
  if (values.length === 1 && first !== undefined && labels === undefined) {
    return element("p", {}, `${name}: `, element("strong", {}, written(first)));
  }
  const items = values.slice(0, SHOWN).map((value, at) => element("li", {}, `${label(at)}: ${written(value)}`));
  return element(
    "div",
    {},
    element("p", { class: "help" }, name),
    element("ul", { class: "bars" }, ...items),
    ...more(values.length),
  );
}

function bar({ label, value }: { label: string; value: number }): HTMLElement {
  const percent = `${(100 * value).toFixed(1)} %`;
  return element(
    "li",
    {},
    element("span", {}, label),
    element("meter", { min: "0", max: "1", value: String(value), "aria-label": label }, percent),
    element("span", { class: "number" }, percent),
  );
}

function more(count: number): HTMLElement[] {
  return count > SHOWN ? [element("p", { class: "help" }, `and ${count - SHOWN} more`)] : [];
}

/** A value for people: numbers have noise in their last digits. */
function written(value: number | string): string {
  return typeof value === "string" || Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** A message to classify. */

import type { Answer, Classified, Question } from "../index.js";
import type { View } from "./card.js";
import { element } from "./elements.js";
import { questionView } from "./question.js";

/** The view of a classifier. */
export function textView(): View {
  const input = element("textarea", { rows: "3", maxlength: "2000", autocomplete: "off", spellcheck: "false" });
  input.value = "Congratulations! You have won a prize. Call now to claim it.";
  return questionView({
    title: "Classify a message",
    form: element("form", {}, element("label", {}, "Your message", input)),
    question(): Question {
      if (input.value.trim() === "") {
        throw new Error("Type a message first.");
      }
      return { text: input.value };
    },
    asked: () => input.value,
    show(answer: Answer): HTMLElement {
      return element("p", {}, "Label: ", element("strong", {}, (answer as Classified).label));
    },
    text: (answer: Answer) => (answer as Classified).label,
  });
}

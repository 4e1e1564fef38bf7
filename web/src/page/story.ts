/** A text that the service continues, whose end it does not see. */

import type { Application, CallOptions, TextToContinue } from "../index.js";
import type { Inquiry, View } from "./card.js";
import { element } from "./elements.js";

/** The view of a model of language. */
export function storyView(): View {
  const publicText = textarea("2");
  publicText.value = "Once upon a time, Tom and his mom went to the park.";
  const privateText = textarea("2");
  privateText.value = "They saw a big dog";
  const tokens = numberOfTokens("8");
  const inquiry = (): Inquiry => {
    if (privateText.value.trim() === "") {
      throw new Error("Type the private part first.");
    }
    if (!tokens.reportValidity()) {
      throw new Error("Choose a number of tokens from 1 to 256.");
    }
    // A space between the parts belongs to neither; the model needs one.
    const text: TextToContinue = {
      publicText: publicText.value.trim(),
      privateText: ` ${privateText.value.trim()}`,
      mostTokens: tokens.valueAsNumber,
    };
    return {
      asked: text.privateText.trim(),
      read: text.publicText,
      async ask(application: Application, options: CallOptions) {
        const told = await application.continueText(text, options);
        const before = element("span", { class: "help" }, text.publicText ?? "", text.privateText);
        return {
          shown: element("p", { class: "story" }, before, element("strong", {}, told.text)),
          text: told.text,
          costs: told,
          rows: [
            ["Tokens", `${told.tokens}, ${told.guessed} of them guessed`],
            ["Passes", `${told.passes}; the service sees how many`],
            ...unprepared(told.uncovered),
          ],
        };
      },
      async clear(application: Application) {
        return await application.clearText(text);
      },
    };
  };
  return {
    title: "Continue a story",
    form: element(
      "form",
      {},
      element("label", {}, "Begin, which the service reads", publicText),
      element("label", {}, "Private part, which it does not see", privateText),
      element("label", {}, "Tokens to add; each pass of the service may take a minute", tokens),
    ),
    inquiry,
  };
}

/** The row that warns of tokens that the model was not prepared for. */
export function unprepared(tokens: string[]): [string, string][] {
  return tokens.length === 0
    ? []
    : [["Warning", `the model was not prepared for ${tokens.join(", ")}: the text may be wrong`]];
}

/** The input of the number of tokens that may follow. */
export function numberOfTokens(value: string): HTMLInputElement {
  return element("input", { type: "number", min: "1", max: "256", step: "1", required: "", value });
}

/** A field for a text. */
export function textarea(rows: string): HTMLTextAreaElement {
  return element("textarea", { rows, maxlength: "2000", autocomplete: "off", spellcheck: "false" });
}

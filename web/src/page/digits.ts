/** A digit, drawn on a pad. */

import type { Answer, Question, Recognised } from "../index.js";
import type { View } from "./card.js";
import { button, element } from "./elements.js";
import { Pad, context, copyOf } from "./pad.js";
import { questionView } from "./question.js";

/** Pixels of the drawing, of an image of the network, and of the box into which MNIST scales digits. */
const DRAWN = 280;
const SIDE = 28;
const BOX = 20;

/** The view of a recogniser of digits. */
export function digitsView(): View {
  const seen = element("canvas", { class: "seen", width: String(SIDE), height: String(SIDE), "aria-hidden": "true" });
  const pad = new Pad({
    width: DRAWN,
    height: DRAWN,
    label: "Drawing area for one digit. With the keyboard, press a digit to draw it, or Delete to clear.",
    keys: /^[0-9]$/,
    changed: () => {
      refresh();
    },
  });
  const image = (): Uint8Array => pad.centred(SIDE, SIDE, BOX / SIDE);
  const refresh = (): void => {
    const shown = context(seen).createImageData(SIDE, SIDE);
    image().forEach((value, at) => {
      shown.data.set([value, value, value, 255], 4 * at);
    });
    context(seen).putImageData(shown, 0, 0);
  };
  refresh();

  return questionView({
    title: "Draw a digit",
    form: element(
      "form",
      {},
      element(
        "p",
        { class: "help" },
        "Draw one digit with mouse or finger. With the keyboard: select the area and press a digit.",
      ),
      element(
        "div",
        { class: "pad" },
        pad.canvas,
        element(
          "div",
          {},
          seen,
          element("p", { class: "help" }, "What is encrypted: 28 × 28 pixels"),
          button("Clear", () => {
            pad.clear();
          }),
        ),
      ),
    ),
    question(): Question {
      if (!pad.isDrawn) {
        throw new Error("Draw a digit first.");
      }
      return { pixels: image() };
    },
    asked: () => copyOf(seen),
    show(answer: Answer): HTMLElement {
      return element("p", {}, "This is a ", element("strong", {}, String((answer as Recognised).digit)), ".");
    },
    text: (answer: Answer) => String((answer as Recognised).digit),
  });
}

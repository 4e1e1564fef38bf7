/** A picture as an input of a model: drawn on a pad, or chosen from the files of the person. */

import type { ModelInput } from "../index.js";
import { button, element } from "./elements.js";
import { type Entry, hintAt, reachOf } from "./entries.js";
import { Pad, context, copyOf } from "./pad.js";
import { type Levels, type Size, guessedLevels, numbersOfPixels } from "./pixels.js";

/** Pixels of the longer side of the pad. */
const DRAWN = 280;
/** The box into which MNIST scales digits, and the side of its images, for which drawings are centred at first. */
const BOX = 20 / 28;
const MNIST_SIDE = 28;

/** Names of the channels of pictures. */
const CHANNELS = { 1: ["Grey"], 3: ["Red", "Green", "Blue"] };

/** A pad, a file, and what becomes of both. */
export function pictureEntry(input: ModelInput, size: Size, clip: () => boolean): Entry {
  const { channels, height, width } = size;
  const unit = DRAWN / Math.max(width, height);
  const pad = new Pad({
    width: Math.round(unit * width),
    height: Math.round(unit * height),
    label: `Drawing area for ${input.name}. With the keyboard, press a letter or a digit to draw it, or Delete to clear.`,
    keys: /^[\p{L}\p{N}]$/u,
    changed: () => {
      // Nothing is left, or there are strokes over what was there before.
      chosen = pad.isDrawn ? chosen : undefined;
      refresh();
    },
  });
  const seen = element("canvas", {
    class: "seen",
    width: String(width),
    height: String(height),
    "aria-hidden": "true",
  });
  const file = element("input", { type: "file", accept: "image/*" });
  const colour = element("input", { type: "color", value: "#ffffff" });
  const centre = element("input", { type: "checkbox" });
  centre.checked = width === MNIST_SIDE && height === MNIST_SIDE;
  const levels = levelsOf(input, size);
  const hint = hintAt(pad.canvas);
  /** The picture that was chosen, in the size of the input. */
  let chosen: HTMLCanvasElement | undefined;

  /** What is encrypted, as pixels. */
  const pixels = (): Uint8ClampedArray => {
    const canvas = element("canvas", { width: String(width), height: String(height) });
    const pen = context(canvas);
    pen.fillRect(0, 0, width, height);
    pen.imageSmoothingQuality = "high";
    if (pad.isDrawn && chosen === undefined && channels === 1 && centre.checked) {
      const image = pen.createImageData(width, height);
      pad.centred(width, height, BOX).forEach((value, at) => {
        image.data.set([value, value, value, 255], 4 * at);
      });
      return image.data;
    }
    if (pad.isDrawn) {
      pen.drawImage(pad.canvas, 0, 0, width, height);
    } else if (chosen !== undefined) {
      pen.drawImage(chosen, 0, 0);
    }
    return pen.getImageData(0, 0, width, height).data;
  };
  const isEmpty = (): boolean => !pad.isDrawn && chosen === undefined;
  const read = (): { numbers: Float64Array; text: string; isProblem: boolean } => {
    const found = pixels();
    const image = context(seen).createImageData(width, height);
    image.data.set(channels === 1 ? grey(found) : found);
    context(seen).putImageData(image, 0, 0);
    const numbers = numbersOfPixels(found, size, levels.read());
    return { numbers, ...(isEmpty() ? { text: "", isProblem: false } : reachOf(input, numbers, clip())) };
  };
  const refresh = (): void => {
    const { text, isProblem } = read();
    hint(text, isProblem);
  };
  const choose = async (): Promise<void> => {
    const [picture] = file.files ?? [];
    if (picture === undefined) {
      return;
    }
    try {
      const made = await scaled(picture, width, height);
      pad.show(made);
      chosen = made;
      refresh();
    } catch {
      hint(`${picture.name} cannot be read as a picture; choose a PNG, JPEG or WebP file`, true);
    }
  };
  file.addEventListener("change", () => void choose());
  colour.addEventListener("input", () => {
    pad.colour = colour.value;
  });
  centre.addEventListener("change", refresh);
  levels.shown.addEventListener("input", refresh);
  const kind = channels === 1 ? "grey" : "red, green and blue";
  const shown = element(
    "fieldset",
    {},
    element("legend", {}, input.name),
    element(
      "p",
      { class: "help" },
      "Draw with mouse or finger, or choose a picture. It stays in this page: only its encryption is sent.",
    ),
    element(
      "div",
      { class: "pad" },
      pad.canvas,
      element(
        "div",
        {},
        seen,
        element("p", { class: "help" }, `What is encrypted: ${width} × ${height} pixels, ${kind}`),
        button("Clear", () => {
          file.value = "";
          pad.clear();
        }),
      ),
    ),
    hint("", false),
    element("label", {}, "Or a picture; what does not fit into its shape is cut off", file),
    channels === 1
      ? element("label", { class: "check" }, centre, " Scale and centre a drawing, as the images of MNIST are")
      : element("label", {}, "Colour of the pen", colour),
    levels.shown,
  );
  refresh();
  return {
    shown,
    numbers() {
      if (isEmpty()) {
        pad.canvas.focus();
        throw new Error(`${input.name}: draw or choose a picture first.`);
      }
      const { numbers, text, isProblem } = read();
      hint(text, isProblem);
      if (isProblem) {
        throw new Error(`${input.name}: ${text}. Choose to move numbers, or other numbers of black and white.`);
      }
      return numbers;
    },
    asked: () => copyOf(seen),
    refresh,
  };
}

/** Fields for the numbers of black and white, which no model tells. */
function levelsOf(input: ModelInput, size: Size): { shown: HTMLElement; read(): Levels[] } {
  const rows = guessedLevels(input, size).map((levels, channel) => {
    const field = (level: number): HTMLInputElement => {
      const made = element("input", { type: "number", step: "any", autocomplete: "off" });
      made.value = String(level);
      return made;
    };
    return {
      channel: CHANNELS[size.channels][channel] ?? "",
      levels,
      black: field(levels.black),
      white: field(levels.white),
    };
  });
  const value = (field: HTMLInputElement, guessed: number): number =>
    Number.isNaN(field.valueAsNumber) ? guessed : field.valueAsNumber;
  return {
    shown: element(
      "details",
      {},
      element("summary", {}, "Numbers of pixels"),
      element("p", { class: "help" }, "Guessed from the ranges: compare them with what the model was trained on."),
      element(
        "div",
        { class: "fields" },
        ...rows.flatMap(({ channel, black, white }) => [
          element("label", {}, `${channel}: darkest`, black),
          element("label", {}, `${channel}: brightest`, white),
        ]),
      ),
    ),
    read: () =>
      rows.map(({ levels, black, white }) => ({
        black: value(black, levels.black),
        white: value(white, levels.white),
      })),
  };
}

/** A picture in this size, of its middle as far as it has another shape. */
async function scaled(picture: Blob, width: number, height: number): Promise<HTMLCanvasElement> {
  const bitmap = await createImageBitmap(picture);
  try {
    const canvas = element("canvas", { width: String(width), height: String(height) });
    const pen = context(canvas);
    const unit = Math.min(bitmap.width / width, bitmap.height / height);
    const [partWidth, partHeight] = [unit * width, unit * height];
    const [x, y] = [(bitmap.width - partWidth) / 2, (bitmap.height - partHeight) / 2];
    pen.fillRect(0, 0, width, height);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(bitmap, x, y, partWidth, partHeight, 0, 0, width, height);
    return canvas;
  } finally {
    bitmap.close();
  }
}

/** Pixels without their colours, as the model gets them. */
function grey(pixels: Uint8ClampedArray): Uint8ClampedArray {
  return pixels.map((_, at) => {
    const from = at - (at % 4);
    const [red = 0, green = 0, blue = 0] = pixels.subarray(from, from + 3);
    return at % 4 === 3 ? 255 : 0.299 * red + 0.587 * green + 0.114 * blue;
  });
}

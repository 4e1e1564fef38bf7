/** A digit, drawn with a mouse, a finger or a pen, or set with the keyboard. */

import type { Answer, Question, Recognised } from "../index.js";
import type { View } from "./card.js";
import { button, element } from "./elements.js";
import { questionView } from "./question.js";

/** Pixels of the drawing, of an image of the network, and of the box into which MNIST scales digits. */
const DRAWN = 280;
const SIDE = 28;
const BOX = 20;
const STROKE = 22;

/** The view of a recogniser of digits. */
export function digitsView(): View {
  const canvas = element("canvas", {
    class: "draw",
    width: String(DRAWN),
    height: String(DRAWN),
    tabindex: "0",
    role: "img",
    "aria-label": "Drawing area for one digit. With the keyboard, press a digit to draw it, or Delete to clear.",
  });
  const seen = element("canvas", { class: "seen", width: String(SIDE), height: String(SIDE), "aria-hidden": "true" });
  const pen = context(canvas);
  let drawn = false;

  const refresh = (): void => {
    const pixels = drawn ? imageOf(pen) : new Uint8Array(SIDE * SIDE);
    const image = context(seen).createImageData(SIDE, SIDE);
    pixels.forEach((value, at) => {
      image.data.set([value, value, value, 255], 4 * at);
    });
    context(seen).putImageData(image, 0, 0);
  };
  const clear = (): void => {
    pen.clearRect(0, 0, DRAWN, DRAWN);
    drawn = false;
    refresh();
  };
  const at = (event: PointerEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * DRAWN, ((event.clientY - box.top) / box.height) * DRAWN];
  };
  Object.assign(pen, {
    strokeStyle: "#fff",
    fillStyle: "#fff",
    lineWidth: STROKE,
    lineCap: "round",
    lineJoin: "round",
  });
  canvas.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    canvas.focus();
    canvas.setPointerCapture(event.pointerId);
    pen.beginPath();
    pen.moveTo(...at(event));
    pen.lineTo(...at(event));
    pen.stroke();
    drawn = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) {
      pen.lineTo(...at(event));
      pen.stroke();
    }
  });
  canvas.addEventListener("pointerup", refresh);
  canvas.addEventListener("pointercancel", refresh);
  canvas.addEventListener("keydown", ({ key }) => {
    if (/^[0-9]$/.test(key)) {
      clear();
      pen.font = `${DRAWN * 0.8}px sans-serif`;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(key, DRAWN / 2, DRAWN / 2);
      drawn = true;
      refresh();
    } else if (key === "Delete" || key === "Backspace") {
      clear();
    }
  });
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
        canvas,
        element(
          "div",
          {},
          seen,
          element("p", { class: "help" }, "What is encrypted: 28 × 28 pixels"),
          button("Clear", clear),
        ),
      ),
    ),
    question(): Question {
      if (!drawn) {
        throw new Error("Draw a digit first.");
      }
      return { pixels: imageOf(pen) };
    },
    show(answer: Answer): HTMLElement {
      return element("p", {}, "This is a ", element("strong", {}, String((answer as Recognised).digit)), ".");
    },
    text: (answer: Answer) => String((answer as Recognised).digit),
  });
}

function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const found = canvas.getContext("2d", { willReadFrequently: true });
  if (found === null) {
    throw new Error("this browser cannot draw");
  }
  return found;
}

/** The drawing as images of MNIST are made: scaled to a box of 20 pixels, and centred by its mass in 28 x 28. */
function imageOf(pen: CanvasRenderingContext2D): Uint8Array {
  const { data } = pen.getImageData(0, 0, DRAWN, DRAWN);
  const ink = (x: number, y: number): number => data[4 * (y * DRAWN + x) + 3] ?? 0;
  let [left, top, right, bottom] = [DRAWN, DRAWN, -1, -1];
  for (let y = 0; y < DRAWN; y += 1) {
    for (let x = 0; x < DRAWN; x += 1) {
      if (ink(x, y) > 0) {
        [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
      }
    }
  }
  if (right < 0) {
    return new Uint8Array(SIDE * SIDE);
  }
  const [width, height] = [right - left + 1, bottom - top + 1];
  const scale = BOX / Math.max(width, height);
  const place = (dx: number, dy: number): Uint8Array => {
    const small = context(element("canvas", { width: String(SIDE), height: String(SIDE) }));
    small.imageSmoothingQuality = "high";
    small.drawImage(
      pen.canvas,
      left,
      top,
      width,
      height,
      (SIDE - width * scale) / 2 + dx,
      (SIDE - height * scale) / 2 + dy,
      width * scale,
      height * scale,
    );
    const image = small.getImageData(0, 0, SIDE, SIDE).data;
    return Uint8Array.from({ length: SIDE * SIDE }, (_, at) => image[4 * at + 3] ?? 0);
  };
  const first = place(0, 0);
  let [mass, x, y] = [0, 0, 0];
  first.forEach((value, at) => {
    mass += value;
    x += value * (at % SIDE);
    y += value * Math.floor(at / SIDE);
  });
  const centre = (SIDE - 1) / 2;
  return place(Math.round(centre - x / mass), Math.round(centre - y / mass));
}

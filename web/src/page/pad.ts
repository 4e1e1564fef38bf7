/** A pad to draw on, with a mouse, a finger or a pen, or with the keyboard. */

import { element } from "./elements.js";

/** The width of strokes, as a part of the pad's longer side. */
const STROKE = 22 / 280;

/** What differs between pads. */
interface PadOptions {
  width: number;
  height: number;
  /** What it is, for those who do not see it. */
  label: string;
  /** Keys that draw their character. */
  keys: RegExp;
  /** Called when the drawing has changed. */
  changed: () => void;
}

export class Pad {
  readonly canvas: HTMLCanvasElement;
  readonly #pen: CanvasRenderingContext2D;
  readonly #changed: () => void;
  #isDrawn = false;

  constructor({ width, height, label, keys, changed }: PadOptions) {
    this.canvas = element("canvas", {
      class: "draw",
      width: String(width),
      height: String(height),
      tabindex: "0",
      role: "img",
      "aria-label": label,
    });
    this.#pen = context(this.canvas);
    this.#changed = changed;
    Object.assign(this.#pen, { lineWidth: STROKE * Math.max(width, height), lineCap: "round", lineJoin: "round" });
    this.colour = "#fff";
    this.#listen(keys);
  }

  /** Whether there is a drawing. */
  get isDrawn(): boolean {
    return this.#isDrawn;
  }

  set colour(colour: string) {
    Object.assign(this.#pen, { strokeStyle: colour, fillStyle: colour });
  }

  clear(): void {
    this.#pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#isDrawn = false;
    this.#changed();
  }

  /** Shows a picture in place of the drawing, so that strokes come over it. */
  show(picture: HTMLCanvasElement): void {
    this.#pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#pen.drawImage(picture, 0, 0, this.canvas.width, this.canvas.height);
    this.#isDrawn = false;
  }

  /**
   * The ink, as images of MNIST are made: scaled to a box, and centred by its mass in `width` x `height` pixels. A box
   * is a part of the pixels.
   */
  centred(width: number, height: number, box: number): Uint8Array {
    const [padWidth, padHeight] = [this.canvas.width, this.canvas.height];
    const { data } = this.#pen.getImageData(0, 0, padWidth, padHeight);
    let [left, top, right, bottom] = [padWidth, padHeight, -1, -1];
    for (let y = 0; y < padHeight; y += 1) {
      for (let x = 0; x < padWidth; x += 1) {
        if ((data[4 * (y * padWidth + x) + 3] ?? 0) > 0) {
          [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
        }
      }
    }
    if (right < 0) {
      return new Uint8Array(width * height);
    }
    const [inkWidth, inkHeight] = [right - left + 1, bottom - top + 1];
    const scale = Math.min((box * width) / inkWidth, (box * height) / inkHeight);
    const place = (dx: number, dy: number): Uint8Array => {
      const small = context(element("canvas", { width: String(width), height: String(height) }));
      small.imageSmoothingQuality = "high";
      small.drawImage(
        this.canvas,
        left,
        top,
        inkWidth,
        inkHeight,
        (width - inkWidth * scale) / 2 + dx,
        (height - inkHeight * scale) / 2 + dy,
        inkWidth * scale,
        inkHeight * scale,
      );
      const image = small.getImageData(0, 0, width, height).data;
      return Uint8Array.from({ length: width * height }, (_, at) => image[4 * at + 3] ?? 0);
    };
    const first = place(0, 0);
    let [mass, x, y] = [0, 0, 0];
    first.forEach((value, at) => {
      mass += value;
      x += value * (at % width);
      y += value * Math.floor(at / width);
    });
    return mass === 0 ? first : place(Math.round((width - 1) / 2 - x / mass), Math.round((height - 1) / 2 - y / mass));
  }

  #listen(keys: RegExp): void {
    const [canvas, pen] = [this.canvas, this.#pen];
    const at = (event: PointerEvent): [number, number] => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      return [x * canvas.width, y * canvas.height];
    };
    canvas.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      canvas.focus();
      canvas.setPointerCapture(event.pointerId);
      pen.beginPath();
      const [x, y] = at(event);
      pen.moveTo(x, y);
      // A line without length draws no dot.
      pen.lineTo(x + 0.1, y);
      pen.stroke();
      this.#isDrawn = true;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) {
        pen.lineTo(...at(event));
        pen.stroke();
      }
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, this.#changed);
    }
    canvas.addEventListener("keydown", (event) => {
      const { key } = event;
      if (event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      if (keys.test(key)) {
        this.clear();
        const size = Math.min(canvas.width, canvas.height);
        Object.assign(pen, { font: `${size * 0.8}px sans-serif`, textAlign: "center", textBaseline: "middle" });
        pen.fillText(key, canvas.width / 2, canvas.height / 2);
        this.#isDrawn = true;
        this.#changed();
      } else if (key === "Delete" || key === "Backspace") {
        this.clear();
      }
    });
  }
}

/** The picture on a canvas as it is now, which later drawings do not change. */
export function copyOf(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const size = { width: String(canvas.width), height: String(canvas.height) };
  const copy = element("canvas", { class: "seen", ...size, role: "img", "aria-label": "The picture that was asked" });
  context(copy).drawImage(canvas, 0, 0);
  return copy;
}

/** What draws on a canvas, and reads its pixels. */
export function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const found = canvas.getContext("2d", { willReadFrequently: true });
  if (found === null) {
    throw new Error("this browser cannot draw");
  }
  return found;
}

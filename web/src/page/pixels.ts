/** The numbers of pictures: what a model takes for the pixels of a canvas. */

import type { ModelInput } from "../index.js";

/** A side of a picture has so many pixels, at least: smaller inputs are tables of numbers. */
const MIN_SIDE = 6;

/** The size of a picture. */
export interface Size {
  channels: 1 | 3;
  height: number;
  width: number;
}

/** The numbers of the darkest and the brightest pixel of a channel. */
export interface Levels {
  black: number;
  white: number;
}

/** Levels of pictures that models are trained on, for each channel: 0 to 1, -1 to 1, 0 to 255, MNIST, ImageNet. */
const KNOWN: [Levels, ...Levels[]][] = [
  [{ black: 0, white: 1 }],
  [{ black: -1, white: 1 }],
  [{ black: 0, white: 255 }],
  [normalised(0.1307, 0.3081)],
  [normalised(0.485, 0.229), normalised(0.456, 0.224), normalised(0.406, 0.225)],
];

function normalised(mean: number, deviation: number): Levels {
  const level = (value: number): number => Number(((value - mean) / deviation).toFixed(4));
  return { black: level(0), white: level(1) };
}

/** The size of the pictures that an input takes, if its shape is that of a picture: channels, height and width. */
export function sizeOfPicture({ shape, tableRows }: ModelInput): Size | undefined {
  const [channels, height = 0, width = 0] = shape;
  const isPicture = shape.length === 3 && (channels === 1 || channels === 3) && Math.min(height, width) >= MIN_SIDE;
  return isPicture && tableRows === undefined ? { channels, height, width } : undefined;
}

/**
 * The levels of each channel, guessed from the calibrated ranges, which reach a little further than the pixels did: of
 * the known ones those that are in the ranges and use most of them; the ranges themselves, if there are none.
 */
export function guessedLevels(input: ModelInput, { channels, height, width }: Size): Levels[] {
  const reach = Array.from({ length: channels }, (_, channel) => {
    const [from, to] = [channel * height * width, (channel + 1) * height * width];
    const [low, high] = [input.low.slice(from, to), input.high.slice(from, to)];
    return { black: low.reduce((a, b) => Math.min(a, b)), white: high.reduce((a, b) => Math.max(a, b)) };
  });
  const of = (known: [Levels, ...Levels[]], channel: number): Levels => known[channel] ?? known[0];
  const fitting = KNOWN.filter(
    (known) =>
      (known.length === 1 || known.length === channels) &&
      reach.every(
        ({ black, white }, channel) => of(known, channel).black >= black && of(known, channel).white <= white,
      ),
  );
  const [best] = fitting.sort(([a], [b]) => b.white - b.black - (a.white - a.black));
  return reach.map((levels, channel) => (best === undefined ? levels : of(best, channel)));
}

/** The numbers of a picture, channel by channel, of the pixels of a canvas: red, green, blue and opacity. */
export function numbersOfPixels(
  pixels: Uint8ClampedArray,
  { channels, height, width }: Size,
  levels: Levels[],
): Float64Array<ArrayBuffer> {
  const area = height * width;
  const numbers = new Float64Array(channels * area);
  for (let at = 0; at < area; at += 1) {
    const [red = 0, green = 0, blue = 0] = pixels.subarray(4 * at, 4 * at + 3);
    const values = channels === 1 ? [0.299 * red + 0.587 * green + 0.114 * blue] : [red, green, blue];
    values.forEach((value, channel) => {
      const { black, white } = levels[channel] ?? { black: 0, white: 1 };
      numbers[channel * area + at] = black + (value / 255) * (white - black);
    });
  }
  return numbers;
}

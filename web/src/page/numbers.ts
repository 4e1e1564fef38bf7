/** The numbers of one input of a model: its ranges, and rows that a person pastes. */

import type { ModelInput } from "../index.js";

/** The number of numbers of a row. */
export function sizeOf({ shape }: ModelInput): number {
  return shape.reduce((size, axis) => size * axis, 1);
}

/** The name of a number of a row, for people. */
export function nameOf(input: ModelInput, place: number): string {
  const own = input.elements[place];
  if (own !== undefined) {
    return own;
  }
  if (sizeOf(input) === 1) {
    return input.name;
  }
  const places = [];
  let rest = place;
  for (const axis of [...input.shape].reverse()) {
    places.unshift(rest % axis);
    rest = Math.floor(rest / axis);
  }
  return `${input.name} [${places.join(", ")}]`;
}

/** The range of a number for people, rounded so that its ends are in it. */
export function rangeOf(input: ModelInput, place: number): string {
  if (input.tableRows !== undefined) {
    return `a whole number from 0 to ${input.tableRows - 1}`;
  }
  const [low, high] = [input.low[place] ?? Number.NaN, input.high[place] ?? Number.NaN];
  const step = 10 ** (Math.floor(Math.log10(high - low)) - 2);
  const written = (steps: number): string => String(Number((steps * step).toPrecision(12)));
  return `${written(Math.ceil(low / step))} to ${written(Math.floor(high / step))}`;
}

/** The number that is asked in place of one outside its range, if numbers may be moved into their ranges. */
export function moved(input: ModelInput, place: number, value: number): number {
  const [low, high] = [input.low[place] ?? -Infinity, input.high[place] ?? Infinity];
  return Math.min(Math.max(value, low), high);
}

/** Why a number cannot be asked, if it cannot. */
export function problemOf(input: ModelInput, place: number, value: number, clip: boolean): string | undefined {
  const { tableRows } = input;
  const isSound =
    tableRows === undefined
      ? Number.isFinite(value) && (clip || moved(input, place, value) === value)
      : Number.isInteger(value) && value >= 0 && value < tableRows;
  return isSound ? undefined : `needed ${rangeOf(input, place)}`;
}

/**
 * The numbers of a row that a person pastes: a list in JSON, an object in JSON with the names of the elements, or
 * numbers between commas, semicolons, spaces or ends of lines, with a line of names in front if there is one.
 */
export function parsedRow(text: string, input: ModelInput): number[] {
  const written = text.trim();
  const needed = sizeOf(input);
  if (written === "") {
    throw new Error(`${input.name}: type or paste ${needed} numbers first.`);
  }
  const row = /^[[{]/.test(written) ? ofJson(written, input) : ofLines(written, input);
  const wrong = row.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) {
    throw new Error(`${input.name}: found something else than a number at place ${wrong}, needed numbers.`);
  }
  if (row.length !== needed) {
    throw new Error(`${input.name}: found ${row.length} numbers, needed ${needed}.`);
  }
  return row;
}

function ofJson(written: string, input: ModelInput): number[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(written);
  } catch {
    throw new Error(`${input.name}: found text that is no JSON, needed a list of numbers such as [0.25, -1].`);
  }
  if (Array.isArray(parsed)) {
    return parsed.flat(Infinity).map(numberOf);
  }
  const named = new Map(Object.entries(parsed as object));
  return byName([...named.keys()], [...named.values()].map(numberOf), input);
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : Number.NaN;
}

function ofLines(written: string, input: ModelInput): number[] {
  const [first = "", ...rest] = written.split(/\r?\n/).filter((line) => line.trim() !== "");
  const names = cellsOf(first);
  if (first.split(/[\s,;]+/).every((cell) => cell === "" || !Number.isNaN(Number(cell)))) {
    return numbersOf(written);
  }
  return byName(names, numbersOf(rest.join("\n")), input);
}

function numbersOf(text: string): number[] {
  const cells = text.split(/[\s,;]+/).filter((cell) => cell !== "");
  return cells.map(Number);
}

/** The cells of a line of CSV, without the quotes around them. */
function cellsOf(line: string): string[] {
  const cells = line.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,;\t]*))\s*(?:[,;\t]|$)/g);
  const names = Array.from(cells, ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain?.trim() ?? "");
  // The end of the line matches once more, as an empty cell.
  return names.slice(0, -1);
}

/** Numbers in the order of the elements, if these have names; otherwise in their own. */
function byName(names: string[], numbers: number[], input: ModelInput): number[] {
  if (input.elements.length === 0) {
    return numbers;
  }
  if (numbers.length !== names.length) {
    throw new Error(`${input.name}: found ${names.length} names and ${numbers.length} numbers, needed one row.`);
  }
  return input.elements.map((element) => {
    const place = names.indexOf(element);
    if (place < 0) {
      throw new Error(`${input.name}: found no number for ${JSON.stringify(element)}, needed one for each element.`);
    }
    return numbers[place] ?? Number.NaN;
  });
}

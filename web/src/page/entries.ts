/** Where a person gives the numbers of one input of a model: a field for each, or one for all. */

import type { ModelInput } from "../index.js";
import { element } from "./elements.js";
import { moved, nameOf, parsedRow, problemOf, rangeOf, sizeOf } from "./numbers.js";

/** A part of the form. */
export interface Entry {
  shown: HTMLElement;
  /** The numbers of a row. Throws an error for the person if they cannot be asked, and shows where. */
  numbers(): Float64Array | number[];
  /** The numbers for the person, as they were asked. */
  asked(): Node | string;
  /** Shows again which numbers are outside their ranges. */
  refresh(): void;
}

/** Counts the hints, whose ids fields refer to. */
let hints = 0;

/** A hint at a field, which also says what is wrong there. */
export function hintAt(field: HTMLElement): (text: string, isProblem: boolean) => HTMLElement {
  const hint = element("small", { id: `hint-${(hints += 1)}` });
  field.setAttribute("aria-describedby", hint.id);
  const isCanvas = field instanceof HTMLCanvasElement;
  if (isCanvas) {
    hint.setAttribute("role", "status");
  }
  return (text, isProblem) => {
    hint.textContent = text;
    hint.className = isProblem ? "error" : "help";
    if (!isCanvas) {
      field.setAttribute("aria-invalid", String(isProblem));
    }
    return hint;
  };
}

/** A field for each number. A row that is pasted into one of them fills all. */
export function fieldsEntry(input: ModelInput, clip: () => boolean): Entry {
  const size = sizeOf(input);
  const fields = Array.from({ length: size }, (_, place) => fieldOf(input, place, clip));
  fields.forEach(({ field }) => {
    field.addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text/plain") ?? "";
      if (size === 1 || !/[\s,;[{]/.test(text.trim())) {
        return;
      }
      event.preventDefault();
      try {
        parsedRow(text, input).forEach((value, place) => {
          fields[place]?.fill(value);
        });
        pasted.textContent = `${size} numbers were pasted.`;
        pasted.className = "help";
      } catch (error) {
        pasted.textContent = (error as Error).message;
        pasted.className = "error";
      }
    });
  });
  const pasted = element("p", { class: "help", role: "status" });
  const labels = fields.map(({ label }) => label);
  const shown =
    size === 1
      ? element("div", {}, ...labels)
      : element(
          "fieldset",
          {},
          element("legend", {}, input.name),
          element("p", { class: "help" }, "A row that you paste into one of the fields fills all."),
          element("div", { class: "fields" }, ...labels),
          pasted,
        );
  return {
    shown,
    numbers() {
      const problems = fields.map((each) => each.check(true));
      const wrong = problems.findIndex((problem) => problem !== undefined);
      if (wrong >= 0) {
        fields[wrong]?.field.focus();
        throw new Error(`${nameOf(input, wrong)}: ${problems[wrong]}.`);
      }
      return fields.map(({ field }) => field.valueAsNumber);
    },
    asked: () => fields.map(({ field }, place) => `${nameOf(input, place)}: ${field.value}`).join(", "),
    refresh() {
      fields.forEach((each) => each.check(false));
    },
  };
}

interface Field {
  label: HTMLElement;
  field: HTMLInputElement;
  fill(value: number): void;
  /** Shows what is wrong with the number, and returns it. An empty field is wrong if it is `needed`. */
  check(needed: boolean): string | undefined;
}

function fieldOf(input: ModelInput, place: number, clip: () => boolean): Field {
  const field = element("input", {
    type: "number",
    step: input.tableRows === undefined ? "any" : "1",
    inputmode: "decimal",
    autocomplete: "off",
  });
  const hint = hintAt(field);
  const range = rangeOf(input, place);
  const check = (needed: boolean): string | undefined => {
    const value = field.valueAsNumber;
    const isEmpty = Number.isNaN(value) && !field.validity.badInput;
    const problem = isEmpty && !needed ? undefined : problemOf(input, place, value, clip());
    const asked = moved(input, place, value);
    const isMoved = problem === undefined && !isEmpty && asked !== value && input.tableRows === undefined;
    hint(
      problem ?? (isMoved ? `outside ${range}: ${Number(asked.toPrecision(4))} is asked` : range),
      problem !== undefined,
    );
    return problem;
  };
  field.addEventListener("input", () => check(false));
  const label = element("label", {}, nameOf(input, place), field, hint(range, false));
  return {
    label,
    field,
    fill(value) {
      field.value = String(value);
      check(false);
    },
    check,
  };
}

/** One field for all numbers. */
export function textEntry(input: ModelInput, clip: () => boolean): Entry {
  const size = sizeOf(input);
  const field = element("textarea", { rows: "4", autocomplete: "off", spellcheck: "false" });
  const hint = hintAt(field);
  const help = `${size} numbers: a list in JSON, or a line of CSV, also below a line of names`;
  const check = (): { numbers: number[]; problem: string | undefined } => {
    const numbers = parsedRow(field.value, input);
    const { text, isProblem } = reachOf(input, numbers, clip());
    hint(text || help, isProblem);
    return { numbers, problem: isProblem ? text : undefined };
  };
  const refresh = (): void => {
    try {
      check();
    } catch (error) {
      // What is not typed yet is not wrong yet.
      hint(field.value.trim() === "" ? help : (error as Error).message, field.value.trim() !== "");
    }
  };
  // Not when the field is left: the button that is clicked then would move away.
  field.addEventListener("input", refresh);
  return {
    shown: element("label", {}, input.name, field, hint(help, false)),
    numbers() {
      const { numbers, problem } = check();
      if (problem !== undefined) {
        field.focus();
        throw new Error(`${input.name}: ${problem}.`);
      }
      return numbers;
    },
    asked: () => field.value,
    refresh,
  };
}

/** How many numbers are outside their ranges, in words, and whether that is a problem. */
export function reachOf(
  input: ModelInput,
  numbers: ArrayLike<number>,
  clip: boolean,
): { text: string; isProblem: boolean } {
  const places = Array.from(numbers, (_, place) => place);
  const wrong = places.filter((place) => problemOf(input, place, numbers[place] ?? Number.NaN, clip) !== undefined);
  const [first] = wrong;
  if (first !== undefined) {
    const where = `${nameOf(input, first)} is ${numbers[first]}, ${problemOf(input, first, Number.NaN, clip)}`;
    const text = `${wrong.length} of ${numbers.length} numbers cannot be asked; ${where}`;
    return { text, isProblem: true };
  }
  const isOutside = (place: number): boolean => moved(input, place, numbers[place] ?? 0) !== numbers[place];
  const outside = input.tableRows === undefined ? places.filter(isOutside).length : 0;
  const text = outside === 0 ? "" : `${outside} of ${numbers.length} numbers are outside their ranges, and are moved`;
  return { text, isProblem: false };
}

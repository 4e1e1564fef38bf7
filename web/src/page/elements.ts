/** Small helpers to build the page. Text is only ever set as text: nothing from outside is parsed as HTML. */

type Child = Node | string;

/** An element with attributes and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** The element with an id, which the page has. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) {
    throw new Error(`the page has no element ${id}`);
  }
  return found;
}

/** A button that runs `work`, and shows what it throws in `onError`. */
export function button(label: string, work: () => void | Promise<void>, main = false): HTMLButtonElement {
  const made = element("button", main ? { type: "button", class: "main" } : { type: "button" }, label);
  made.addEventListener("click", () => void work());
  return made;
}

/** A list of facts: terms and their values. */
export function facts(rows: [term: string, value: Child][]): HTMLDListElement {
  return element(
    "dl",
    { class: "facts" },
    ...rows.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]),
  );
}

/** A number of bytes for people. */
export function bytes(count: number): string {
  const units = ["bytes", "KB", "MB", "GB"];
  let [size, unit] = [count, 0];
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toPrecision(3)}\u00a0${units[unit]}`;
}

/** A number of bytes for people, which programs can read, too. */
export function byteCount(count: number, id?: string): HTMLElement {
  return element("data", { value: String(count), ...(id === undefined ? {} : { id }) }, bytes(count));
}

/** A time for people. */
export function duration(milliseconds: number): string {
  return milliseconds < 1000
    ? `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)}\u00a0ms`
    : `${(milliseconds / 1000).toFixed(2)}\u00a0s`;
}

/** The first bytes of something longer, as groups of hexadecimal digits. */
export function firstBytes(data: Uint8Array): HTMLElement {
  const groups = hex(data).match(/.{1,8}/g) ?? ["–"];
  return element("code", { class: "hex" }, `${groups.join(" ")} …`);
}

/** Bytes as hexadecimal digits. */
export function hex(data: Uint8Array): string {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

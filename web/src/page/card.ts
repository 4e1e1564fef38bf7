/** The card of one application: what it costs, asking, the answer, and what became of the secret. */

import { type Application, type CallOptions, type Costs, type Progress, UnspokenError } from "../index.js";
import { button, bytes, duration, element, facts, hex } from "./elements.js";

/** What differs between applications. */
export interface View {
  title: string;
  /** Labels of the buttons that ask and cancel, if they are not "Ask privately" and "Cancel". */
  ask?: string;
  cancel?: string;
  /** Buttons beside these. */
  buttons?: HTMLButtonElement[];
  /** The form in which the person asks. */
  form: HTMLElement;
  /** What is asked in the form now. Throws an error for the person if there is nothing. */
  inquiry(): Inquiry;
}

/** What a person asks. */
export interface Inquiry {
  /** Asks. Returns the answer; nothing, if the view has shown it. */
  ask(application: Application, options: CallOptions): Promise<Outcome | undefined>;
  /** The answer in the clear as one line, if the application publishes its model. */
  clear(application: Application): Promise<{ text: string; milliseconds: number }>;
}

/** An answer, and what it took. */
export interface Outcome {
  /** The answer for the person. */
  shown: HTMLElement;
  /** The answer as one line, to compare two. */
  text: string;
  costs: Costs;
  /** Further facts. */
  rows: Facts;
}

type Facts = [term: string, value: Node | string][];

/** Opens the application of a card. */
export type Open = (options: CallOptions) => Promise<Application>;

export class Card {
  readonly element: HTMLElement;
  readonly #view: View;
  readonly #open: Open;
  readonly #done: () => void;
  readonly #answer = element("div", { class: "answer", "aria-live": "polite" });
  readonly #progress = element("div", { role: "status" });
  readonly #details = element("div");
  readonly #ask: HTMLButtonElement;
  readonly #cancel: HTMLButtonElement;
  #application: Application;
  #controller: AbortController | undefined;
  #isLost = false;

  /** A card for an application; `open` opens it again when its secret is gone, `done` is called after each question. */
  constructor(application: Application, view: View, open: Open, done: () => void) {
    this.#application = application;
    this.#view = view;
    this.#open = open;
    this.#done = done;
    this.#ask = button("", () => this.#run(), true);
    this.#cancel = button(view.cancel ?? "Cancel", () => {
      this.#controller?.abort();
    });
    this.#cancel.hidden = true;
    const name = element("small", {}, application.info.name);
    this.element = element(
      "article",
      { class: "card", "data-kind": application.info.kind },
      element("h2", {}, view.title, " ", name),
      view.form,
      element("div", { class: "row" }, this.#ask, this.#cancel, ...(view.buttons ?? [])),
      this.#progress,
      this.#answer,
      this.#details,
    );
    view.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#run();
    });
    this.#showCosts();
  }

  /** Replaces the application, after its secret is gone or other options were chosen. What is shown stays. */
  async reopen(): Promise<void> {
    this.#controller?.abort();
    await this.#guarded(async (options) => {
      this.#application = await this.#open(options);
    });
    this.#showCosts();
  }

  /** Remembers that the secret is gone: the next question opens the application again. */
  lose(): void {
    this.#isLost = true;
  }

  async #run(): Promise<void> {
    if (this.#controller !== undefined) {
      return;
    }
    this.#answer.replaceChildren();
    await this.#guarded(async (options) => {
      const inquiry = this.#view.inquiry();
      if (this.#isLost) {
        this.#application = await this.#open(options);
        this.#isLost = false;
      }
      const start = performance.now();
      const outcome = await inquiry.ask(this.#application, options);
      const total = performance.now() - start;
      if (outcome === undefined) {
        this.#showCosts();
      } else {
        await this.#showAnswer(inquiry, outcome, total);
      }
    });
    this.#done();
  }

  /** Runs work that may be cancelled, shows its progress, and what it throws. */
  async #guarded(work: (options: CallOptions) => Promise<void>): Promise<void> {
    const controller = new AbortController();
    this.#controller = controller;
    this.#ask.disabled = true;
    this.#cancel.hidden = false;
    try {
      await work({
        onProgress: (progress) => {
          this.#showProgress(progress);
        },
        signal: controller.signal,
      });
    } catch (error) {
      const { code, message } = UnspokenError.of(error);
      this.#answer.replaceChildren(
        element("p", { class: code === "cancelled" ? "help" : "error", role: "alert" }, message),
      );
    } finally {
      if (this.#controller === controller) {
        this.#controller = undefined;
        this.#ask.disabled = false;
        this.#cancel.hidden = true;
        this.#progress.replaceChildren();
      }
    }
  }

  #showProgress({ step, done, total, text: soFar }: Progress): void {
    if (soFar !== undefined) {
      this.#answer.replaceChildren(element("p", {}, soFar));
    }
    const isBytes = step === "sending keys";
    const text = total > 1 ? `${step}: ${isBytes ? `${bytes(done)} of ${bytes(total)}` : `${done} of ${total}`}` : step;
    const bar =
      total > 1
        ? element("progress", { max: String(total), value: String(done), "aria-label": step })
        : element("progress", { "aria-label": step });
    this.#progress.replaceChildren(element("p", { class: "help" }, text), bar);
  }

  #showCosts(): void {
    const { info } = this.#application;
    const label = this.#view.ask ?? "Ask privately";
    this.#ask.textContent = info.hasKeys ? label : `${label} (sends ${bytes(info.keyBytes)} of keys first, once)`;
    const weakest = Math.min(...info.objects.map((object) => object.securityBits));
    const rows: Facts = [
      ["A question sends", bytes(info.queryBytes)],
      ["Its answer has", bytes(info.answerBytes)],
      ["Keys", `${bytes(info.keyBytes)}, ${info.hasKeys ? "sent" : "not sent yet"}`],
      ["Security", `${Math.floor(weakest)} bits or more (${info.preset})`],
    ];
    if (info.restored) {
      rows.push(["Secret", "the stored one, opened with your passphrase"]);
    }
    this.#details.replaceChildren(facts(rows), this.#more());
  }

  async #showAnswer(inquiry: Inquiry, { shown, text, costs, rows }: Outcome, total: number): Promise<void> {
    const parts: HTMLElement[] = [shown];
    const { info } = this.#application;
    if (info.hasClear) {
      const clear = await inquiry.clear(this.#application);
      parts.push(
        clear.text === text
          ? element(
              "p",
              { class: "same" },
              `The same as in the clear, computed in this page in ${duration(clear.milliseconds)}.`,
            )
          : element("p", { class: "differs" }, `In the clear, computed in this page: ${clear.text}.`),
      );
    }
    this.#showCosts();
    parts.push(
      facts([
        ["Encrypting here", duration(costs.encryptMilliseconds)],
        ["Decrypting here", duration(costs.decryptMilliseconds)],
        ["Service and network", duration(costs.serviceMilliseconds)],
        ["Making keys here", info.keyMilliseconds > 0 ? `${duration(info.keyMilliseconds)}, once` : "none made"],
        ["All of it", duration(total)],
        ["Sent, received", `${bytes(costs.queryBytes)}, ${bytes(costs.answerBytes)}`],
        ...rows,
      ]),
    );
    this.#answer.replaceChildren(...parts);
  }

  /** Security of each object, and the secret. */
  #more(): HTMLElement {
    const { info } = this.#application;
    const objects = info.objects.map((object) =>
      element(
        "tr",
        {},
        element("td", {}, object.what),
        element("td", { class: "number" }, `2^${Math.log2(object.dimension).toFixed(1).replace(/\.0$/, "")}`),
        element("td", { class: "number" }, `${object.log2Modulus.toFixed(0)} bits`),
        element("td", {}, object.secret),
        element("td", { class: "number" }, `${Math.floor(object.securityBits)} bits`),
      ),
    );
    const heads = ["What the service has", "Dimension", "Modulus", "Secret", "Security"];
    const secret = element(
      "p",
      { class: "help" },
      info.isStored
        ? "The secret key is in the memory of this page, and in this browser, encrypted under your passphrase. "
        : "The secret key is in the memory of this page only. ",
    );
    secret.append(
      button("Show it", async () => {
        const data = await this.#application.secret();
        secret.replaceChildren(
          `${data.length} bytes that never leave this page: `,
          element("code", { class: "hex secret" }, hex(data)),
        );
        data.fill(0);
      }),
    );
    const forget = button("Forget the keys", async () => {
      await this.#guarded(async () => {
        await this.#application.forget();
      });
      await this.reopen();
    });
    return element(
      "details",
      {},
      element("summary", {}, "Security, and the secret"),
      element(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Security of each object" },
        element(
          "table",
          {},
          element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
          element("tbody", {}, ...objects),
        ),
      ),
      secret,
      forget,
    );
  }
}

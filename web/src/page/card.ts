/** The card of one application: asking, the answer, and, folded, what it costs and what became of the secret. */

import { type Application, type CallOptions, type Costs, type Progress, UnspokenError } from "../index.js";
import { button, bytes, duration, element, facts, hex } from "./elements.js";
import { type Happened, inOneLine } from "./happened.js";
import { securityTable } from "./secured.js";
import { Trace } from "./trace.js";

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
  /** The question for the person. */
  asked: Node | string;
  /** The part of the question that the service reads, if there is one. */
  read?: string | undefined;
  /** Asks. Returns the answer; nothing, if the person stopped it. */
  ask(application: Application, options: CallOptions): Promise<Outcome | undefined>;
  /** The answer in the clear as one line, for applications that may publish their model. */
  clear?(application: Application): Promise<{ text: string; milliseconds: number }>;
}

/** An answer, and what it took. */
export interface Outcome {
  /** The answer for the person, unless the view has shown it. */
  shown: HTMLElement | undefined;
  /** The answer as one line, to compare two. */
  text: string;
  costs: Costs;
  /** Further facts. */
  rows: Facts;
}

/** What a card tells the page: the question that was answered; nothing, if none was. */
type Done = (happened: Happened | undefined) => void;

type Facts = [term: string, value: Node | string][];

/** Opens the application of a card. */
export type Open = (options: CallOptions) => Promise<Application>;

export class Card {
  readonly element: HTMLElement;
  readonly #view: View;
  readonly #open: Open;
  readonly #done: Done;
  readonly #answer = element("div", { class: "answer", "aria-live": "polite" });
  readonly #progress = element("div", { role: "status" });
  readonly #secret = element("p", { class: "help" });
  readonly #numbers = element("div");
  readonly #ask: HTMLButtonElement;
  readonly #cancel: HTMLButtonElement;
  #application: Application;
  #controller: AbortController | undefined;
  #isLost = false;
  /** What the last question took. */
  #taken: Facts = [];

  /** A card for an application; `open` opens it again when its secret is gone, `done` is called after each question. */
  constructor(application: Application, view: View, open: Open, done: Done) {
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
      element(
        "div",
        {},
        element("h3", {}, view.title, " ", name),
        view.form,
        element("div", { class: "row" }, this.#ask, this.#cancel, ...(view.buttons ?? [])),
      ),
      element(
        "div",
        {},
        this.#progress,
        this.#answer,
        this.#secret,
        element(
          "details",
          { class: "numbers" },
          element("summary", {}, "Numbers, security, and the secret"),
          this.#numbers,
        ),
      ),
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
    let happened: Happened | undefined;
    await this.#guarded(async (options) => {
      const inquiry = this.#view.inquiry();
      if (this.#isLost) {
        this.#application = await this.#open(options);
        this.#isLost = false;
      }
      happened = await this.#traced(inquiry, options);
      this.#showCosts();
    });
    this.#done(happened);
  }

  /** Asks, shows the answer, and returns what left this page for it. */
  async #traced(inquiry: Inquiry, options: CallOptions): Promise<Happened | undefined> {
    const { info } = this.#application;
    const trace = new Trace(info);
    const start = performance.now();
    try {
      const outcome = await inquiry.ask(this.#application, options);
      if (outcome === undefined) {
        return undefined;
      }
      this.#taken = this.#factsOf(outcome, performance.now() - start);
      const { shown, text, costs } = outcome;
      const { asked: question, read } = inquiry;
      const answer = shown?.cloneNode(true) ?? text;
      const happened = { name: info.name, question, answer, read, trace, milliseconds: costs.serviceMilliseconds };
      await this.#showAnswer(inquiry, outcome, happened);
      return happened;
    } finally {
      trace.end();
    }
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
    this.#secret.textContent = info.restored ? "The secret is the stored one, opened with your passphrase." : "";
    const weakest = Math.min(...info.objects.map((object) => object.securityBits));
    this.#numbers.replaceChildren(
      facts([
        ...this.#taken,
        ["A question sends", bytes(info.queryBytes)],
        ["Its answer has", bytes(info.answerBytes)],
        ["Keys", `${bytes(info.keyBytes)}, ${info.hasKeys ? "sent" : "not sent yet"}`],
        ["Security", `${Math.floor(weakest)} bits or more (${info.preset})`],
      ]),
      securityTable(info.objects),
      this.#theSecret(),
      this.#forgetting(),
    );
  }

  /** What a question took, for the person. */
  #factsOf({ costs, rows }: Outcome, total: number): Facts {
    const { keyMilliseconds } = this.#application.info;
    return [
      ["Encrypting here", duration(costs.encryptMilliseconds)],
      ["Decrypting here", duration(costs.decryptMilliseconds)],
      ["Service and network", duration(costs.serviceMilliseconds)],
      ["Making keys here", keyMilliseconds > 0 ? `${duration(keyMilliseconds)}, once` : "none made"],
      ["All of it", duration(total)],
      ["Sent, received", `${bytes(costs.queryBytes)}, ${bytes(costs.answerBytes)}`],
      ...rows,
    ];
  }

  /** Shows an answer, beside the one in the clear if there is one, and what it took. */
  async #showAnswer(inquiry: Inquiry, { shown, text }: Outcome, happened: Happened): Promise<void> {
    const parts: HTMLElement[] = [];
    if (shown !== undefined) {
      parts.push(shown);
      if (this.#application.info.hasClear && inquiry.clear !== undefined) {
        parts.push(compared(text, await inquiry.clear(this.#application)));
      }
    }
    const more = element("a", { href: "#happened" }, "What the service saw");
    parts.push(element("p", { class: "took" }, inOneLine(happened), " ", more));
    this.#answer.replaceChildren(...parts);
  }

  /** Where the secret is, and a button that shows it. */
  #theSecret(): HTMLElement {
    const secret = element(
      "p",
      { class: "help" },
      this.#application.info.isStored
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
    return secret;
  }

  #forgetting(): HTMLElement {
    return button("Forget the keys", async () => {
      await this.#guarded(async () => {
        await this.#application.forget();
      });
      await this.reopen();
    });
  }
}

/** Whether an answer is the one in the clear. */
function compared(text: string, clear: { text: string; milliseconds: number }): HTMLElement {
  return clear.text === text
    ? element(
        "p",
        { class: "same" },
        `The same as in the clear, computed in this page in ${duration(clear.milliseconds)}.`,
      )
    : element("p", { class: "differs" }, `In the clear, computed in this page: ${clear.text}.`);
}

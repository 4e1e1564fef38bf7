/** A conversation with a model of language, of which the service sees nothing but its length. */

import { type Application, type CallOptions, type Continued, type Message, UnspokenError } from "../index.js";
import type { Inquiry, Outcome, View } from "./card.js";
import { button, bytes, duration, element } from "./elements.js";
import { numberOfTokens, textarea, unprepared } from "./story.js";

/** The view of a model of language that answers messages. */
export function chatView(): View {
  const chat = new Chat();
  return {
    title: "Talk",
    ask: "Send privately",
    cancel: "Stop",
    buttons: chat.buttons,
    form: chat.form,
    inquiry: () => chat.inquiry(),
  };
}

/** A message and its answer, as the page shows them. */
interface Turn {
  messages: [Message, Message];
  shown: HTMLElement[];
}

class Chat {
  readonly form: HTMLFormElement;
  readonly #log = element("div", {
    class: "log",
    role: "log",
    "aria-live": "polite",
    "aria-label": "Conversation",
    tabindex: "0",
  });
  readonly #input = textarea("2");
  readonly #tokens = numberOfTokens("32");
  readonly #system = textarea("2");
  readonly #isPublic = element("input", { type: "checkbox" });
  readonly #edit = button("Edit last message", () => {
    this.#editLast();
  });
  readonly #new = button("New conversation", () => {
    this.#turns.splice(0);
    this.#log.replaceChildren();
    this.#allow();
    this.#input.focus();
  });
  readonly #turns: Turn[] = [];

  constructor() {
    this.#input.setAttribute("aria-keyshortcuts", "Enter");
    this.#input.addEventListener("keydown", (event) => {
      // Enter may also choose a word of an input method.
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.form.requestSubmit();
      }
    });
    const options = element(
      "details",
      {},
      element("summary", {}, "System message, and length"),
      element("label", {}, "System message, if you want one", this.#system),
      element("label", { class: "check" }, this.#isPublic, " The service may read the system message"),
      element("label", {}, "Tokens of an answer, at most; each pass of the service may take a minute", this.#tokens),
    );
    this.form = element(
      "form",
      { class: "chat" },
      this.#log,
      options,
      element("label", {}, "Your message (Enter sends it, Shift and Enter begin a line)", this.#input),
    );
    this.#allow();
  }

  /** What changes the conversation. */
  get buttons(): HTMLButtonElement[] {
    return [this.#edit, this.#new];
  }

  /** The message that was typed, as a question. */
  inquiry(): Inquiry {
    const content = this.#input.value.trim();
    if (content === "") {
      throw new Error("Type a message first.");
    }
    if (!this.#tokens.reportValidity()) {
      throw new Error("Choose a number of tokens from 1 to 256.");
    }
    return {
      asked: content,
      read: this.#isPublic.checked ? this.#system.value.trim() : undefined,
      ask: async (application: Application, options: CallOptions) =>
        await this.#answer(application, { role: "user", content }, options),
    };
  }

  /** Sends a message and shows the answer as it comes: nothing is left to show. What fails gives the message back. */
  async #answer(application: Application, message: Message, options: CallOptions): Promise<Outcome | undefined> {
    const text = element("p");
    const answer = bubble("assistant", text);
    const turn: Turn = { messages: [message, { role: "assistant", content: "" }], shown: [answer] };
    const asked = this.#asked(message);
    const isSystemPublic = asked.publicMessages > 0;
    turn.shown.unshift(bubble("user", element("p", {}, message.content)));
    this.#log.append(...turn.shown);
    this.#scroll();
    this.#turns.push(turn);
    this.#input.value = "";
    this.#allow(false);
    const show = (soFar: string): void => {
      const known = turn.messages[1].content.length;
      if (soFar.length > known) {
        // The new end alone: what is there already must not be read out again.
        text.append(soFar.slice(known));
        turn.messages[1].content = soFar;
        this.#scroll();
      }
    };
    const start = performance.now();
    try {
      const told = await application.answer(asked.messages, {
        publicMessages: asked.publicMessages,
        mostTokens: this.#tokens.valueAsNumber,
        ...options,
        onProgress: ({ text: soFar, ...progress }) => {
          show(soFar ?? "");
          options.onProgress?.(progress);
        },
      });
      show(told.text);
      answer.append(smallPrint(told, performance.now() - start, isSystemPublic));
      return { shown: undefined, text: told.text, costs: told, rows: [] };
    } catch (error) {
      if (UnspokenError.of(error).code === "cancelled" && turn.messages[1].content !== "") {
        answer.append(element("p", { class: "help" }, `Stopped after ${duration(performance.now() - start)}.`));
        return undefined;
      }
      this.#takeBack(turn);
      throw error;
    } finally {
      this.#allow();
      this.#scroll();
    }
  }

  /** All messages up to this one, and how many of them the service may read. */
  #asked(message: Message): { messages: Message[]; publicMessages: number } {
    const system = this.#system.value.trim();
    const front: Message[] = system === "" ? [] : [{ role: "system", content: system }];
    const messages = [...front, ...this.#turns.flatMap(({ messages: both }) => both), message];
    return { messages, publicMessages: this.#isPublic.checked ? front.length : 0 };
  }

  #editLast(): void {
    const last = this.#turns.at(-1);
    if (last !== undefined) {
      this.#takeBack(last);
    }
    this.#allow();
    this.#input.focus();
  }

  /** Takes the last message back into the input, and its answer away. */
  #takeBack(turn: Turn): void {
    this.#turns.pop();
    turn.shown.forEach((shown) => {
      shown.remove();
    });
    // What was typed meanwhile stays.
    this.#input.value = [turn.messages[0].content, this.#input.value].filter(Boolean).join("\n");
  }

  /** Shows the end of the conversation. */
  #scroll(): void {
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  /** Allows what changes the conversation, if there is something to change. */
  #allow(isIdle = true): void {
    this.#edit.disabled = this.#new.disabled = !isIdle || this.#turns.length === 0;
  }
}

/** A message in the conversation. */
function bubble(role: "user" | "assistant", text: HTMLElement): HTMLElement {
  return element(
    "div",
    { class: `bubble ${role}`, role: "group", "aria-label": role === "user" ? "You" : "Model" },
    text,
  );
}

/** What an answer took, and what the service saw of it. */
function smallPrint(told: Continued, milliseconds: number, isSystemPublic: boolean): HTMLElement {
  const passes = told.passes === 1 ? "1 pass" : `${told.passes} passes`;
  const parts = [
    `Tokens: ${told.tokens} in ${passes} and ${duration(milliseconds)}, ${told.guessed} of them guessed.`,
    ...(told.reused > 0 ? [`Not run again: ${told.reused} earlier tokens.`] : []),
    `The service saw ${isSystemPublic ? "the system message, " : ""}the number and the times of the passes, and ` +
      `${bytes(told.queryBytes)} of ciphertext; it sent ${bytes(told.answerBytes)}.`,
    ...(told.end === "context" ? ["The conversation is full: begin a new one."] : []),
    ...unprepared(told.uncovered).map(([, warning]) => `Warning: ${warning}.`),
  ];
  return element("p", { class: "help" }, parts.join(" "));
}

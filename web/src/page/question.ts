/** Views of applications that answer single questions. */

import type { Answer, Application, CallOptions, Question } from "../index.js";
import type { Inquiry, View } from "./card.js";

/** What differs between these applications. */
interface Parts {
  title: string;
  form: HTMLElement;
  /** The question in the form. Throws an error for the person if there is none. */
  question(): Question;
  /** This question for the person, as it was asked. */
  asked(): Node | string;
  /** An answer for the person. */
  show(answer: Answer): HTMLElement;
  /** An answer as one line, to compare two. */
  text(answer: Answer): string;
}

/** The view of an application that answers single questions. */
export function questionView(parts: Parts): View {
  const inquiry = (): Inquiry => {
    const question = parts.question();
    return {
      asked: parts.asked(),
      async ask(application: Application, options: CallOptions) {
        const asked = await application.ask([question], options);
        const [answer] = asked.answers;
        if (answer === undefined) {
          throw new Error("The service gave no answer.");
        }
        return { shown: parts.show(answer), text: parts.text(answer), costs: asked, rows: [] };
      },
      async clear(application: Application) {
        const { answer, milliseconds } = await application.clear(question);
        return { text: parts.text(answer), milliseconds };
      },
    };
  };
  return { title: parts.title, form: parts.form, inquiry };
}

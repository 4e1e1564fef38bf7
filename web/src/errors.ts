import type { Answer, Unanswered } from "./wasm/unspoken_web.js";

/** Questions without an answer that a message names. */
const NAMED = 8;

/** An error of this package. The message says what was found, what was needed and what to do. */
export class UnspokenError extends Error {
  /**
   * A stable name of the reason: that of the service's problem (`key_not_found`, `memory_full`, ...), that of the
   * client half (`argument`, `malformed`, `mismatch`, `unreadable`, ...), or `unreachable`, `cancelled`, `too_long`,
   * `protocol`, `unsupported`, `storage`, `memory`, or `unknown` if a proxy on the way refused a request, not the
   * service.
   */
  readonly code: string;
  /** HTTP status of the service's answer, if it refused a request. */
  readonly status: number | undefined;
  /** Seconds after which the same request may succeed, if it may. */
  readonly retryAfter: number | undefined;

  constructor(code: string, message: string, status?: number, retryAfter?: number) {
    super(message);
    this.name = "UnspokenError";
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** The error for a thrown value of any type. */
  static of(thrown: unknown): UnspokenError {
    if (thrown instanceof UnspokenError) {
      return thrown;
    }
    if (thrown instanceof Error) {
      const code: unknown = "code" in thrown ? thrown.code : undefined;
      return new UnspokenError(typeof code === "string" ? code : "internal", thrown.message);
    }
    return new UnspokenError("internal", String(thrown));
  }
}

/**
 * Questions to a model have no answer, because a number is outside its range, or missing. Others have one. The service
 * has answered all of them alike: do not ask again because of this error, that tells the service. Its code is
 * `argument`.
 */
export class UnansweredError extends UnspokenError {
  /** For each question its answer, or `undefined`. */
  readonly answers: (Answer | undefined)[];
  /** For each question without an answer why it has none; `undefined` for the others. */
  readonly errors: (string | undefined)[];

  constructor(answers: (Answer | undefined)[], errors: (string | undefined)[]) {
    const found = errors.flatMap((error, at) => (error === undefined ? [] : [`question ${at}, ${error}`]));
    const more = found.length > NAMED ? `; and ${found.length - NAMED} more` : "";
    const count = `found ${found.length} of ${errors.length} questions without an answer`;
    const remedy = "this error has the answers to the others. Do not ask a service again because of it";
    super("argument", `${count}; ${remedy}: ${found.slice(0, NAMED).join("; ")}${more}`);
    this.name = "UnansweredError";
    this.answers = answers;
    this.errors = errors;
  }

  /**
   * The answers to all questions, from what the module has read.
   *
   * @throws {UnansweredError} if there is a question without one.
   */
  static all(read: (Answer | Unanswered)[]): Answer[] {
    const answers = read.map((each) => ("error" in each ? undefined : each));
    if (answers.includes(undefined)) {
      throw new UnansweredError(
        answers,
        read.map((each) => ("error" in each ? each.error : undefined)),
      );
    }
    return answers.filter((answer) => answer !== undefined);
  }
}

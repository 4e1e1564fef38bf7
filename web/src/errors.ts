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

/** What a service says of an application. */

import { UnspokenError } from "./errors.js";
import { type Transport, applicationPath } from "./transport.js";

/** Longest published model in bytes. */
const MODEL_BYTES = 512 << 20;

/** The description of an application, and the limits on its keys. */
export interface Offer {
  description: Uint8Array;
  keyFormat: number;
  maxKeyBytes: number;
}

/** Asks for the description of an application. */
export async function described(transport: Transport, name: string, signal: AbortSignal): Promise<Offer> {
  const fields = await transport.json({ purpose: "description", method: "GET", path: applicationPath(name), signal });
  const limits = (fields["limits"] ?? {}) as Record<string, unknown>;
  return {
    description: bytesOf(fields["description"]),
    keyFormat: Number(limits["key_format"] ?? 0),
    maxKeyBytes: Number(limits["max_key_bytes"] ?? 0),
  };
}

/** Asks for the published model of an application, if there is one. */
export async function published(
  transport: Transport,
  name: string,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  try {
    const path = `/v1/models/${encodeURIComponent(name)}`;
    const headers = { Accept: "application/x-protobuf" };
    return (await transport.send({ purpose: "model", method: "GET", path, headers, most: MODEL_BYTES, signal })).body;
  } catch (error) {
    if (UnspokenError.of(error).status === 404) {
      return undefined;
    }
    throw error;
  }
}

/** Bytes of a message of JSON, which are in base64. */
function bytesOf(value: unknown): Uint8Array {
  try {
    return Uint8Array.from(atob(value as string), (letter) => letter.charCodeAt(0));
  } catch {
    throw new UnspokenError("protocol", "found a message without its bytes; is this an Unspoken service?");
  }
}

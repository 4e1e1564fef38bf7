/** Bundles of evaluation keys at a service. It does not know what keys are. */

import { UnspokenError } from "./errors.js";
import { CONTROL_BYTES, type Transport } from "./transport.js";

/** Bytes of keys in one request. */
const PIECE_BYTES = 8 << 20;
/** Times that an upload goes on where the service says, and requests beyond those that the bytes need. */
const MAX_RESUMPTIONS = 20;

/** A bundle to send. */
export interface Bundle {
  application: string;
  keyFormat: number;
  bytes: Blob;
  /** The BLAKE3 hash of the bytes. */
  hash: Uint8Array;
}

/** Sends a bundle and returns its id, once the service has checked it. `report` gets the bytes sent. */
export async function sendBundle(
  transport: Transport,
  bundle: Bundle,
  report: (sent: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const declaration = {
    application: bundle.application,
    key_format: bundle.keyFormat,
    length: bundle.bytes.size,
    blake3: hex(bundle.hash),
  };
  const status = await transport.json({
    purpose: "keys",
    method: "POST",
    path: "/v1/keys",
    headers: { "Content-Type": "application/json" },
    body: new TextEncoder().encode(JSON.stringify(declaration)),
    signal,
  });
  const id = status["id"];
  if (typeof id !== "string" || !/^[0-9a-f]{32}$/.test(id)) {
    throw new UnspokenError("protocol", "keys: found no id in the service's answer; is this an Unspoken service?");
  }
  try {
    await sendBytes(transport, id, bundle.bytes, offsetOf(status, bundle.bytes.size), report, signal);
    const ready = await transport.json({ purpose: "keys", method: "POST", path: `/v1/keys/${id}/complete`, signal });
    if (!isReady(ready)) {
      throw new UnspokenError("protocol", "keys: the service has not accepted them; try again");
    }
    return id;
  } catch (error) {
    await deleteBundle(transport, id);
    throw error;
  }
}

/** Whether the service has a bundle, ready for questions. */
export async function holdsBundle(transport: Transport, id: string, signal: AbortSignal): Promise<boolean> {
  try {
    return isReady(await transport.json({ purpose: "key status", method: "GET", path: `/v1/keys/${id}`, signal }));
  } catch (error) {
    if (UnspokenError.of(error).code === "key_not_found") {
      return false;
    }
    throw error;
  }
}

/** Deletes a bundle. If that fails, it expires. */
export async function deleteBundle(transport: Transport, id: string): Promise<void> {
  const path = `/v1/keys/${id}`;
  await transport.send({ purpose: "delete keys", method: "DELETE", path, most: CONTROL_BYTES }).catch(() => undefined);
}

/** Sends the bytes from an offset on. A piece that broke off goes on where the service says. */
async function sendBytes(
  transport: Transport,
  id: string,
  bytes: Blob,
  offset: number,
  report: (sent: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const path = `/v1/keys/${id}`;
  let [at, requests, resumptions] = [offset, 0, 0];
  const mostRequests = Math.ceil(bytes.size / PIECE_BYTES) + MAX_RESUMPTIONS;
  while (at < bytes.size) {
    report(at);
    requests += 1;
    if (requests > mostRequests) {
      throw new UnspokenError("protocol", "keys: the service takes them in pieces that are too small; do not trust it");
    }
    try {
      const status = await transport.json({
        purpose: "keys",
        method: "PATCH",
        path,
        headers: { "Content-Type": "application/octet-stream", "Upload-Offset": String(at) },
        body: bytes.slice(at, at + PIECE_BYTES),
        signal,
      });
      const next = offsetOf(status, bytes.size);
      if (next <= at) {
        throw new UnspokenError(
          "protocol",
          `keys: the service has ${next} bytes after ${at} were sent; do not trust it`,
        );
      }
      at = next;
    } catch (error) {
      if (error instanceof DOMException && error.name === "NotReadableError") {
        throw new UnspokenError(
          "memory",
          `keys: this browser has no room for their ${bytes.size} bytes; use a window that is not private, in which it may keep them on disk, or the command line or Python`,
        );
      }
      const { code } = UnspokenError.of(error);
      resumptions += 1;
      if (!["offset_mismatch", "body_timeout"].includes(code) || resumptions > MAX_RESUMPTIONS) {
        throw error;
      }
      at = offsetOf(await transport.json({ purpose: "key status", method: "GET", path, signal }), bytes.size);
    }
  }
  report(bytes.size);
}

function offsetOf(status: Record<string, unknown>, size: number): number {
  const offset = status["offset"];
  if (typeof offset !== "number" || !Number.isSafeInteger(offset) || offset < 0 || offset > size) {
    throw new UnspokenError(
      "protocol",
      `keys: found ${String(offset)} bytes sent, needed 0 to ${size}; do not trust it`,
    );
  }
  return offset;
}

function isReady(status: Record<string, unknown>): boolean {
  return status["state"] === "ready";
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

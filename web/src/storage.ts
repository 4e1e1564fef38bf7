/**
 * Sealed secrets in IndexedDB. An entry is written in one transaction, after the service has the keys: a page that is
 * closed in the middle leaves none.
 */

import { UnspokenError } from "./errors.js";

/** What is stored of an application. Nothing in it can be read without the passphrase but names and ids. */
export interface Entry {
  /** The secret, encrypted under a passphrase. */
  sealed: Uint8Array;
  /** The id of the key bundle at the service, and which keys it has. */
  key: string;
  contents: Uint8Array;
  /** The description of the application that was accepted last. */
  description: Uint8Array;
}

/** The version of sealed secrets that the module opens, and where it is in them. */
const SEALED_VERSION = 2;
const VERSION_BYTE = 7;

const DATABASE = "unspoken";
const STORE = "secrets";

/** The stored entry of an application of a service. */
export async function load(url: string, application: string): Promise<Entry | undefined> {
  return await inStore("readonly", (store) => store.get(name(url, application)) as IDBRequest<Entry | undefined>);
}

/**
 * Whether this version sealed the secret of an entry. One that an earlier version sealed was not bound to its service
 * and application: a new secret and new keys take its place with the next question. Its description counts all the
 * same.
 */
export function isCurrent(entry: Entry): boolean {
  return entry.sealed[VERSION_BYTE] === SEALED_VERSION;
}

/** Stores an entry, in place of the earlier one. */
export async function save(url: string, application: string, entry: Entry): Promise<void> {
  await inStore("readwrite", (store) => store.put(entry, name(url, application)));
}

/** Deletes the entry of an application. */
export async function remove(url: string, application: string): Promise<void> {
  await inStore("readwrite", (store) => store.delete(name(url, application)));
}

function name(url: string, application: string): string {
  return `${url} ${application}`;
}

async function inStore<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await opened();
  try {
    return await new Promise<T>((resolve, reject) => {
      const transaction = database.transaction(STORE, mode, { durability: "strict" });
      const request = work(transaction.objectStore(STORE));
      const failed = (): void => reject(refused(transaction.error ?? request.error));
      transaction.oncomplete = (): void => resolve(request.result);
      transaction.onabort = failed;
      transaction.onerror = failed;
    });
  } finally {
    database.close();
  }
}

async function opened(): Promise<IDBDatabase> {
  if (typeof indexedDB === "undefined") {
    throw refused(null);
  }
  return await new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = (): void => {
      request.result.createObjectStore(STORE);
    };
    request.onsuccess = (): void => resolve(request.result);
    request.onerror = (): void => reject(refused(request.error));
    request.onblocked = (): void => reject(refused(request.error));
  });
}

function refused(cause: DOMException | null): UnspokenError {
  const why = cause === null ? "there is no storage" : cause.message;
  return new UnspokenError(
    "storage",
    `the browser stores nothing for this page (${why}); allow storage, or do without a passphrase`,
  );
}

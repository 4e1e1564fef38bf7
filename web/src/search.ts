/**
 * Searching a collection: its index is asked, then documents are fetched by their positions from another application of
 * the same service.
 *
 * What is sent depends on the number of wanted documents alone. As many are fetched as are wanted, whether so many were
 * found or not, and also after an answer that cannot be read. If the collection was changed between the two steps, both
 * are done again: that is known from what is not encrypted, and does not depend on whether answers could be read.
 */

import { UnspokenError } from "./errors.js";
import { summed } from "./exchange.js";
import type { ApplicationInfo, Asked, Costs, Found, FoundDocument, Progress } from "./messages.js";
import { sleep } from "./transport.js";
import type { Collection, Document, Hits, Question, Retrieved, SearchQuestion } from "./wasm/unspoken_web.js";

/** Documents that are fetched, if the caller does not say how many, and at most. */
export const DOCUMENTS = 10;
const MOST_DOCUMENTS = 1000;
/** Seconds before a search is done again, if the collection is changed meanwhile. */
const PAUSES = [0.5, 1.5, 3];

type Report = (progress: Progress) => void;

/** What a search needs of a connection. */
interface Asking {
  readonly info: ApplicationInfo;
  readonly collection: Collection | undefined;
  prepare(report: Report, signal: AbortSignal): Promise<void>;
  ask(
    questions: Question[],
    report: Report,
    signal: AbortSignal,
    arrived: (answers: Uint8Array[]) => void,
  ): Promise<Asked>;
}

/** The connections to an index and to its documents, and what the module knows of documents. */
export interface Parts {
  index: Asking;
  documents: Asking;
  /** Reads a record. */
  documentOf: (record: Uint8Array) => Document | undefined;
  /** Whether an answer with documents has those that an answer with scores can name. */
  hasDocumentsOf: (documents: Uint8Array, scores: Uint8Array) => boolean;
}

/** Finds the documents nearest to a vector or a text, and fetches them. */
export async function find(
  parts: Parts,
  question: SearchQuestion,
  report: Report,
  signal: AbortSignal,
): Promise<Found> {
  const most = question.most ?? DOCUMENTS;
  if (!Number.isInteger(most) || most < 1 || most > MOST_DOCUMENTS) {
    throw new UnspokenError(
      "argument",
      `documents to find: found ${most}, needed a number from 1 to ${MOST_DOCUMENTS}`,
    );
  }
  const { index, documents } = parts;
  if (index.collection === undefined || documents.info.kind !== "retrieve") {
    const found = `${index.info.kind} with documents of kind ${documents.info.kind}`;
    throw new UnspokenError(
      "argument",
      `${index.info.name}: found kind ${found}, needed kind search with kind retrieve`,
    );
  }
  // Before the first question, so that the time of its answer says nothing.
  await documents.prepare(report, signal);
  const costs: Costs[] = [];
  for (const pause of [...PAUSES, undefined]) {
    const found = await findInOneVersion(parts, { ...question, most }, costs, report, signal);
    if (found !== undefined) {
      return { documents: found, ...summed(costs) };
    }
    if (pause !== undefined) {
      await sleep(pause, signal);
    }
  }
  throw new UnspokenError("mismatch", "search: the collection was changed again and again meanwhile; ask again later");
}

/** As `find`; nothing if the index or the documents were changed between both steps. */
async function findInOneVersion(
  { index, documents, documentOf, hasDocumentsOf }: Parts,
  question: SearchQuestion & { most: number },
  costs: Costs[],
  report: Report,
  signal: AbortSignal,
): Promise<FoundDocument[] | undefined> {
  const searched = await outcome((arrived) => index.ask([question], report, signal, arrived));
  const hits = searched.asked === undefined ? [] : hitsOf(searched.asked).slice(0, question.most);
  // A service that makes an answer unreadable must not learn that it was.
  const wanted = Array.from({ length: question.most }, (_, at) => ({ index: hits[at]?.position ?? 0 }));
  const fetched = await outcome((arrived) => documents.ask(wanted, report, signal, arrived));
  costs.push(...[searched.asked, fetched.asked].filter((asked) => asked !== undefined));
  // Which version an answer is from is not encrypted. Before all else: whether both steps are done again must not depend
  // on what was read.
  if (fetched.answers.some((answer) => searched.answers.some((scores) => !hasDocumentsOf(answer, scores)))) {
    return undefined;
  }
  const answers = read(searched, fetched).answers as Retrieved[];
  const found: FoundDocument[] = [];
  for (const [at, hit] of hits.entries()) {
    const document = documentOf(answers[at]?.record ?? new Uint8Array());
    // Otherwise it was removed after the scores were computed.
    if (document !== undefined) {
      found.push({ ...hit, ...document });
    }
  }
  return found;
}

/** Answers that have arrived, and what was read from them: nothing, if that failed. */
interface Arrived {
  answers: Uint8Array[];
  asked: Asked | undefined;
  error: unknown;
}

/** What asking gives. An error before all answers have arrived is thrown: it depends on nothing that is encrypted. */
async function outcome(asking: (arrived: (answers: Uint8Array[]) => void) => Promise<Asked>): Promise<Arrived> {
  let answers: Uint8Array[] | undefined;
  try {
    const asked = await asking((all) => {
      answers = all;
    });
    return { answers: answers ?? [], asked, error: undefined };
  } catch (error) {
    // After a trap the module cannot be used.
    if (answers === undefined || error instanceof WebAssembly.RuntimeError) {
      throw error;
    }
    return { answers, asked: undefined, error };
  }
}

/** What the last step read, or the error of the first step that could not be read. */
function read(...steps: Arrived[]): Asked {
  const unread = steps.find(({ asked }) => asked === undefined);
  const last = steps.at(-1)?.asked;
  if (unread !== undefined || last === undefined) {
    throw unread?.error;
  }
  return last;
}

function hitsOf({ answers }: Asked): Hits["hits"] {
  return (answers[0] as Hits | undefined)?.hits ?? [];
}

/** What a search is, and what it costs, with its documents. */
export function withDocuments(index: ApplicationInfo, documents: ApplicationInfo, fetching: Bytes): ApplicationInfo {
  const names = new Set(index.objects.map((object) => object.what));
  return {
    ...index,
    keyBytes: index.keyBytes + documents.keyBytes,
    hasKeys: index.hasKeys && documents.hasKeys,
    keyMilliseconds: index.keyMilliseconds + documents.keyMilliseconds,
    queryBytes: index.queryBytes + fetching.queryBytes,
    answerBytes: index.answerBytes + fetching.answerBytes,
    objects: [...index.objects, ...documents.objects.filter((object) => !names.has(object.what))],
    restored: documents.restored,
    isStored: documents.isStored,
  };
}

type Bytes = Pick<Costs, "queryBytes" | "answerBytes">;

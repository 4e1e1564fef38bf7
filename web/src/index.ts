export { UnansweredError, UnspokenError } from "./errors.js";
export type {
  AnswerOptions,
  ApplicationInfo,
  Asked,
  Continued,
  Costs,
  Found,
  FoundDocument,
  OpenOptions,
  Progress,
  TextToContinue,
} from "./messages.js";
export { Application, Service, type CallOptions, type ServiceOptions } from "./service.js";
export type { Purpose, RequestRecord } from "./transport.js";
export type {
  Answer,
  Classified,
  Collection,
  DescribedOutput,
  Document,
  Gives,
  Hits,
  Message,
  ModelInput,
  ModelInterface,
  ModelOutput,
  ModelQuestion,
  Predicted,
  Question,
  Recognised,
  Retrieved,
  SamplingOptions,
  SearchQuestion,
  SecuredObject,
} from "./wasm/unspoken_web.js";

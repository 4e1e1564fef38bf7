export { UnspokenError } from "./errors.js";
export type { ApplicationInfo, Asked, Continued, Costs, OpenOptions, Progress, TextToContinue } from "./messages.js";
export { Application, Service, type CallOptions, type ServiceOptions } from "./service.js";
export type { Purpose, RequestRecord } from "./transport.js";
export type { Answer, Classified, Question, Recognised, Retrieved, SecuredObject } from "./wasm/unspoken_web.js";

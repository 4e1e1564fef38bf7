// Runs a WebAssembly program with the WASI of Node.js: node scripts/run_wasi.mjs PROGRAM.wasm [ARGUMENT...]
// Cargo calls it for tests: CARGO_TARGET_WASM32_WASIP1_RUNNER="node scripts/run_wasi.mjs".

import { readFile } from "node:fs/promises";
import { argv, env, exit } from "node:process";
import { WASI } from "node:wasi";

const [program, ...parameters] = argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [program, ...parameters], env, preopens: { "/": "/" } });
const module = await WebAssembly.compile(await readFile(program));
exit(wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject())));

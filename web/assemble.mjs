// Puts the page together: `static` and the compiled scripts, with compressed copies beside the files.

import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { cpSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = import.meta.dirname;
const site = join(root, "site");
const COMPRESSED = /\.(js|wasm|css|html|svg)$/;

cpSync(join(root, "src/wasm"), join(root, "dist/wasm"), { recursive: true });
rmSync(site, { recursive: true, force: true });
cpSync(join(root, "static"), site, { recursive: true });
cpSync(join(root, "dist"), site, { recursive: true, filter: (path) => !path.endsWith(".d.ts") });

let [files, bytes, compressed] = [0, 0, 0];
for (const name of readdirSync(site, { recursive: true })) {
  const path = join(site, name);
  if (!statSync(path).isFile() || !COMPRESSED.test(name)) {
    continue;
  }
  const content = readFileSync(path);
  const brotli = brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: content.length } });
  writeFileSync(`${path}.br`, brotli);
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  [files, bytes, compressed] = [files + 1, bytes + content.length, compressed + brotli.length];
  if (name.endsWith(".wasm")) {
    console.log(`${name}: ${content.length} bytes, ${brotli.length} compressed`);
  }
}
console.log(`page: ${files} files in web/site, ${bytes} bytes, ${compressed} compressed`);

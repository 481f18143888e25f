// The browser's check over exports that were made of the corpus of journal: what it finds, a
// line for each export. Usage: corpus.mjs KEYS FOLDER...
import { createHash, webcrypto } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { verify } from "../../../web/page/assets/verify.js";

const [keys, ...folders] = process.argv.slice(2);
const trusted = readdirSync(keys).map((name) => "sha256:" + createHash("sha256").update(Buffer.from(readFileSync(join(keys, name), "utf8").trim(), "hex")).digest("hex"));

// packed is a folder as the page hands it out.
function packed(folder) {
  const parts = [];
  for (const name of readdirSync(folder, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => join(f.parentPath ?? f.path, f.name).slice(folder.length)).sort()) {
    const data = readFileSync(folder + name), header = Buffer.alloc(512);
    header.write("run" + name);
    header.write(data.length.toString(8).padStart(11, "0"), 124);
    parts.push(header, data, Buffer.alloc((512 - (data.length % 512)) % 512));
  }
  return Buffer.concat([...parts, Buffer.alloc(1024)]);
}

// pieces cuts bytes where no record, name or number ends.
function pieces(all, size) {
  let at = 0;
  return async () => (at < all.length ? all.subarray(at, (at += size)) : undefined);
}

const look = async (all, subtle) => (await verify(pieces(all, 4093), { trusted, subtle })).faults.map((f) => `${f.code} ${f.seq} ${f.file}`);

for (const folder of folders) {
  const all = packed(folder);
  console.log(JSON.stringify({ name: basename(folder), found: await look(all, webcrypto.subtle), bare: all.length < 1 << 20 ? await look(all, undefined) : undefined }));
}

// Verifies an export by the rules of journal/README.md: chain, signatures, blobs, files. It
// shares nothing with the server's own verifier, and runs in a worker: records are looked at
// as they arrive, so that a long journal needs no more memory than a short one. The fields of
// an envelope's body and the program are not looked at: that is the server's part.
import { byUser, envelopes, isDigest, isObject, isWhole, parse, terminal } from "./verify-record.js";
import { sha256 } from "./verify-hash.js";
import { files } from "./verify-tar.js";

const maxRecord = 64 << 20, maxBlob = 16 << 20, listed = 50;

const isKey = (v) => typeof v === "string" && /^(?!0{64})[0-9a-f]{64}$/.test(v);
const isFork = (v) => isObject(v) && Object.keys(v).length === 3 && /^[A-Za-z0-9_-]{1,128}$/.test(v.run) && isWhole(v.seq) && isDigest(v.hash);
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (h) => parseInt(h, 16));
const digestOf = (bytes) => "sha256:" + Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const join = (...parts) => {
  const all = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
};

// Journal is one pass over one file of records.
class Journal {
  constructor(file, run, o) {
    Object.assign(this, { file, run, o, seq: 0, records: 0, head: new Uint8Array(32), prev: new Uint8Array(32), envelopes: 0, covered: 0, after: 0, keys: {}, blobs: [], faults: [], done: false });
  }

  report(code, seq, more) {
    this.faults.push({ code, seq, file: this.file, ...more });
  }

  async read(chunks) {
    let rest = [], size = 0; // what has come of a line that has not ended
    for await (const chunk of chunks) {
      if (this.done) continue;
      let from = 0;
      for (let end; (end = chunk.indexOf(10, from)) >= 0; from = end + 1) {
        await this.add(join(...rest, chunk.subarray(from, end)), true);
        rest = [];
        size = 0;
      }
      rest.push(chunk.subarray(from));
      size += chunk.length - from;
      if (size > maxRecord) {
        this.meet(0);
        this.report("malformed", this.seq);
        this.done = true;
        rest = [];
      }
    }
    const line = join(...rest);
    if (line.length) await this.add(line, false);
    if (this.after) this.report("tail_uncovered", this.after);
  }

  meet(seq) {
    this.seq = seq || this.seq + 1;
    if (this.ended) this.after ||= this.seq;
  }

  async add(line, whole) {
    const due = this.seq + 1, before = this.head;
    this.records++;
    let r = {}, blobs = [], fault = "malformed";
    const hashed = this.o.sha(join(before, line)); // elsewhere, while the record is read here
    try {
      if (whole) ({ r, blobs, fault } = parse(line));
    } catch {} // whatever it is, it is not a record
    this.head = await hashed;
    this.meet(r.seq);
    let more;
    if (!fault) {
      this.run ||= r.run;
      if (r.kind === "intent.draft" && !this.drafted) await this.publish(r.body);
      [fault, more] = await this.check(line, r, due, before);
      for (const [digest, size] of blobs) this.blobs.push({ digest, size, seq: this.seq, file: this.file });
      if (envelopes.has(r.kind)) {
        this.prev = await this.o.sha(line);
        this.envelopes++;
        this.ended ||= terminal.has(r.kind);
        this.covered = this.seq;
      }
    }
    if (fault) this.report(fault, this.seq, more);
    this.o.tell?.(this, envelopes.has(r.kind), fault);
  }

  async publish(body) {
    this.drafted = true;
    for (const role of ["user", "executor"]) {
      const key = isObject(body?.keys) ? body.keys[role] : undefined;
      if (!isKey(key)) continue;
      const raw = bytesOf(key);
      this.keys[role] = { hex: key, id: digestOf(await this.o.sha(raw)), use: await this.o.key(raw) };
    }
    if (isFork(body?.fork_of)) this.fork = body.fork_of;
  }

  async check(line, r, due, before) {
    const signed = envelopes.has(r.kind);
    let role, unsigned;
    if (signed) {
      [role, unsigned] = await this.signer(line, r);
      if (!unsigned && isDigest(r.head) && r.run === this.run) this.head = await this.o.sha(join(bytesOf(r.head.slice(7)), line));
    }
    if (r.run !== this.run) return ["other_run"];
    if (r.seq !== due) return ["gap", { due }];
    return unsigned ? [unsigned] : signed ? this.checkEnvelope(r, role, before) : [];
  }

  // signer is whose key signed an envelope, and what is wrong with that.
  async signer(line, r) {
    const role = Object.keys(this.keys).find((role) => this.keys[role].id === r.key && this.o.trusted.includes(r.key));
    if (!role) return [role, "unknown_key"];
    if (!r.sig) return [role, "signature_missing"];
    const sig = decode64(r.sig);
    if (!sig) return [role, "signature_invalid"];
    const { use } = this.keys[role];
    if (!use) return [role]; // this browser cannot tell
    return [role, (await this.o.subtle.verify("Ed25519", use, sig, join(line.subarray(0, -104), line.subarray(-7)))) ? undefined : "signature_invalid"];
  }

  checkEnvelope(r, role, before) {
    const user = byUser.has(r.kind);
    const behalf = typeof r.body?.on_behalf_of === "string" && r.body.on_behalf_of !== "";
    if (r.from !== role || (role === "user" ? !user || behalf : user && !behalf)) return ["wrong_principal"];
    if (r.prev !== digestOf(this.prev)) return ["prev", { since: this.covered }];
    if (r.head !== digestOf(before)) return ["head", { since: this.covered }];
    return [];
  }
}

// decode64 is strict: 88 characters, and the one spelling of their 64 bytes.
function decode64(text) {
  if (!/^[A-Za-z0-9+/]{86}==$/.test(text)) return undefined;
  const raw = atob(text);
  return btoa(raw) === text ? Uint8Array.from(raw, (c) => c.charCodeAt(0)) : undefined;
}

// verify looks at an export. next gives its bytes piece by piece; trusted are ids of keys;
// subtle is WebCrypto, without which hashes are made here and signatures are not looked at.
export async function verify(next, { trusted, subtle, tell }) {
  const sha = subtle ? async (b) => new Uint8Array(await subtle.digest("SHA-256", b)) : async (b) => sha256(b);
  let able = Boolean(subtle);
  const key = async (raw) => subtle?.importKey("raw", raw, "Ed25519", false, ["verify"]).catch(() => void (able = false));
  const o = { trusted, subtle, sha, key };
  const main = new Journal("records.ndjson", undefined, { ...o, tell });
  const found = { texts: new Map(), blobs: new Map(), bases: new Map(), names: [] };
  for await (const f of files(next)) {
    found.names.push(f.name);
    const base = /^base\/([^/]+)\.ndjson$/.exec(f.name)?.[1];
    if (f.name === main.file) await main.read(f.chunks());
    else if (base) {
      const journal = new Journal(f.name, base, o);
      await journal.read(f.chunks());
      found.bases.set(base, journal);
    } else if (/^blobs\/[0-9a-f]{64}$/.test(f.name) ) found.blobs.set(f.name.slice(6), { digest: f.size <= maxBlob ? digestOf(await sha(await f.bytes())) : "", size: f.size });
    else if (/^(head\.json|keys\/(user|executor)\.pub)$/.test(f.name) && f.size < 4096) found.texts.set(f.name, new TextDecoder().decode(await f.bytes()));
  }
  const faults = settle(main, found);
  return { run: main.run, records: main.records, seq: main.seq, head: digestOf(main.head), envelopes: main.envelopes, keys: Object.values(main.keys).map((k) => k.id), signatures: able, blobs: found.blobs.size, total: faults.length, faults: faults.slice(0, listed) };
}

// settle holds the records against head.json, the bases, the keys, the blobs and the files.
function settle(main, found) {
  const all = [...main.faults], expected = new Set([main.file, "head.json"]), blobs = [...main.blobs];
  const report = (code, seq, file) => all.push({ code, seq, file });
  const head = `{"envelopes":${main.envelopes},"hash":"${digestOf(main.head)}","run":${JSON.stringify(main.run ?? "")},"seq":${main.seq}}`;
  if (found.texts.get("head.json") !== head) report("truncated", main.seq, "head.json");
  const seen = new Set([main.run]);
  for (let fork = main.fork; fork && !seen.has(fork.run); ) {
    seen.add(fork.run);
    const file = `base/${fork.run}.ndjson`, base = found.bases.get(fork.run);
    expected.add(file);
    if (base) {
      all.push(...base.faults);
      blobs.push(...base.blobs);
    }
    if (base?.seq !== fork.seq || digestOf(base.head) !== fork.hash) report("truncated", base?.seq ?? 0, file);
    fork = base?.fork;
  }
  for (const [role, key] of Object.entries(main.keys)) {
    const file = `keys/${role}.pub`;
    expected.add(file);
    if (found.texts.get(file) !== key.hex + "\n") report("unknown_key", 0, file);
  }
  const once = new Map(), differ = [];
  for (const b of blobs) if (!once.has(`${b.digest} ${b.size}`)) once.set(`${b.digest} ${b.size}`, b);
  for (const b of once.values()) {
    const name = b.digest.slice(7), have = found.blobs.get(name);
    expected.add("blobs/" + name);
    if (!have) report("blob_missing", b.seq, b.file);
    else if (have.digest !== b.digest || (b.size ?? have.size) !== have.size) differ.push(b);
  }
  for (const b of differ) report("blob_mismatch", b.seq, b.file);
  // A folder that is not one of an export is one fault, whatever is in it.
  const shown = (name) => name.split("/").slice(0, /^(base|blobs|keys)\//.test(name) ? 2 : 1).join("/");
  for (const name of new Set(found.names.filter((name) => !expected.has(name)).map(shown))) report("file_unexpected", 0, name);
  return all;
}

// In a worker: one message names the export, many tell how far it is, the last what was found.
if (globalThis.WorkerGlobalScope) {
  addEventListener("message", async ({ data }) => {
    try {
      const res = await fetch(data.address, { cache: "no-store" });
      if (!res.ok) throw new Error(res.status === 429 ? "another proof of this session is under way" : "the export is answered " + res.status);
      const reader = res.body.getReader();
      const marks = { signed: [], wrong: [] };
      let told = 0;
      const tell = (journal, signed, fault) => {
        if (fault) marks.wrong.push(journal.seq);
        else if (signed) marks.signed.push(journal.seq);
        if (performance.now() - told < 50) return;
        told = performance.now();
        postMessage({ seq: journal.seq, records: journal.records, ...marks });
        marks.signed = [];
        marks.wrong = [];
      };
      const report = await verify(async () => (await reader.read()).value, { trusted: data.trusted, subtle: globalThis.crypto?.subtle, tell });
      postMessage({ seq: report.seq, records: report.records, ...marks, report });
    } catch (e) {
      postMessage({ failed: e.message });
    }
  });
}

// Records as journal/README.md spells them: what one is, what it names, and whether it is
// spelled as it must be.
const order = ["at", "body", "epoch", "from", "head", "id", "key", "kind", "n", "note", "path", "prev", "run", "seq", "sig", "v"];
const always = ["at", "body", "kind", "path", "run", "seq", "v"];
const ofPlain = ["epoch", "n", "note"];
const ofEnvelope = ["from", "head", "id", "key", "prev"];
export const byUser = new Set(["intent.answer", "intent.accept", "intent.cancel", "policy.gate.resolve"]);
export const envelopes = new Set([...byUser, "intent.draft", "intent.compiled", "intent.clarify", "plan.proposed", "intent.correct", "intent.dispatch", "intent.attest", "intent.fail", "policy.gate"]);
export const terminal = new Set(["intent.attest", "intent.fail", "intent.cancel"]);

export const isDigest = (v) => typeof v === "string" && /^sha256:[0-9a-f]{64}$/.test(v);
export const isWhole = (v) => Number.isSafeInteger(v) && v >= 1;
export const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

class Malformed extends Error {}
const must = (ok) => {
  if (!ok) throw new Malformed();
};

// canonical is the RFC 8785 form, which is how this language prints JSON but for the order.
export function canonical(v) {
  if (typeof v === "string") must(v.isWellFormed());
  if (Array.isArray(v)) return "[" + v.map(canonical).join(",") + "]";
  if (!isObject(v)) return JSON.stringify(v);
  return "{" + Object.keys(v).sort().map((name) => canonical(name) + ":" + canonical(v[name])).join(",") + "}";
}

function isTime(v) {
  return typeof v === "string" && /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{9}Z$/.test(v) && new Date(v.slice(0, 19) + "Z").toISOString().startsWith(v.slice(0, 10));
}

function fits(name, v) {
  if (name === "body") return true;
  if (name === "at") return isTime(v);
  if (name === "v") return typeof v === "number";
  if (name === "note") return v === true;
  if (["epoch", "n", "seq"].includes(name)) return isWhole(v);
  return typeof v === "string" && v.isWellFormed();
}

// parse reads one line: the record, the blobs that it names, and its fault if it has one.
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
export function parse(line) {
  const text = utf8.decode(line);
  const r = JSON.parse(text);
  must(isObject(r));
  const names = Object.keys(r);
  must(names.every((name, i) => order.includes(name) && fits(name, r[name]) && (!i || order.indexOf(names[i - 1]) < order.indexOf(name))));
  const version = "v" in r ? /"v":([^,:]+)\}$/.exec(text)?.[1] : "1";
  const spelled = (name) => JSON.stringify(name) + ":" + (name === "v" ? version : JSON.stringify(r[name]));
  const signed = envelopes.has(r.kind);
  let blobs = [];
  if ("body" in r) {
    const at = names.indexOf("body");
    const before = "{" + names.slice(0, at).map((n) => spelled(n) + ",").join("") + '"body":', after = names.slice(at + 1).map((n) => "," + spelled(n)).join("") + "}";
    const body = text.slice(before.length, text.length - after.length);
    must(text.length > before.length + after.length && text.startsWith(before) && text.endsWith(after) && !/^[ \t\n\r]|[ \t\n\r]$/.test(body));
    JSON.parse(body);
    if (signed) must(canonical(r.body) === body);
    if ("kind" in r) blobs = named(r, body);
  } else must(text === "{" + names.map(spelled).join(",") + "}");
  if ("kind" in r) must(!names.some((name) => (signed ? ofPlain : [...ofEnvelope, "sig"]).includes(name)));
  if (version !== "1") return { r, fault: "version" };
  if ((signed ? [...always, ...ofEnvelope] : always).some((name) => !(name in r))) return { r, fault: "field_missing" };
  return { r, blobs };
}

// members are those of the object that a text is, spelled, and repeated ones as well.
function members(text) {
  const all = [];
  let depth = 0, name, from = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]/g)) {
    if ("[{".includes(token)) depth++;
    else if (depth === 1 && token === ":") [name, from] = [JSON.parse(text.slice(from, index)), index + 1];
    else if (depth === 1 && "},".includes(token) && name !== undefined) {
      all.push([name, text.slice(from, index).trim()]);
      name = undefined;
    }
    if ("]}".includes(token)) depth--;
    if (depth === 1 && "{,".includes(token)) from = index + 1;
  }
  return text[0] === "{" ? all : [];
}

const reference = /^\{"\$blob":"(sha256:[0-9a-f]{64})","size":([1-9][0-9]{0,15})\}$/;
const referred = (text) => {
  const found = reference.exec(text);
  return found && isWhole(Number(found[2])) ? [found[1], Number(found[2])] : undefined;
};

// named are the blobs that a record names: digest and, of a reference, size. What looks like a
// reference in a payload's place and is none makes the record malformed.
function named(r, body) {
  if (!envelopes.has(r.kind) && !/blob|\\u|"keep"|"frozen"|_digest"/.test(body)) return [];
  const signed = envelopes.has(r.kind), keeps = ["run.continued", "effect.finished"].includes(r.kind), names = signed || ["run.correction_requested", "draft.updated"].includes(r.kind);
  const payloads = r.note ? [body] : [], documents = [];
  for (const [name, text] of members(body)) {
    if (!r.note) {
      if ((signed ? ["inputs", "prose", "subject", "answer"] : ["value", "input", "state"]).includes(name)) payloads.push(text);
      else if (name === "error" && !signed) payloads.push(...members(text).filter(([inner]) => inner === "detail").map(([, detail]) => detail));
    }
    if (names && ["program_digest", "skill_digest"].includes(name) || signed && name === "outputs_digest") documents.push(JSON.parse(text));
    else if (names && name === "frozen") documents.push(...members(text).map(([, digest]) => JSON.parse(digest)));
    else if (keeps && name === "keep") documents.push(...[JSON.parse(text)].flat());
  }
  must(payloads.every((p) => referred(p) || !members(p).some(([name]) => name === "$blob")));
  return [...payloads.map(referred).filter(Boolean), ...documents.filter(isDigest).map((d) => [d])];
}

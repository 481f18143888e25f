// Puts finished parts in place. Markup comes from the server alone: this is the one file that
// makes elements of text, and the text is that of a response of /ui. The one script that may
// be started besides those of the page is the verifier beside this file.
import { tellTimes } from "./times.js";

const verifier = new URL("verify.js", import.meta.url).href;
const rules = { createHTML: (text) => text, createScriptURL: () => verifier };
const trust = globalThis.trustedTypes?.createPolicy("tipstaff", rules) ?? rules;
export const startVerifier = () => new Worker(trust.createScriptURL(verifier), { type: "module" });
const served = new WeakMap(); // elements with a key, and the markup they were made of
const latest = new Map(); // of each part, what it is to show
let waiting = false; // something in use was left as it was

// remember keeps how the page came, before scripts rewrite its times.
export function remember(root = document) {
  for (const e of root.querySelectorAll("[data-key]")) served.set(e, e.outerHTML);
}

// made is the elements of a text of the server.
export function made(html) {
  const box = document.createElement("template");
  box.innerHTML = trust.createHTML(html);
  remember(box.content);
  return box.content;
}

export const parts = () => [...document.querySelectorAll('[id^="part-"]:not([data-still])')].map((e) => e.id.slice("part-".length));

// apply shows a part: its name, and the markup inside of it.
export function apply(name, html) {
  const part = document.getElementById("part-" + name);
  if (!part) return;
  latest.set(name, html);
  steady(() => patch(part, made(html)));
  tellTimes(part);
  document.dispatchEvent(new CustomEvent("tipstaff:part", { detail: name }));
}

// steady keeps what is looked at where it is on the screen, whatever changes above it. Not all
// browsers do so, and none always: the style sheet switches their own way off.
export function steady(change) {
  const at = scrollY > 0 ? document.elementFromPoint(innerWidth / 2, innerHeight / 2) : null;
  const top = at?.getBoundingClientRect().top;
  change();
  if (at?.isConnected) scrollBy({ top: at.getBoundingClientRect().top - top, behavior: "instant" });
}

// applyWrapped applies what the stream sends: the element of the part around its markup. It
// gives the name of the part, and which version it is.
export function applyWrapped(text) {
  const [, name, version, html] = /^<div id="part-([a-z-]+)" data-v="([0-9a-f]+)">\n([^]*)<\/div>$/.exec(text);
  apply(name, html);
  return { name, version };
}

// Rows that were in use when they changed are brought up to date once they are left.
function left() {
  if (!waiting) return;
  waiting = false;
  latest.forEach((html, name) => apply(name, html));
}
document.addEventListener("focusout", () => setTimeout(left));
document.addEventListener("selectionchange", () => getSelection().isCollapsed && left());

function patch(old, next) {
  const keyed = new Map([...old.children].filter((c) => c.dataset.key).map((c) => [c.dataset.key, c]));
  const wanted = new Set([...next.children].map((c) => c.dataset.key));
  const stays = (node) => node?.dataset?.gone !== undefined && !wanted.has(node.dataset.key);
  let at = old.firstChild;
  for (const want of [...next.childNodes]) {
    for (; stays(at); at = at.nextSibling) became(at);
    const key = want.dataset?.key;
    const have = key ? keyed.get(key) : at && alike(at, want) ? at : undefined;
    if (!have) {
      old.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else if (old.moveBefore) old.moveBefore(have, at);
    else old.insertBefore(have, at);
    fit(have, want);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    if (stays(gone)) became(gone);
    else if (inUse(gone)) waiting = true;
    else gone.remove();
  }
}

// became asks, once, what has become of a row that has left its list, and shows that in its
// place until the next visit. Without an answer the row goes.
async function became(row) {
  const from = row.dataset.gone;
  if (!from) return;
  row.dataset.gone = "";
  const res = await fetch(from, { cache: "no-store" }).catch(() => undefined);
  const [now] = res?.ok ? made(await res.text()).children : [];
  if (inUse(row) || !res?.ok) {
    row.dataset.gone = from; // for the next time
    waiting = true;
  } else if (now) steady(() => fit(row, now));
  else row.remove();
  tellTimes(row);
}

const fields = ["input", "textarea", "select"];
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.dataset?.key && !b.dataset?.key && a.id === b.id && a.getAttribute?.("action") === b.getAttribute?.("action");

// fit makes one node like another. Fields keep what was typed, details stay as they are, and a
// form in use is never replaced.
function fit(have, want) {
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.data === want.data) return;
    if (selected(have)) waiting = true;
    else have.data = want.data;
    return;
  }
  if (have.dataset.key) {
    const same = have.dataset.v && want.dataset.v ? have.dataset.v === want.dataset.v : served.get(have) === served.get(want);
    if (same) return;
    if (inUse(have) && !within(have)) {
      waiting = true;
      return;
    }
    served.set(have, served.get(want));
  }
  if (have.localName === "form" && inUse(have)) {
    waiting = true;
    return;
  }
  if (fields.includes(have.localName) && have.type !== "hidden") return;
  if (have.localName === "time" && have.dateTime === want.dateTime) return;
  const own = (name) => have.localName === "details" && name === "open"; // whoever reads has chosen
  for (const { name, value } of [...want.attributes]) if (have.getAttribute(name) !== value && !own(name)) have.setAttribute(name, value);
  for (const { name } of [...have.attributes]) if (!want.hasAttribute(name) && !own(name)) have.removeAttribute(name);
  patch(have, want);
}

// selected reports whether a node holds some of a selection.
function selected(node) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(node, true);
}

const fieldsOf = "textarea, input:not([type=hidden], [form])"; // a box that chooses a row keeps nothing from changing
const typed = (f) => f.value !== f.defaultValue || f.checked !== f.defaultChecked;

// inUse reports whether somebody works with an element: focus, a selection or typed text.
function inUse(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return selected(node);
  return node.contains(document.activeElement) || selected(node) || [...node.querySelectorAll(fieldsOf)].some(typed);
}

// within reports whether a row is in use only by rows inside of it.
function within(row) {
  const inner = [...row.querySelectorAll("[data-key]")].filter((r) => r.parentElement.closest("[data-key]") === row);
  const anchor = getSelection()?.anchorNode;
  const focus = getSelection()?.focusNode;
  const holds = (n) => inner.some((r) => r.contains(n));
  const active = document.activeElement;
  return (!row.contains(active) || holds(active)) && (!selected(row) || holds(anchor) && holds(focus)) && ![...row.querySelectorAll(fieldsOf)].some((f) => typed(f) && !holds(f));
}

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

// remember keeps how the page came, before scripts rewrite its times.
export function remember(root = document) {
  for (const e of root.querySelectorAll("[data-key]")) served.set(e, e.outerHTML);
}

export const parts = () => [...document.querySelectorAll('[id^="part-"]:not([data-still])')].map((e) => e.id.slice("part-".length));

// apply shows a part: its name, and the markup inside of it.
export function apply(name, html) {
  const part = document.getElementById("part-" + name);
  if (!part) return;
  latest.set(name, html);
  const made = document.createElement("template");
  made.innerHTML = trust.createHTML(html);
  remember(made.content);
  patch(part, made.content);
  tellTimes(part);
  document.dispatchEvent(new CustomEvent("tipstaff:part", { detail: name }));
}

// wrapped applies what the stream sends: the element of the part around its markup.
export function applyWrapped(text) {
  const found = /^<div id="part-([a-z-]+)">\n([^]*)<\/div>\n?$/.exec(text);
  if (found) apply(found[1], found[2]);
}

// Rows that were in use when they changed are brought up to date once they are left.
document.addEventListener("focusout", () => setTimeout(() => latest.forEach((html, name) => apply(name, html))));

function patch(old, next) {
  const keyed = new Map([...old.children].filter((c) => c.dataset.key).map((c) => [c.dataset.key, c]));
  let at = old.firstChild;
  for (const want of [...next.childNodes]) {
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
    if (!inUse(gone)) gone.remove();
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.dataset?.key && !b.dataset?.key && a.id === b.id;

// fit makes one node like another. Fields keep what was typed, details stay open, and a form
// is never replaced.
function fit(have, want) {
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  if (have.dataset.key) {
    const same = have.dataset.v && want.dataset.v ? have.dataset.v === want.dataset.v : served.get(have) === served.get(want);
    if (same || inUse(have)) return;
    served.set(have, served.get(want));
  }
  if (["form", "input", "textarea", "select"].includes(have.localName)) return;
  if (have.localName === "time" && have.dateTime === want.dateTime) return;
  for (const { name, value } of [...want.attributes]) {
    if (have.getAttribute(name) !== value && !(have.localName === "details" && name === "open")) have.setAttribute(name, value);
  }
  for (const { name } of [...have.attributes]) {
    if (!want.hasAttribute(name) && !(have.localName === "details" && name === "open")) have.removeAttribute(name);
  }
  patch(have, want);
}

// inUse reports whether somebody works with an element: focus, a selection or typed text.
function inUse(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return false;
  const selection = getSelection();
  return (
    node.contains(document.activeElement) ||
    (selection && !selection.isCollapsed && selection.containsNode(node, true)) ||
    [...node.querySelectorAll("textarea, input:not([type=hidden])")].some((f) => f.value !== f.defaultValue || f.checked !== f.defaultChecked)
  );
}

// Checks a proof in this browser: a worker reads the very export that can be downloaded, and
// this shows how far it is and what it found.
import { startVerifier } from "./parts.js";

const says = {
  malformed: "this is no record, or is not spelled as one",
  version: "this is a record of another version",
  field_missing: "a member is missing",
  other_run: "this belongs to another run",
  gap: "records are missing before this one, or stand in another order",
  unknown_key: "signed with a key that is not trusted here",
  signature_missing: "this should be signed and is not",
  signature_invalid: "the signature does not fit what it is over",
  wrong_principal: "this key may not sign that",
  prev: "the signed record before this one is another",
  head: "a record before this one was changed, removed or added",
  tail_uncovered: "this stands behind the end of the run",
  truncated: "the end is another than the export says",
  blob_missing: "a document that this names is not there",
  blob_mismatch: "a document that this names is another",
  file_unexpected: "this file does not belong to an export",
};
const many = (n, one) => n.toLocaleString("en-US") + " " + one + (n === 1 ? "" : "s");

const box = document.getElementById("browser-check");
if (box) offer(box);

function offer(box) {
  const find = (selector) => box.querySelector(selector);
  const button = find("button"), count = find(".looked"), verdict = find(".verdict"), list = find(".problems"), total = Number(box.dataset.total);
  const place = (seq) => Math.min(1000, (1000 * seq) / Math.max(1, total));
  const marks = (selector, seqs) => find(selector).setAttribute("d", (find(selector).getAttribute("d") ?? "") + seqs.map((seq) => `M${place(seq).toFixed(1)} 0v12`).join(""));
  box.hidden = false;

  function told({ data }) {
    if (data.failed) return end("wrong", "It could not be checked: " + data.failed + ".");
    count.textContent = many(data.records, "record");
    find(".filled").setAttribute("width", place(data.seq));
    marks(".signed", data.signed);
    marks(".fault", data.wrong);
    if (data.report) conclude(data.report);
  }

  function end(way, text) {
    verdict.className = "verdict " + way;
    verdict.textContent = text;
    button.disabled = false;
  }

  function conclude(r) {
    if (r.seq === total && r.head !== box.dataset.head) r.faults.push({ code: "truncated", seq: r.seq, file: "records.ndjson" }), r.total++;
    for (const f of r.faults) {
      const item = find("template").content.cloneNode(true), link = item.querySelector("a");
      const run = f.file === "records.ndjson" ? box.dataset.run : /^base\/([0-9A-Z]{26})\.ndjson$/.exec(f.file)?.[1];
      if (run && f.seq) {
        link.href = `/ui/runs/${run}/journal/${f.seq}`;
        link.textContent = "Record " + f.seq.toLocaleString("en-US");
      } else link.replaceWith(f.file);
      item.querySelector("code").textContent = f.code;
      item.querySelector("span").textContent = says[f.code] + (f.since !== undefined ? ", after record " + f.since.toLocaleString("en-US") : "") + (f.due ? ": record " + f.due.toLocaleString("en-US") + " was due" : "");
      list.append(item);
    }
    const seen = `${many(r.records, "record")}, ${many(r.envelopes, "signed one")}, ${many(r.blobs, "document")}`;
    const blind = r.signatures ? "" : globalThis.isSecureContext ? " This browser has no Ed25519: signatures were not looked at." : " A browser lends its cryptography to loopback and TLS alone: signatures were not looked at.";
    if (!r.total) end(blind ? "" : "good", (blind ? "The chain holds: " : "Chain and signatures hold: ") + seen + "." + blind);
    else end("wrong", `It does not hold: ${many(r.total, "problem")} in ${seen}.${blind}`);
  }

  button.addEventListener("click", () => {
    button.disabled = true;
    verdict.textContent = "";
    list.replaceChildren();
    for (const path of box.querySelectorAll("svg path")) path.removeAttribute("d");
    count.textContent = "The export is being made";
    const worker = startVerifier();
    worker.addEventListener("message", (e) => {
      told(e);
      if (e.data.report || e.data.failed) worker.terminate();
    });
    worker.addEventListener("error", (e) => end("wrong", "The verifier cannot be started: " + (e.message || "its script is missing") + "."));
    worker.postMessage({ address: box.dataset.export, trusted: box.dataset.trusted.split(" ") });
  });
}

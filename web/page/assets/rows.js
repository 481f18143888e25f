// Rows of a journal that come while its end is shown. They join by their number: none is
// missed, and none comes twice.
import { made } from "./parts.js";
import { tellTimes } from "./times.js";

const most = 300; // rows of a page
const body = document.querySelector("tbody[data-live]");
const held = []; // rows that wait until the end is looked at again
let edge; // the button that says how many
let following = false; // the end was in view, and nobody has scrolled away from it since
let last = 0; // how far the page was scrolled

// cursor is the record up to which the rows are here; undefined: the page has none that go on.
export const cursor = () => body?.dataset.shown;

// addRows takes rows that the server has sent.
export function addRows(html) {
  const next = made(html).querySelector("tbody");
  const shown = Number(body.dataset.shown);
  if (Number(next.dataset.shown) <= shown) return;
  if (Number(next.dataset.low) > shown + 1) { // so many were missed that these are all that fit
    body.replaceChildren();
    held.length = 0;
  }
  held.push(...[...next.rows].filter((r) => Number(r.dataset.key) > shown));
  body.dataset.shown = next.dataset.shown;
  if (!following) return wait();
  show();
  // The end stays in view, unless somebody works with a row.
  if (getSelection().isCollapsed && !body.contains(document.activeElement)) document.getElementById("end").scrollIntoView({ block: "nearest" });
}

const atEnd = () => document.getElementById("end").getBoundingClientRect().top <= innerHeight;

function show() {
  body.append(...held.splice(0).slice(-most));
  while (body.rows.length > most) body.rows[0].remove();
  tellTimes(body);
  if (edge) edge.hidden = true;
  const numbers = document.querySelectorAll("[data-window] span");
  const seqs = [body.rows[0]?.dataset.key, body.rows[body.rows.length - 1]?.dataset.key, body.dataset.shown];
  numbers.forEach((n, i) => (n.textContent = Number(seqs[i]).toLocaleString("en")));
}

// wait says at the edge how many there are.
function wait() {
  if (!held.length) return;
  if (!edge) {
    edge = document.createElement("button");
    edge.className = "newer";
    edge.addEventListener("click", () => {
      show();
      document.getElementById("end").scrollIntoView({ block: "end" });
    });
    document.getElementById("end").after(edge);
  }
  edge.hidden = false;
  edge.textContent = held.length + " new";
}

// look notices who scrolls away from the end. What grows above it pushes it out of view, too,
// but scrolls nothing back.
function look() {
  following = atEnd() || following && scrollY >= last;
  last = scrollY;
  if (atEnd() && held.length) show();
}

if (body) {
  look();
  addEventListener("scroll", look, { passive: true });
}

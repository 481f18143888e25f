// Keys. None decides by itself, and single ones are inactive in fields.
const places = { i: "/ui/", r: "/ui/runs", s: "/ui/sessions" };
const views = { t: "timeline", l: "journal", c: "cost" };
const list = [
  ["?", "this list"], ["g i, g r, g s", "inbox, runs, sessions"], ["/", "search"], ["j, k", "next and previous row"], ["Enter", "open"], ["Escape", "close"],
  ["1 – 6", "views of a run"], ["t, l, c", "timeline, journal, cost"], ["[ and ]", "previous and next record"], ["y", "copy the address"], [".", "actions"], ["d", "to the buttons of a gate"],
];
let going = false;

const run = () => /^\/ui\/runs\/[0-9A-Z]{26}/.exec(location.pathname)?.[0];
const rows = () => [...document.querySelectorAll("main [data-key]")].map((r) => [...r.querySelectorAll("a[href], summary, button")].find((e) => e.checkVisibility()) ?? r).filter((e) => e.matches("a, summary, button"));

function step(by) {
  const all = rows();
  const within = all.findIndex((e) => e === document.activeElement || e.closest("[data-key]")?.contains(document.activeElement));
  const at = within < 0 ? all.findIndex((e) => e.matches("[aria-current]")) : within;
  all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]?.focus();
}

function help() {
  let box = document.getElementById("keys");
  if (!box) {
    box = document.createElement("dialog");
    box.id = "keys";
    box.setAttribute("aria-label", "Keys");
    const all = document.createElement("dl");
    all.className = "facts";
    for (const [key, does] of list) {
      const row = document.createElement("div");
      const name = document.createElement("dt");
      const text = document.createElement("dd");
      name.textContent = key;
      text.textContent = does;
      row.append(name, text);
      all.append(row);
    }
    const form = document.createElement("form");
    form.method = "dialog";
    const button = document.createElement("button");
    button.textContent = "Close";
    form.append(button);
    box.append(all, form);
    document.body.append(box);
  }
  box.showModal();
}

// leave closes what stands beside a list, unless somebody has typed there.
function leave() {
  if (![...document.querySelectorAll("main textarea")].some((t) => t.value !== t.defaultValue)) follow("a[data-close]");
}

const follow = (selector) => document.querySelector(selector)?.click();

const acts = {
  "?": help,
  "/": () => document.getElementById("search")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  y: () => navigator.clipboard?.writeText(location.href),
  "[": () => follow("a[rel~=prev]"),
  "]": () => follow("a[rel~=next]"),
  ".": () => document.querySelector(".run-actions :is(summary, button, a)")?.focus(),
  Escape: leave,
  d: () => document.querySelector("form.decide .actions button")?.focus(),
};

function pressed(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.repeat || e.target.closest?.("input, textarea, select, [contenteditable], dialog")) return;
  if (going) {
    going = false;
    if (places[e.key]) location.assign(places[e.key]);
    return;
  }
  if (e.key === "g") going = true;
  else if (acts[e.key]) {
    e.preventDefault();
    acts[e.key]();
  } else if (run() && views[e.key]) location.assign(run() + "/" + views[e.key]);
  else if (run() && /^[1-6]$/.test(e.key)) document.querySelectorAll(".tabs a")[e.key - 1]?.click();
}

if (document.documentElement.dataset.keys !== "off") document.addEventListener("keydown", pressed);

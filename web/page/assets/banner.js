// What a page says of itself: that it is live, that the session is over, that there is another
// version. What was typed survives signing in again.
import { steady } from "./parts.js";

const dot = document.getElementById("live");
const say = document.getElementById("say");
const saidEvery = 5_000; // ms
let saidAt = -Infinity;
let saying;

// show says by the dot how live the page is; "": it does not change any more.
export function show(state, word = state) {
  dot.hidden = !state;
  dot.dataset.state = state;
  const at = dot.querySelector(".word");
  if (at.textContent !== word) at.textContent = word;
}

// banner tells what somebody can do, once for each reason.
export function banner(id, text, word, act) {
  if (document.getElementById(id)) return;
  const bar = document.createElement("p");
  bar.id = id;
  bar.className = "banner";
  bar.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = word;
  button.addEventListener("click", act);
  bar.append(text + " ", button);
  steady(() => document.getElementById("main").prepend(bar));
}

export function unbanner(id) {
  const bar = document.getElementById(id);
  if (bar) steady(() => bar.remove());
}

// tell has the live region say a sentence, one at a time and not more often than can be heard.
export function tell(text) {
  clearTimeout(saying);
  saying = setTimeout(() => {
    saidAt = performance.now();
    say.textContent = text;
  }, Math.max(0, saidAt + saidEvery - performance.now()));
}

// waiting shows how many gates wait: in the title, the rail and the icon.
export function waiting(count) {
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  const link = document.querySelector('.rail a[href="/ui/"]:not(.brand)');
  const badge = link.querySelector(".count");
  if (badge && count) badge.textContent = count;
  else if (badge) badge.remove();
  else if (count) {
    const made = document.createElement("span");
    made.className = "count";
    made.textContent = count;
    link.append(" ", made);
  }
  const icon = document.querySelector('link[rel="icon"]');
  icon.href = icon.href.replace(/icon(-waiting)?\.svg$/, count ? "icon-waiting.svg" : "icon.svg");
}

const here = () => location.pathname + location.search;
const drafts = "tipstaff-draft";
const fields = () => [...document.querySelectorAll("main form :is(input, textarea, select)")].filter((f) => f.name && !["hidden", "password", "file"].includes(f.type));

// signIn leads there and back again, with what was typed.
export function signIn() {
  const typed = fields().map((f) => [f.form.getAttribute("action"), f.name, f.type, f.value, f.checked]);
  sessionStorage.setItem(drafts, JSON.stringify({ at: here(), typed }));
  location.assign("/ui/signin?next=" + encodeURIComponent(here()));
}

// bringBack puts in what was typed before signing in.
export function bringBack() {
  const kept = JSON.parse(sessionStorage.getItem(drafts) ?? "null");
  if (kept?.at !== here()) return;
  sessionStorage.removeItem(drafts);
  for (const [form, name, type, value, checked] of kept.typed) {
    const field = fields().find((f) => f.form.getAttribute("action") === form && f.name === name && f.type === type && (!["radio", "checkbox"].includes(type) || f.value === value));
    if (!field) continue;
    if (["radio", "checkbox"].includes(type)) field.checked = checked;
    else field.value = value;
    field.closest("details")?.setAttribute("open", "");
  }
}

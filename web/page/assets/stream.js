// Keeps a page live: one stream per visible tab, at most four of a browser, else polling.
import { apply, applyWrapped, parts } from "./parts.js";
import { stopTimes } from "./times.js";

const dot = document.getElementById("live");
const still = new URLSearchParams(location.search).has("at");
const own = document.body.dataset.assets;
let source, lock, wait, lostAt, heard, hiding, ended = false;

const address = () => location.pathname + location.search;

function show(state, word) {
  dot.hidden = false;
  dot.dataset.state = state;
  const at = dot.querySelector(".word");
  if (at.textContent !== word) at.textContent = word;
}

function live() {
  lostAt = undefined;
  wait = 2000;
  stopTimes(false);
  show("live", "live");
}

// lost says so after a moment, and since when after a while.
function lost() {
  lostAt ??= new Date();
  const since = new Date() - lostAt;
  if (since > 30_000) {
    stopTimes(true);
    show("lost", "not live since " + lostAt.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
  } else if (since > 3_000) show("reconnecting", "reconnecting");
}

// banner tells what somebody can do, once for each reason.
function banner(id, text, word, act) {
  if (document.getElementById(id)) return;
  const bar = document.createElement("p");
  bar.id = id;
  bar.className = "banner";
  bar.setAttribute("role", "status");
  const button = document.createElement("button");
  button.textContent = word;
  button.addEventListener("click", act);
  bar.append(text + " ", button);
  document.getElementById("main").prepend(bar);
}

function updated(assets) {
  if (assets && assets !== own) banner("banner-updated", "Tipstaff was updated.", "Reload", () => location.reload());
}

// who tells a session that is over from a server that is away.
async function who() {
  const res = await fetch("/ui/whoami", { cache: "no-store" }).catch(() => undefined);
  if (res?.status === 401) banner("banner-signin", "You are signed out.", "Sign in", () => location.assign("/ui/signin?next=" + encodeURIComponent(address())));
  if (res?.ok) document.getElementById("banner-signin")?.remove();
  return res?.status;
}

// place takes one of the four places of this browser; false: there is none.
async function place() {
  if (!navigator.locks || lock) return true;
  for (let n = 0; n < 4; n++) {
    const got = await new Promise((resolve) => {
      navigator.locks.request("tipstaff-stream-" + n, { ifAvailable: true }, (l) => {
        if (!l) return resolve(false);
        return new Promise((release) => resolve(release));
      });
    });
    if (got) {
      lock = got;
      return true;
    }
  }
  return false;
}

function close() {
  source?.close();
  source = undefined;
  lock?.();
  lock = undefined;
}

async function open() {
  if (ended || source || document.hidden) return;
  if (!(await place())) return poll();
  if (source || document.hidden) return;
  heard = Date.now();
  source = new EventSource("/ui/stream?" + new URLSearchParams({ page: address(), parts: parts().join(",") }));
  const hear = (type, act) => source.addEventListener(type, (e) => {
    heard = Date.now();
    live();
    act(e.data);
  });
  hear("part", applyWrapped);
  hear("beat", (data) => updated(JSON.parse(data).assets));
  hear("end", () => {
    ended = true;
    close();
    dot.hidden = true;
  });
  source.addEventListener("error", () => {
    close();
    again();
  });
}

// again opens the stream after a while, longer each time.
async function again() {
  lostAt ??= new Date();
  lost();
  const status = await who();
  if (status === 401) return;
  const ms = wait ?? 2000;
  wait = Math.min(30_000, ms * 2);
  setTimeout(open, ms * (0.75 + Math.random() / 2));
}

// poll asks for the parts where no stream is to be had.
async function poll() {
  if (ended || source || document.hidden) return;
  for (const name of parts()) {
    const to = new URL(location.href);
    to.searchParams.set("part", name);
    const res = await fetch(to, { cache: "no-store" }).catch(() => undefined);
    if (res?.ok) {
      apply(name, await res.text());
      live();
    } else if (res?.status !== 404) {
      lost();
      if ((await who()) === 401) return;
    }
  }
  setTimeout(open, 3_000);
}

if (dot && !still && parts().length) {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(close, 30_000);
    else open();
  });
  setInterval(() => {
    if (lostAt) lost();
    if (source && Date.now() - heard > 40_000) {
      close();
      again();
    }
  }, 1_000);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (e) => e.persisted && open());
  open();
}

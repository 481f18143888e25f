// Keeps a page live: one stream per visible tab, at most four of a browser, else polling. It
// reads the stream itself: an EventSource does not tell why it was refused.
import { apply, applyWrapped, parts } from "./parts.js";
import { addRows, cursor } from "./rows.js";
import { banner, bringBack, show, signIn, tell, unbanner, waiting } from "./banner.js";
import { stopTimes } from "./times.js";

const places = 4; // of one browser
const silence = 40_000; // ms without a beat
const away = 30_000; // ms until a hidden tab lets go, and between its questions
const every = 3_000; // ms between polls
const still = new URLSearchParams(location.search).has("at");
const own = document.body.dataset.assets;
const versions = new Map(); // of the parts that were applied, the one applied longest ago first
let stream, lock, wait, lostAt, heard, timer, hiding;
let ended = false;
let gone = false; // the tab is hidden, and has let go
let full = 0; // until when there is no stream to be had

// address is that of this page as it is followed: a list goes on from what it showed first.
function address(part) {
  const to = new URL(location.href);
  for (const e of document.querySelectorAll("[data-with]")) new URLSearchParams(e.dataset.with).forEach((value, name) => to.searchParams.set(name, value));
  if (part) to.searchParams.set("part", part);
  return to;
}

// wanted are the parts, those that were brought up to date longest ago first.
const wanted = () => {
  const names = parts();
  return [...names.filter((n) => !versions.has(n)), ...[...versions.keys()].filter((n) => names.includes(n))];
};

function live() {
  lostAt = undefined;
  wait = undefined;
  stopTimes(false);
  unbanner("banner-lost");
  unbanner("banner-signin");
  show("live");
}

// lost says so after a moment, and since when after a while.
function lost() {
  if (!(lostAt <= new Date())) lostAt = new Date(); // clocks are also set back
  const since = new Date() - lostAt;
  if (since >= 30_000) {
    const at = lostAt.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    stopTimes(true);
    show("lost", "not live since " + at);
    banner("banner-lost", `Not live since ${at}: Tipstaff does not answer.`, "Retry", () => {
      wait = undefined;
      open();
    });
  } else if (since >= 3_000) show("reconnecting");
}

// pulse takes what the server says of itself, and of what waits.
function pulse(p) {
  if (p.assets !== own) banner("banner-updated", "Tipstaff was updated.", "Reload", () => location.reload());
  waiting(p.waiting);
  for (const f of document.querySelectorAll('input[name="form"]')) f.value = p.form; // of a new session, if it is one
}

function signedOut() {
  close();
  show("lost", "signed out");
  stopTimes(true);
  banner("banner-signin", "You are signed out.", "Sign in", signIn);
  later(away);
}

// ask asks for what a stream would tell by its beats; false: the session is over.
async function ask() {
  const res = await fetch("/ui/whoami", { cache: "no-store" }).catch(() => undefined);
  if (res?.status === 401) signedOut();
  else if (res?.ok) pulse(await res.json());
  return res?.status !== 401;
}

// place takes one of the places of this browser; false: there is none. Over HTTP/2 tabs share
// a connection, and need none.
async function place() {
  if (!navigator.locks || lock || performance.getEntriesByType("navigation")[0]?.nextHopProtocol === "h2") return true;
  for (let n = 0; n < places && !lock; n++) {
    lock = await new Promise((resolve) => {
      navigator.locks.request("tipstaff-stream-" + n, { ifAvailable: true }, (l) => l ? new Promise((release) => resolve(release)) : resolve(undefined));
    });
  }
  return Boolean(lock);
}

function close() {
  clearTimeout(timer);
  stream?.abort();
  stream = undefined;
  lock?.();
  lock = undefined;
}

// later opens again after a while. A tab that nobody sees only asks what waits.
function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(open, ms);
}

async function open() {
  clearTimeout(timer);
  if (ended || stream || gone) return;
  if (Date.now() < full && full <= Date.now() + away) return poll();
  const mine = (stream = new AbortController());
  const placed = await place();
  if (stream !== mine) {
    if (!stream) close();
    return;
  }
  if (!placed) {
    stream = undefined;
    return poll();
  }
  const names = wanted().map((n) => (versions.has(n) ? n + "~" + versions.get(n) : n));
  const to = new URLSearchParams({ page: address().pathname + address().search });
  if (cursor()) {
    names.push("journal-rows");
    to.set("after", cursor());
  }
  to.set("parts", names.join(","));
  heard = Date.now();
  const res = await fetch("/ui/stream?" + to, { cache: "no-store", signal: mine.signal }).catch(() => undefined);
  if (stream !== mine) return;
  if (res?.status === 204) return end(true);
  if (res?.ok) await read(res, mine);
  if (stream !== mine) return;
  close();
  if (ended) return;
  if (res?.status === 401) return signedOut();
  if (res?.status === 429) {
    full = Date.now() + away;
    return poll();
  }
  again();
}

// read takes the events of a stream until it breaks off.
async function read(res, mine) {
  const text = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await text.read().catch(() => ({ done: true }));
    if (done || stream !== mine) return;
    heard = Date.now();
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) if (!ended) take(frame);
  }
}

// take acts on one event. Other scripts hear of those that are not of the page itself.
function take(frame) {
  const lines = frame.split("\n");
  const event = lines.find((l) => l.startsWith("event: "))?.slice("event: ".length);
  const data = lines.filter((l) => l.startsWith("data: ")).map((l) => l.slice("data: ".length)).join("\n");
  live();
  if (event === "part") {
    const { name, version } = applyWrapped(data);
    versions.delete(name);
    versions.set(name, version);
    if (!parts().length) end(false);
  } else if (event === "rows") addRows(data);
  else if (event === "say") tell(data);
  else if (event === "beat") pulse(JSON.parse(data));
  else if (event === "end") end(false);
  else document.dispatchEvent(new CustomEvent("tipstaff:" + event, { detail: data }));
}

// end closes the stream of a run that has ended. unseen: it may have done so while nobody
// looked.
async function end(unseen) {
  ended = true;
  close();
  if (unseen) await refresh();
  show("");
}

// again opens the stream after a while, longer each time.
async function again() {
  lost();
  if (!(await ask())) return;
  const ms = wait ?? 2_000;
  wait = Math.min(30_000, ms * 2);
  later(ms * (0.75 + Math.random() / 2));
}

// refresh asks for the parts and rows once; true: of a run that had ended; undefined: in vain.
async function refresh() {
  let final = true;
  const rows = cursor() && address("journal-rows");
  rows?.searchParams.set("after", cursor());
  for (const [name, to] of [...wanted().map((n) => [n, address(n)]), ...(rows ? [["", rows]] : [])]) {
    const res = await fetch(to, { cache: "no-store" }).catch(() => undefined);
    if (!res?.ok && res?.status !== 404) return undefined;
    final &&= res.headers.has("Tipstaff-Final");
    const html = await res.text();
    if (!res.ok) continue;
    if (name) {
      apply(name, html);
      versions.delete(name);
    } else addRows(html);
  }
  return final;
}

// poll asks for everything where no stream is to be had.
async function poll() {
  const final = await refresh();
  (final === undefined ? lost : live)();
  if (final) end(false);
  else if (await ask()) later(every);
}

// hidden has a tab that nobody sees let go of its stream; it only asks how much waits.
function hidden() {
  gone = true;
  close();
  hiding = setInterval(ask, away);
}

function visible() {
  clearTimeout(hiding);
  clearInterval(hiding);
  gone = false;
  if (document.hidden) hiding = setTimeout(hidden, away);
  else open();
}

bringBack();
if (document.getElementById("live") && !still && parts().length) {
  document.addEventListener("visibilitychange", visible);
  setInterval(() => {
    if (lostAt) lost();
    heard = Math.min(heard, Date.now());
    if (stream && Date.now() - heard > silence) {
      close();
      again();
    }
  }, 1_000);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (e) => e.persisted && visible());
  visible();
}

// Times in the reader's words. The <time> elements hold the truth.
const times = document.documentElement.dataset.times;
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
let stopped = false;

function words(at) {
  if (times === "utc") return at.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
  if (times === "local") return at.toLocaleString();
  const seconds = (at - Date.now()) / 1000;
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return relative.format(Math.round(seconds / size), unit);
}

export function tellTimes(root = document) {
  if (times !== "utc") {
    for (const t of root.querySelectorAll("[data-tick]")) t.textContent = tick(new Date(t.dataset.tick), t.dataset.form);
    for (const z of root.querySelectorAll("[data-zone]")) z.textContent = "those of " + Intl.DateTimeFormat().resolvedOptions().timeZone;
  }
  for (const t of root.querySelectorAll("time[datetime]")) {
    const text = words(new Date(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
  }
}

// tick is a moment of an axis, as exact as the server has told it, in the reader's zone.
function tick(at, form) {
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  if (form === "day") Object.assign(clock, { day: "numeric", month: "short" });
  if (form === "millisecond") clock.fractionalSecondDigits = 3;
  return new Intl.DateTimeFormat("en-GB", clock).format(at).replace(",", "");
}

// stopTimes keeps a page that is not live from looking as if it were.
export function stopTimes(stop) {
  stopped = stop;
}

if (times === "relative") setInterval(() => stopped || tellTimes(), 10_000);

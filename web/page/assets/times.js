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
  for (const t of root.querySelectorAll("time[datetime]")) {
    const text = words(new Date(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
  }
}

// stopTimes keeps a page that is not live from looking as if it were.
export function stopTimes(stop) {
  stopped = stop;
}

if (times === "relative") setInterval(() => stopped || tellTimes(), 10_000);

// Load on a daemon, by k6: subscribers that follow one busy run to its end, starts of which
// each waits for its run, and reads of all kinds meanwhile.
//
//   k6 run -e URL=... -e TOKEN=... -e RUN=...  -e SUMMARY=file load.js
import http from "k6/http";
import { check } from "k6";
import { Trend } from "k6/metrics";

const url = __ENV.URL;
const run = __ENV.RUN;
const auth = { Authorization: `Bearer ${__ENV.TOKEN}` };
const json = Object.assign({ "Content-Type": "application/json" }, auth);

export const options = {
  scenarios: {
    subscribers: { executor: "per-vu-iterations", exec: "subscribe", vus: 200, iterations: 1, maxDuration: "3m" },
    starts: { executor: "shared-iterations", exec: "start", vus: 20, iterations: 1000, maxDuration: "3m" },
    reads: { executor: "constant-vus", exec: "read", vus: 10, duration: "15s" },
  },
  thresholds: {
    checks: ["rate==1"],
    http_req_failed: ["rate==0"],
    // Figures are kept apart where a threshold names them; these judge nothing.
    "http_req_duration{name:start}": ["max>=0"],
    "http_req_waiting{scenario:reads}": ["max>=0"],
    "http_req_waiting{scenario:subscribers}": ["max>=0"],
  },
  summaryTrendStats: ["med", "p(95)", "p(99)", "max"],
};

// How long it takes until a run that was asked for has ended.
const toTheEnd = new Trend("start_to_end", true);

export function subscribe() {
  const r = http.get(`${url}/runs/${run}/events`, { headers: Object.assign({ Accept: "text/event-stream" }, auth), timeout: "170s", tags: { name: "events, to the end" } });
  const ids = (r.body || "").split("\n").filter((l) => l.startsWith("id: ")).map((l) => Number(l.slice(4)));
  check(r, {
    "a stream is whole": () => ids.length > 0 && ids.every((id, i) => id === i + 1),
    "a stream ends with the run": () => (r.body || "").includes("event: end\n"),
  });
}

const program = JSON.stringify({ program: "kind: plan\nversion: 1\nroot: {id: one, kind: tool_call, tool: \"mcp://builtin/json_query@1.0.0\", args: {value: 1, expr: value}}\n" });

export function start() {
  const began = Date.now();
  const r = http.post(`${url}/runs`, program, { headers: json, tags: { name: "start" } });
  if (!check(r, { "a start is taken": () => r.status === 202 })) return;
  const s = http.get(`${url}/runs/${r.json("run")}/events`, { headers: Object.assign({ Accept: "text/event-stream" }, auth), timeout: "60s", tags: { name: "events of a start" } });
  check(s, { "a start completes": () => s.status === 200 && s.body.includes("event: intent.attest\n") });
  toTheEnd.add(Date.now() - began);
}

const pages = ["/runs?limit=50", "/runs?status=completed&limit=10", "/pending", `/runs/${run}`, `/runs/${run}/evidence`, `/runs/${run}/metrics`, `/runs/${run}/diagnose`, `/runs/${run}/events?limit=200`, "/healthz", "/metrics"];

export function read() {
  const page = pages[(__VU + __ITER) % pages.length];
  const r = http.get(url + page, { headers: auth, tags: { name: "read " + page.replace(run, "{run}").replace(/\?.*/, "") } });
  check(r, { "a read is answered": () => r.status === 200 });
}

export function handleSummary(data) {
  return { [__ENV.SUMMARY]: JSON.stringify(data) };
}

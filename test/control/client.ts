// A client of the daemon whose types are generated from its OpenAPI document: it starts a run,
// decides what that asks, has it go on, and reads the evidence. The compiler checks that all of
// it is what the document says; what it was told is printed as one JSON object.
//
//   node client.js URL TOKEN PROGRAM
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [url, token, program] = process.argv.slice(2) as [string, string, string];
const api = createClient<paths, "application/json">({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

// had is an answer that must be there.
function had<T>(what: string, answer: { data?: T; error?: { error: { code: string; message: string } }; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

const header = { "Idempotency-Key": "generated-1" };
const started = had("start", await api.POST("/runs", { params: { header }, body: { program, title: "by a generated client", labels: { from: "openapi" } } }));
const again = had("start again", await api.POST("/runs", { params: { header }, body: { program, title: "by a generated client", labels: { from: "openapi" } } }));
if (!("run" in started) || typeof started.run !== "string") throw new Error("it was a dry run");
const run = started.run;

// asked waits for the run's question.
async function asked() {
  for (;;) {
    const pending = had("pending", await api.GET("/pending", { params: { query: { limit: 200 } } }));
    const mine = pending.decisions?.find((p) => p.run_id === run);
    if (mine) return mine.gate;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const gate = await asked();
const whole = had("gate", await api.GET("/runs/{run}/gates/{gate}", { params: { path: { run, gate: gate.gate_id } } }));
const decision = had("decide", await api.POST("/runs/{run}/gates/{gate}/decision", {
  params: { path: { run, gate: gate.gate_id } },
  body: { action: "approve", decided_by: "a generated client", subject_digest: gate.digest },
}));
const refused = await api.POST("/runs/{run}/gates/{gate}/decision", { params: { path: { run, gate: gate.gate_id } }, body: { action: "deny" } });
had("resume", await api.POST("/runs/{run}/resume", { params: { path: { run } } }));

// ended waits for the end of the run.
async function ended() {
  for (;;) {
    const status = had("status", await api.GET("/runs/{run}", { params: { path: { run } } }));
    if (["completed", "failed", "cancelled"].includes(status.state)) return status;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const end = await ended();
const evidence = had("evidence", await api.GET("/runs/{run}/evidence", { params: { path: { run }, query: { slice: "steps" } } }));
const events = had("events", await api.GET("/runs/{run}/events", { params: { path: { run }, query: { limit: 200 } } }));
const listed = had("runs", await api.GET("/runs", { params: { query: { limit: 1, status: ["completed"] } } }));

console.log(JSON.stringify({
  run,
  again: "run" in again ? again.run : null,
  question: whole.question,
  decision,
  refused: refused.error?.error.code,
  state: end.state,
  steps: evidence.steps?.items?.map((s) => s.path),
  records: events.events?.length,
  head: end.head_seq,
  listed: listed.items?.map((r) => r.run_id),
}));

// A client that knows Tipstaff only by core.proto: it makes a draft, executes it,
// watches it, cancels a run that hangs, and answers one that it finds in lists. What it saw is printed as one JSON object,
// bytes as their text.
//
//   node client.js MODULES PROTO ADDRESS AUTHORIZATION
"use strict";
const [modules, proto, address, authorization] = process.argv.slice(2);
const { createRequire } = require("node:module");
const from = createRequire(modules + "/");
const grpc = from("@grpc/grpc-js");
const loader = from("@grpc/proto-loader");

// Whole numbers of 64 bits come as text: JavaScript's numbers would lose digits.
const definition = loader.loadSync(proto, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true, includeDirs: [proto.replace(/\/tipstaff\/core\/v1\/[^/]*$/, "")] });
const { CoreService } = grpc.loadPackageDefinition(definition).tipstaff.core.v1;
const client = new CoreService(address, grpc.credentials.createInsecure());
const metadata = new grpc.Metadata();
metadata.set("authorization", authorization);

const ask = (method, request) =>
  new Promise((resolve, reject) => client[method](request, metadata, (err, answer) => (err ? reject(err) : resolve(answer))));

// read gives a stream's events; each may end it early.
const read = (stream, each = () => {}) =>
  new Promise((resolve, reject) => {
    const events = [];
    stream.on("data", (e) => { events.push(e); each(e, stream); });
    stream.on("end", () => resolve(events));
    stream.on("error", (err) => (err.code === grpc.status.CANCELLED ? resolve(events) : reject(err)));
  });

const told = (e) => `${e.seq} ${e.type} ${e.stage} ${e.payload}`;

async function main() {
  const seen = {};
  const precise = Buffer.from('{"n":9007199254740993,"half":1.0,"text":"héllo"}');
  const draft = await ask("CreateEnvelope", { raw_input: "hello", metadata_json: precise, pipeline: { name: "loop" } });
  seen.metadata = draft.metadata_json.toString();
  seen.maxCost = draft.max_cost_usd;

  const view = { envelope_id: draft.envelope_id };
  const updated = await ask("UpdateEnvelope", { envelope: view, expected_version: draft.version, usage: { tokens_out: "9007199254740993" } });
  seen.tokensOut = updated.tokens_out;

  const fresh = await ask("CreateEnvelope", { raw_input: "hello", pipeline: { name: "loop" } });
  const executed = await read(client.ExecutePipeline({ envelope: { envelope_id: fresh.envelope_id } }, metadata));
  const end = executed[executed.length - 1];
  seen.executed = executed.map(told);
  seen.end = { final: end.final, reason: end.envelope.terminal_reason, critic: end.envelope.outputs.critic.toString() };

  const half = executed[Math.floor(executed.length / 2)].seq;
  const watched = await read(client.Watch({ ref: { envelope_id: fresh.envelope_id }, after_seq: half, follow: true }, metadata));
  seen.watched = watched.map(told);
  seen.half = half;

  // A caller that leaves its stream leaves the run as it is; Cancel ends it.
  const stuck = await ask("CreateEnvelope", { raw_input: "hello", pipeline: { name: "stuck" } });
  const ref = { envelope_id: stuck.envelope_id };
  await read(client.ExecutePipeline({ envelope: ref }, metadata), (e, stream) => { if (e.type === "STAGE_STARTED") stream.cancel(); });
  const left = await ask("GetState", { ref });
  seen.left = { terminated: left.terminated, condition: left.condition };
  const cancelled = await ask("Cancel", { ref, reason: "enough" });
  const last = (await read(client.Watch({ ref, follow: true }, metadata))).pop();
  seen.cancelled = { terminated: cancelled.terminated, reason: last.envelope.terminal_reason };

  const refused = await ask("GetState", { ref: { envelope_id: "env_01M7GGV724CE3RT0X18PVCP8A2" } }).catch((err) => err);
  seen.refused = refused.code;

  // A run that asks is found in each of the lists, and answered by what they say.
  const asking = await ask("CreateEnvelope", { raw_input: "hello", pipeline: { name: "asking" } });
  await read(client.ExecutePipeline({ envelope: { envelope_id: asking.envelope_id }, thread_id: "line" }, metadata));
  const waiting = await ask("ListInterrupts", { page_size: 200 });
  const { run_id, interrupt } = waiting.interrupts[0];
  const runs = await ask("ListRuns", { thread_id: "line" });
  const threads = await ask("ListThreads", {});
  seen.listed = { total: waiting.total, run: run_id, question: interrupt.question, byKind: waiting.by_kind, runs: runs.runs.map((r) => r.run_id), status: runs.runs[0].status,
    threads: threads.threads.filter((t) => t.thread_id === "line").map((t) => t.head.run_id) };
  const answered = await read(client.ResumePipeline({ ref: { envelope_id: asking.envelope_id }, interrupt_id: interrupt.id, response: { approved: true } }, metadata));
  seen.answered = { type: answered[answered.length - 1].type, left: (await ask("ListInterrupts", {})).total };

  // Whatever is wrong, and however much of it, is told: what does not fit into headers would
  // look like a fault of the server.
  const many = "name: p\nagents:\n" + Array.from({ length: 5000 }, (_, i) => `  - {name: a${i}, remote: {}, wrong${i}: 1}\n`).join("");
  const long = `name: p\nagents: [{name: a, scripted: {answers: [{output: {}}]}, ${"k".repeat(100000)}: 1}]\n`;
  seen.faults = [];
  for (const text of [many, long]) {
    const err = await ask("CreateEnvelope", { raw_input: "x", pipeline: { document: Buffer.from(text) } }).catch((err) => err);
    seen.faults.push({ code: err.code, details: err.metadata.get("grpc-status-details-bin").map((d) => d.length) });
  }
  console.log(JSON.stringify(seen));
  client.close();
}

main().catch((err) => { console.error(err); process.exit(1); });

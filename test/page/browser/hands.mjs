// Several hands on one gate, each with what it was shown: one decision is written, and whoever came
// too late is told, and keeps what was typed.
import { writeFileSync } from "node:fs";
import { api, base, check, isLive, records, scenario, signIn, start, tipstaff, until } from "./harness.mjs";

const folder = process.env.TIPSTAFF_FOLDER;
const token = (await tipstaff("serve", "--token"));
const words = async (page, selector = "main") => (await page.textContent(selector)).replaceAll(/\s+/g, " ");

// wrote fails if a run has other decisions of hands than these, each an action, a way and a note.
const wrote = async (run, ...want) => {
  const got = (await records(run, "policy.gate.resolve")).filter(({ body }) => !["expiry", "run_ended", "superseded"].includes(body.via)).map(({ body }) => [body.action, body.via, body.note ?? ""].join(" ").trim());
  check(String(got) === String(want), `written is ${JSON.stringify(got)}, and not ${JSON.stringify(want)}`);
};

// asked is a run that waits, and the address of its gate.
const asked = async (file = "gate.yaml") => {
  const run = await start(file);
  let gate;
  await until("the gate", async () => (gate = JSON.parse(await tipstaff("show", run, "--json")).open_gates[0]?.gate_id));
  return { run, gate, at: `${base}/ui/runs/${run}/gates/${gate}` };
};

// tab is one more of the browser, at a gate, with a note. alone: nothing that happens reaches it.
const tab = async (page, at, note, alone) => {
  const one = await page.context().newPage();
  if (alone) await one.route(/\/ui\/stream\?|[?&]part=|\/ui\/whoami/, (r) => r.abort());
  await one.goto(at);
  if (!alone) await isLive(one);
  await one.fill("#note", note);
  return one;
};

const decide = async (page, action) => {
  await page.waitForSelector(`#decide button[value=${action}][aria-disabled=false]`);
  await page.click(`#decide button[value=${action}]`);
};

// over waits until a tab was told that its gate is closed, and fails if what was typed is gone.
const over = async (page, text, note) => {
  await until("the gate to be closed", async () => (await page.$$("#decide button")).length === 0);
  check((await words(page, "#part-gate")).match(text), `it says ${await words(page, "#part-gate")}, and not ${text}`);
  check((await words(page, "#decide [role=alert]")).includes("This gate was closed"), "nobody is told");
  check((await page.inputValue("#note")) === note, "what was typed is gone");
};

// late fails if an answer does not say what became of the gate, or what was sent.
const late = async (page, ...texts) => {
  await page.waitForSelector("#part-gate .notice");
  for (const text of texts) check((await words(page)).includes(text), `it does not say ${text}: ${await words(page)}`);
};

// Tabs of one browser. One decides; one that hears of it loses its buttons; one that does not is
// told when it decides otherwise, and one that decides the same has success.
await scenario({}, async (page, state) => {
  await signIn(page);
  const { run, at } = await asked();
  const first = await tab(page, at, "the first");
  const hears = await tab(page, at, "half a thought");
  state.away = true; // what reaches no tab is told by the browser, and so are answers of 409
  const other = await tab(page, at, "the other", true);
  const same = await tab(page, at, "the first", true);
  await decide(first, "approve");
  await first.waitForURL("**?done=recorded");
  await over(hears, "Decided: approve", "half a thought");
  await decide(other, "deny");
  await late(other, "It was decided otherwise before", "decision_conflict", "the other", "Decided: approve", "the first");
  await decide(same, "approve");
  await same.waitForURL("**?done=again");
  check((await words(same)).includes("It was decided so before"), "the same decision is no success");
  await wrote(run, "approve http the first");
});

// Tab and terminal, and tab and MCP: whoever comes second is told the first.
await scenario({}, async (page, state) => {
  await signIn(page);
  const { run, gate, at } = await asked();
  const open = await tab(page, at, "of the page");
  await decide(open, "approve");
  await open.waitForURL("**?done=recorded");
  const said = await tipstaff("decide", run, gate, "deny", "--note", "of the terminal").catch((e) => e.code + e.stderr);
  check(/^3.*already decided: approve/s.test(said), "the terminal is told " + said);
  await tipstaff("decide", run, gate, "approve", "--note", "of the page");
  await wrote(run, "approve http of the page");

  const second = await asked();
  const hears = await tab(page, second.at, "half a thought");
  state.away = true;
  const other = await tab(page, second.at, "of the page", true);
  await mcp("gate_decide", { run_id: second.run, gate_id: second.gate, action: "deny", note: "of MCP" });
  await over(hears, "Decided: deny", "half a thought");
  await decide(other, "approve");
  await late(other, "It was decided otherwise before", "of the page", "Decided: deny", "of MCP");
  await wrote(second.run, "deny mcp of MCP");
});

// mcp calls a tool of the daemon.
async function mcp(name, args) {
  const headers = { Authorization: "Bearer " + token, "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const call = async (method, params, id) => {
    const res = await fetch(api + "/mcp", { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", method, params, id }) });
    check(res.ok, `${method} is answered ${res.status}`);
    headers["Mcp-Session-Id"] ??= res.headers.get("Mcp-Session-Id");
    return res.text();
  };
  await call("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "hand", version: "1" } }, 1);
  await call("notifications/initialized");
  const said = await call("tools/call", { name, arguments: args }, 2);
  check(!said.includes('"isError":true'), `${name} says ${said}`);
}

// What else closes a gate while its form is open: its expiry, the end of its run and a correction. A
// tab that does not hear of it is told when it decides, and nothing is written.
writeFileSync(folder + "/soon.yaml", 'kind: plan\nversion: 1\nroot: {id: ok, kind: gate, question: "Publish?", expires: 6s}\n');
writeFileSync(folder + "/asks.yaml", 'kind: plan\nversion: 1\nroot: {id: all, kind: sequential, children: [{id: ok, kind: gate, question: "Publish?"}]}\n');
writeFileSync(folder + "/asks-more.yaml", 'kind: plan\nversion: 1\nroot: {id: all, kind: sequential, children: [{id: ok, kind: gate, question: "Publish all of it?"}]}\n');
for (const [file, close, shown, told] of [
  ["soon.yaml", async () => {}, /Expired|Closed: expiry/, ["The gate has expired", "gate_expired"]],
  ["gate.yaml", ({ run }) => tipstaff("cancel", run, "--reason", "enough"), "Closed: run ended", ["The gate was closed before"]],
  ["asks.yaml", ({ run }) => tipstaff("resume", run, "--with", "asks-more.yaml", "--reason", "better", "--unattended").catch((e) => check(e.code === 4, e.stderr)), "Closed: superseded", ["The gate was closed before", "Publish all of it?"]],
]) {
  await scenario({}, async (page, state) => {
    await signIn(page);
    const one = await asked(file);
    const hears = await tab(page, one.at, "half a thought");
    state.away = true;
    const other = await tab(page, one.at, "of the page", true);
    await other.waitForSelector("#decide button[value=approve][aria-disabled=false]");
    await close(one);
    await over(hears, shown, "half a thought");
    await decide(other, "approve");
    await late(other, ...told, "of the page");
    await wrote(one.run);
  });
}

// A form that was shown something else.
await scenario({}, async (page, state) => {
  await signIn(page);
  const { run, at } = await asked();
  const open = await tab(page, at, "of the page");
  await open.$eval("#decide [name=subject_digest]", (e) => (e.value = "sha256:0"));
  state.away = true;
  await decide(open, "approve");
  await late(open, "This is not what you were shown", "subject_changed");
  check((await open.inputValue("#note")) === "of the page", "what was typed is gone");
  await wrote(run);
  await decide(open, "approve");
  await open.waitForURL("**?done=recorded");
  await wrote(run, "approve http of the page");
});

// Runs of every kind that there is, and the addresses of all pages that show them.
import { tipstaff, start, base, until } from "./harness.mjs";
import { readFileSync } from "node:fs";

const ran = (file, ...more) => tipstaff("run", file, "--unattended", "--json", ...more).then(idOf, (e) => idOf(e.stdout));
const idOf = (text) => /"run(?:_id)?":\s*"([0-9A-Z]{26})"/.exec(text)[1];
const show = async (run) => JSON.parse(await tipstaff("show", run, "--json"));

// ground starts the runs, one after the other, and waits until they rest.
export async function ground() {
  const runs = { done: await ran("done.yaml"), failed: await ran("failed.yaml"), gate: await ran("gate.yaml"), limit: await ran("limit.yaml"), loop: await ran("loop.yaml") };
  runs.turn = idOf(await tipstaff("chat", "Summarise the note.", "--json").catch((e) => e.stdout));
  runs.killed = await start("long.yaml");
  const owner = process.env.TIPSTAFF_FOLDER + "/.tipstaff/runs/" + runs.killed + "/supervisor.json";
  await until("a run to be driven", () => {
    try {
      process.kill(JSON.parse(readFileSync(owner, "utf8")).pid, "SIGKILL");
      return true;
    } catch {
      return false;
    }
  });
  runs.fork = idOf(await tipstaff("fork", runs.loop, "--at", "40", "--json"));
  return runs;
}

// pagesOf are the names of pages and their addresses.
export async function pagesOf(page, runs) {
  const of = (name) => "/ui/runs/" + runs[name];
  const gate = async (run) => (await show(run)).open_gates[0].gate_id;
  const all = {
    inbox: "/ui/", runs: "/ui/runs", none: "/ui/runs?q=nothing+is+called+so", sessions: "/ui/sessions", settings: "/ui/settings", missing: "/ui/nothing",
    compare: `/ui/compare?a=${runs.loop}&b=${runs.fork}`, pair: "/ui/compare",
    beside: `/ui/?run=${runs.gate}&gate=${await gate(runs.gate)}`, gate: of("gate") + "/gates/" + (await gate(runs.gate)), approval: of("turn") + "/gates/" + (await gate(runs.turn)),
    node: of("failed") + "/node?path=root/address", stage: of("loop") + "/node?path=critic", record: of("loop") + "/journal/12", at: of("loop") + "?at=40",
    talk: of("turn") + "/talk",
  };
  for (const name of Object.keys(runs)) all["run-" + name] = of(name);
  for (const tab of ["timeline", "journal", "cost", "files", "family", "proof"]) all[tab] = of("loop") + "/" + tab;
  all["timeline-failed"] = of("failed") + "/timeline";
  all["files-done"] = of("done") + "/files";
  await page.goto(base + of("done") + "/files");
  all.file = await page.$eval(".files a[href*='/files/']:not([download])", (a) => a.getAttribute("href"));
  return all;
}

// Texts that would act if a page took them for more than text: nothing runs, nothing is loaded, and
// every gate can still be decided.
import { readFileSync, writeFileSync } from "node:fs";
import { base, check, scenario, signIn, tipstaff } from "./harness.mjs";

const texts = JSON.parse(readFileSync(new URL("../../../web/page/testdata/hostile.json", import.meta.url), "utf8"));
const printable = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\ufffe]/g, " ");
const quoted = (text) => JSON.stringify(printable(text));

// Some plans have a gate for each text, eight at once; another reads files that are called so.
const plans = [];
for (let from = 0; from < texts.length; from += 8) {
  const gates = texts.slice(from, from + 8).map((t, i) => `    - {id: g${i}, kind: gate, question: ${quoted("x " + t)}}`).join("\n");
  plans.push(`gates${from}.yaml`);
  writeFileSync(process.env.TIPSTAFF_FOLDER + "/" + plans.at(-1), `kind: plan\nversion: 1\nname: gates\nroot:\n  id: all\n  kind: parallel\n  children:\n${gates}\n`);
}
const reads = texts.map((t, i) => `    - {id: r${i}, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: ${quoted("none/" + t)}}, on_error: continue}`).join("\n");
writeFileSync(process.env.TIPSTAFF_FOLDER + "/reads.yaml", `kind: plan\nversion: 1\nname: reads\nroot:\n  id: all\n  kind: sequential\n  children:\n${reads}\n`);
writeFileSync(process.env.TIPSTAFF_FOLDER + "/script.yaml", JSON.stringify({ version: 1, answers: [{ when: { user: "^" }, text: texts.map((t) => "- " + printable(t) + "\n\n" + printable(t)).join("\n\n") + "\n\n" + "- ".repeat(10_000) + "deep" }] }));

const idOf = (text) => /"run(?:_id)?":\s*"([0-9A-Z]{26})"/.exec(text)[1];
const ran = (...args) => tipstaff(...args, "--json").then(idOf, (e) => idOf(e.stdout));
let run;
for (const plan of plans) run = await ran("run", plan, "--unattended");
const read = await ran("run", "reads.yaml", "--unattended");
const turn = await ran("chat", "Say it.");

await scenario({}, async (page) => {
  const inert = async (where) => {
    const found = await page.evaluate(() => ({ hacked: globalThis.hacked, odd: document.querySelectorAll("main :is(script, iframe, object, embed, base, link, style, img:not(.shown), math)").length, on: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "style" || a.name === "srcdoc")).length }));
    check(!found.hacked && !found.odd && !found.on, `${where}: ${JSON.stringify(found)}`);
  };
  await signIn(page);
  for (const path of ["/ui/", "/ui/runs", ...[run, read].flatMap((r) => ["", "/timeline", "/journal", "/files", "/cost"].map((tab) => "/ui/runs/" + r + tab)), "/ui/runs/" + turn + "/talk", "/ui/sessions", "/ui/runs?q=" + encodeURIComponent(texts[1]), "/ui/compare?a=" + encodeURIComponent(texts[2])]) {
    await page.goto(base + path);
    await inert(path);
    check(await page.isVisible("h1"), path + " is broken");
  }
  await page.goto(base + "/ui/runs/" + turn + "/talk");
  check((await page.textContent(".markdown")).includes("globalThis.hacked"), "what the model said is not shown");
  await page.goto(base + "/ui/");
  const gatesShown = await page.$$eval(".card a", (all) => all.map((a) => a.getAttribute("href")));
  check(gatesShown.length === 2 * texts.length, gatesShown.length + " links to gates are shown, one beside the list and one to a page of its own for each");
  for (const path of gatesShown) {
    await page.goto(base + path);
    await inert(path);
    check(await page.isVisible(".decide .actions button"), path + " cannot be decided");
  }
});

// Who drives a run is killed while somebody watches: the page says so without a reload.
import { base, check, isLive, scenario, signIn, start, tipstaff, until } from "./harness.mjs";
import { readFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";

await scenario({}, async (page) => {
  await signIn(page);
  const run = await start("long.yaml");
  await page.goto(base + "/ui/runs/" + run);
  await isLive(page);
  await until("the run to be driven", async () => (await page.textContent("#part-header")).includes("running"));
  const { pid } = JSON.parse(readFileSync(process.env.TIPSTAFF_FOLDER + "/.tipstaff/runs/" + run + "/supervisor.json", "utf8"));
  await page.evaluate(() => (globalThis.loaded = true));
  const began = Date.now();
  process.kill(pid, "SIGKILL");
  await until("the run to be interrupted", async () => (await page.textContent("#part-header .stands")).includes("interrupted"));
  const took = Date.now() - began;
  check(took < 3_000 || loadavg()[0] > 2 * cpus().length, `the page says so after ${took} ms`);
  check(await page.isVisible("#part-header .life .killed"), "the life line has no jagged break");
  check(await page.isVisible("#part-header form[action$='/resume'] button"), "it cannot be resumed");
  await tipstaff("resume", run, "--detach");
  await until("the run to go on", async () => (await page.textContent("#part-header .stands")).includes("running"));
  check((await page.$$("#part-header form[action$='/resume']")).length === 0, "it can still be resumed");
  check(await page.evaluate(() => globalThis.loaded), "the page was loaded anew");
  await tipstaff("cancel", run);
  await page.waitForSelector("#live", { state: "hidden" });
});

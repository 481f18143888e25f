// Who drives a run is killed while somebody watches: the page says so without a reload.
import { isLive, scenario, signIn, base, start, until } from "./harness.mjs";
import { readFileSync } from "node:fs";

await scenario({}, async (page) => {
  await signIn(page);
  const run = await start("long.yaml");
  await page.goto(base + "/ui/runs/" + run);
  await isLive(page);
  await until("the run to be driven", async () => (await page.textContent("#part-header")).includes("running"));
  const { pid } = JSON.parse(readFileSync(process.env.TIPSTAFF_FOLDER + "/.tipstaff/runs/" + run + "/supervisor.json", "utf8"));
  process.kill(pid, "SIGKILL");
  await until("the run to be interrupted", async () => /interrupted|resume/.test(await page.textContent("#part-header")));
});

// The daemon goes and comes back while a page is open: the session holds, and so does what
// was typed.
import { check, isLive, scenario, signIn, start, until } from "./harness.mjs";
import { writeFileSync, existsSync } from "node:fs";

const ask = async (what) => {
  writeFileSync(process.env.TIPSTAFF_FOLDER + "/" + what + ".asked", "");
  await until(what, () => existsSync(process.env.TIPSTAFF_FOLDER + "/" + what + ".done"));
};

await scenario({}, async (page, state) => {
  await signIn(page);
  await isLive(page);
  await page.fill("#search", "half typed");
  await page.evaluate(() => (globalThis.loaded = true));
  state.away = true;
  await ask("stop");
  await page.waitForSelector('#live[data-state="reconnecting"]');
  await ask("start");
  await isLive(page);
  const run = await start("gate.yaml");
  await page.waitForSelector(`#part-inbox .card:has(a[href*="${run}"])`);
  check((await page.inputValue("#search")) === "half typed", "what was typed is gone");
  check(await page.evaluate(() => globalThis.loaded), "the page was loaded anew");
});

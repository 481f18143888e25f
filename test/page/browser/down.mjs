// The daemon goes and comes back while a page is open: stopped, killed, and as another version.
// What was typed is still there, the session holds, and the page shows the true state.
import { base, check, isLive, openGate, scenario, signIn, start, tipstaff, until } from "./harness.mjs";
import { existsSync, writeFileSync } from "node:fs";

const ask = async (what, limit) => {
  writeFileSync(process.env.TIPSTAFF_FOLDER + "/" + what + ".asked", "");
  await until(what, () => existsSync(process.env.TIPSTAFF_FOLDER + "/" + what + ".done"), limit);
};

await scenario({}, async (page, state) => {
  await signIn(page);
  const run = await start("gate.yaml");
  await openGate(page, run);
  await isLive(page);
  await page.fill("#note", "half a thought");
  await page.evaluate(() => (globalThis.loaded = true));
  const kept = async () => {
    check((await page.inputValue("#note")) === "half a thought", "what was typed is gone");
    check(await page.evaluate(() => globalThis.loaded), "the page was loaded anew");
    check((await page.$$("#banner-signin")).length === 0, "the session does not hold");
  };
  state.away = true;
  for (const [down, up] of [["stop", "start"], ["kill", "revive"]]) {
    await ask(down);
    await page.waitForSelector('#live[data-state="reconnecting"]');
    if (down === "kill") {
      await page.waitForSelector('#live[data-state="lost"]', { timeout: 40_000 });
      check(/not live since \d/.test(await page.textContent("#live")), "the dot says " + (await page.textContent("#live")));
      const before = await page.textContent(".asks time");
      await page.waitForTimeout(11_000);
      check((await page.textContent(".asks time")) === before, "times go on although the page is not live");
    }
    await ask(up);
    if (down === "kill") await page.getByRole("button", { name: "Retry" }).click();
    await isLive(page);
    check((await page.$$("#banner-lost")).length === 0, "the banner stays");
    await kept();
  }
  await tipstaff("decide", run, page.url().split("/").pop(), "approve");
  await page.waitForSelector("#part-gate .closed");
  await kept();

  await page.goto(base + "/ui/");
  await isLive(page);
  await page.fill("#search", "half typed");
  await page.evaluate(() => (globalThis.loaded = true));
  await ask("update", 120_000);
  await page.waitForSelector("#banner-updated", { timeout: 60_000 });
  check((await page.evaluate(() => globalThis.loaded)) && (await page.inputValue("#search")) === "half typed", "the page was loaded by itself");
  await page.getByRole("button", { name: "Reload" }).click();
  await isLive(page);
  check(!(await page.evaluate(() => globalThis.loaded)) && (await page.$$("#banner-updated")).length === 0, "it is not the new version");
});

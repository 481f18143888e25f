// A proof in this browser: a good run holds in both checks; a changed byte and a dropped record
// are found in both, by number; of a route that was signed again chain and signatures hold, and
// the replay finds it.
import { accessible, base, check, scenario, signIn } from "./harness.mjs";

const runs = JSON.parse(process.env.TIPSTAFF_RUNS);

async function checkHere(page, run) {
  await page.goto(`${base}/ui/runs/${run}/proof`);
  await page.getByRole("button", { name: "Check in this browser" }).click();
  await page.waitForFunction(() => document.querySelector("#browser-check .verdict").textContent, null, { timeout: 60_000 });
  const problems = await page.$$eval("#browser-check .problems li", (all) => all.map((li) => li.textContent));
  return { verdict: await page.textContent("#browser-check .verdict"), count: await page.textContent("#browser-check .looked"), problems };
}

await scenario({}, async (page) => {
  await signIn(page);
  for (const { name, run, records, browser, server } of runs) {
    const found = await checkHere(page, run);
    const said = `${name}: ${JSON.stringify(found)}`;
    check(found.count === `${records} records`, said);
    check(found.verdict.startsWith(browser ? "It does not hold" : "Chain and signatures hold"), said);
    check(browser ? found.problems.some((p) => browser.every((want) => p.includes(want))) : !found.problems.length, said);
    if (process.env.TIPSTAFF_SHOTS) await page.screenshot({ path: `${process.env.TIPSTAFF_SHOTS}/proof-${name}.png`, fullPage: true });
    if (!browser) await accessible(page, "a proof that holds");
    await page.getByRole("button", { name: "Verify", exact: true }).click();
    const report = await page.textContent("#report");
    check(server ? server.every((want) => report.includes(want)) : !report.includes("does not hold"), `${name}: ${report}`);
  }
});

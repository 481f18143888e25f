// A proof in this browser: a good run holds in both checks; a changed byte and a dropped record
// are found in both, by number; of a route that was signed again chain and signatures hold, and
// the replay finds it. What is downloaded says the same to whoever checks it elsewhere.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { accessible, base, check, scenario, signIn, tipstaff } from "./harness.mjs";

const runs = JSON.parse(process.env.TIPSTAFF_RUNS);

async function checkHere(page, run) {
  await page.goto(`${base}/ui/runs/${run}/proof`);
  await page.getByRole("button", { name: "Check in this browser" }).click();
  await page.waitForFunction(() => document.querySelector("#browser-check .verdict").textContent, null, { timeout: 60_000 });
  const problems = await page.$$eval("#browser-check .problems li", (all) => all.map((li) => li.textContent));
  return { verdict: await page.textContent("#browser-check .verdict"), count: await page.textContent("#browser-check .looked"), problems };
}

// downloaded is what tipstaff and the verifier in Python say of the very file that a reader is given.
async function downloaded(page, run) {
  const get = async () => {
    const [file] = await Promise.all([page.waitForEvent("download"), page.evaluate((to) => void (location.href = to), `${base}/ui/runs/${run}/export.tar`)]);
    return readFileSync(await file.path());
  };
  const tar = await get();
  check(tar.equals(await get()), "two downloads of one run differ");
  const dir = process.env.TIPSTAFF_FOLDER + "/downloads";
  mkdirSync(dir, { recursive: true });
  writeFileSync(`${dir}/${run}.tar`, tar);
  execFileSync("tar", ["-xf", `${run}.tar`], { cwd: dir });
  const failed = (e) => (e.status ?? e.code) + " " + e.stdout + e.stderr;
  const cli = await tipstaff("verify", `${dir}/${run}`).catch(failed);
  try {
    return { cli, python: execFileSync("python3", ["-B", process.env.TIPSTAFF_VERIFIER, process.env.TIPSTAFF_FOLDER + "/.tipstaff/keys", `${dir}/${run}`], { encoding: "utf8" }) };
  } catch (e) {
    return { cli, python: failed(e) };
  }
}

await scenario({}, async (page) => {
  await signIn(page);
  for (const { name, run, records, browser, server, cli, python } of runs) {
    const elsewhere = await downloaded(page, run);
    for (const want of cli) check(elsewhere.cli.includes(want), `${name}: tipstaff verify does not say ${want}: ${elsewhere.cli}`);
    check(elsewhere.python.includes("\t" + python), `${name}: the verifier in Python does not say ${python}: ${elsewhere.python}`);
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

// A page that is followed: how soon it shows what happens, and where.
import { base, check, isLive, scenario, signIn, start, tipstaff, until } from "./harness.mjs";
import { visible } from "./measure.mjs";

const text = (page, selector) => page.textContent(selector);

// Rows appear within the limit for a run of another process, one by one and none twice.
await scenario({}, async (page) => {
  await signIn(page);
  const run = await start("long-steps.yaml");
  let streams = 0;
  page.on("request", (r) => (streams += r.url().includes("/ui/stream") ? 1 : 0));
  const { rows: came, median, p99 } = await visible(page, run);
  console.log(`${came} rows were visible after ${median} ms (median), ${p99} ms (p99)`);
  check(came > 100, `only ${came} rows came`);
  const rows = () => page.$$eval("table.journal tbody tr", (all) => all.map((r) => Number(r.dataset.key)));
  const shown = await rows();
  await page.reload();
  await page.waitForLoadState("networkidle"); // which a stream would keep from coming
  const fresh = await rows();
  check(String(shown.slice(-fresh.length)) === String(fresh), `rows ${shown} are not those of a fresh page, ${fresh}`);
  check(new Set(shown).size === shown.length, "a row came twice");

  streams = 0;
  await page.goto(`${base}/ui/runs/${run}?at=5`);
  await page.waitForLoadState("networkidle");
  check(streams === 0, "a page as of a record is followed");
});

// Scrolled away from the end, new rows wait at the edge.
await scenario({ viewport: { width: 1280, height: 400 } }, async (page) => {
  await signIn(page);
  const run = await start("long-steps.yaml");
  await page.goto(`${base}/ui/runs/${run}/journal`);
  await isLive(page);
  await page.waitForSelector(".newer:not([hidden])");
  const count = await page.$$eval("table.journal tbody tr", (all) => all.length);
  await until("more to wait", async () => parseInt(await text(page, ".newer")) > 5);
  check((await page.$$eval("table.journal tbody tr", (all) => all.length)) === count, "rows were added out of view");
  await page.click(".newer");
  await until("them to be there", async () => (await page.$$eval("table.journal tbody tr", (all) => all.length)) > count);
  check(await page.isHidden(".newer"), "they still wait");
  await tipstaff("cancel", run);
});

// Runs that come push nothing down.
await scenario({}, async (page) => {
  await signIn(page);
  await start("gate.yaml");
  await page.goto(base + "/ui/runs");
  await isLive(page);
  const before = await page.$eval("table.runs tbody tr", (r) => [r.dataset.key, r.getBoundingClientRect().top]);
  const last = await start("gate.yaml");
  await page.waitForSelector("#part-runs a:has-text('1 new run')");
  await start("gate.yaml");
  await page.waitForSelector("#part-runs a:has-text('2 new runs')");
  const after = await page.$eval("table.runs tbody tr", (r) => [r.dataset.key, r.getBoundingClientRect().top]);
  check(String(before) === String(after), `the first row was ${before}, and is ${after}`);
  await page.click("#part-runs a:has-text('2 new runs')");
  await page.waitForSelector(`tr[data-key="${last}"]`);
});

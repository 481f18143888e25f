// A network that cuts every stream after each event: the page ends as a fresh one, no row twice.
import { base, check, scenario, start, until, tipstaff } from "./harness.mjs";
import { same, words } from "./same.mjs";

await scenario({}, async (page, state) => {
  state.away = true; // streams that break off are told by the browser
  await page.goto(base + "/ui/signin");
  await page.fill("input[name=token]", (await tipstaff("serve", "--token")));
  await page.keyboard.press("Enter");
  await page.waitForURL(base + "/ui/");
  const run = await start("steps.yaml");
  await page.goto(`${base}/ui/runs/${run}/journal`);
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await until("the run to end", async () => (await words(page, "#part-header")).includes("completed"), 90_000);
  await page.waitForSelector("#live", { state: "hidden" });
  const rows = await page.$$eval("table.journal tbody tr", (all) => all.map((r) => Number(r.dataset.key)));
  rows.forEach((seq, i) => check(seq === rows[0] + i, `the rows are ${rows}`));
  await same(page, ["#part-header", "table.journal tbody"]);
});

// Signing in by a link, a run of the terminal that appears, and keys.
import { check, isLive, link, scenario, signIn, start } from "./harness.mjs";

await scenario({}, async (page) => {
  const once = await link();
  await page.goto(once);
  await page.goto(once); // looking does not use it up
  await page.getByRole("button", { name: "Sign in as local" }).click();
  await page.waitForSelector("h1:text('Inbox')");
  await page.goto(once);
  check((await page.textContent("main")).includes("has been used"), "the link works twice");
});

await scenario({}, async (page) => {
  await signIn(page);
  await isLive(page);
  check((await page.textContent("#part-inbox")).includes("Nothing waits for you."), "the inbox is not empty");
  await page.evaluate(() => (globalThis.loaded = true));
  const first = await start("gate.yaml");
  await page.waitForSelector("#part-inbox .card:has-text('Publish?')");
  check(await page.evaluate(() => globalThis.loaded), "the page was loaded anew");

  await page.keyboard.press("j");
  check(await page.evaluate(() => document.activeElement.matches(".card a")), "j does not go to the gate");
  await page.keyboard.press("?");
  await page.waitForSelector("#keys[open]");
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("gr?");
  check((await page.inputValue("#search")) === "gr?", "keys act in fields");
  await page.locator("h1").click();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForURL("**/ui/runs");
  await isLive(page);
  check(await page.isVisible(`tr[data-key="${first}"]`), "the run is not listed");
  const row = await page.evaluateHandle(() => document.querySelector("tr[data-key]"));
  const second = await start("gate.yaml");
  await page.waitForSelector("#part-runs a:has-text('1 new run')");
  check(await row.evaluate((r, id) => r.isConnected && r.dataset.key === id, first), "a row that did not change was replaced");
  await page.click("#part-runs a:has-text('1 new run')");
  await page.waitForSelector(`tr[data-key="${second}"]`);
});

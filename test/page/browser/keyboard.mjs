// The keyboard alone: sign in, find the step that failed, decide, fork, compare.
import { base, check, scenario, until, tipstaff } from "./harness.mjs";
import { ground } from "./ground.mjs";

const runs = await ground();

// tabTo presses Tab until what is wanted has the focus, which must go down the page as one reads.
async function tabTo(page, what, wanted, most = 80) {
  for (let n = 0; n < most; n++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((s) => document.activeElement?.matches(s), wanted)) {
      check(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle !== "none" || document.activeElement.closest("svg")), "the focus on " + what + " cannot be seen");
      return;
    }
  }
  check(false, "Tab does not lead to " + what);
}

await scenario({}, async (page) => {
  await page.goto(base + "/ui/signin?next=/ui/runs");
  await tabTo(page, "the field", "#token");
  await page.keyboard.type((await tipstaff("serve", "--token")));
  await page.keyboard.press("Enter");
  await page.waitForURL(base + "/ui/runs");

  await page.keyboard.press("Tab");
  check(await page.evaluate(() => document.activeElement.matches(".skip")), "the first stop is not the skip link");
  await page.keyboard.press("Enter");
  await tabTo(page, "the filter", '.filters a[href*="status=failed"]');
  await page.keyboard.press("Enter");
  await page.waitForURL("**status=failed**");
  for (let n = 0; n < 10 && !(await page.evaluate((id) => document.activeElement.closest("tr")?.dataset.key === id, runs.failed)); n++) await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/runs/" + runs.failed);
  await tabTo(page, "the step that failed", ".failure a");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/node?path=**");
  check((await page.textContent("main")).includes("addresses.txt cannot be read"), "the error is not shown");

  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await page.waitForURL(base + "/ui/");
  for (let n = 0; n < 10 && !(await page.evaluate((id) => document.activeElement.getAttribute("href")?.includes(id), runs.gate)); n++) await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL("**gate=**");
  await page.keyboard.press("d");
  check(await page.evaluate(() => document.activeElement.matches(".decide .actions button")), "d does not lead to the buttons");
  await page.keyboard.press("Enter"); // too early: it does not decide
  await until("the buttons to be active", () => page.evaluate(() => document.activeElement.getAttribute("aria-disabled") !== "true"));
  await page.keyboard.press("Enter");
  await until("a decision", async () => (await page.textContent("main")).includes("Decided"));

  await page.goto(base + "/ui/runs/" + runs.loop + "/family");
  await tabTo(page, "the comparison", 'main a[href*="/ui/compare"]');
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/compare**");
  check(await page.isVisible(".first-difference"), "nothing is compared");

  await page.goto(base + "/ui/runs/" + runs.loop);
  await page.keyboard.press(".");
  check(await page.evaluate(() => document.activeElement.closest(".run-actions") !== null), "the dot does not lead to the actions");
  for (let n = 0; n < 12 && !/Fork/.test(await page.evaluate(() => document.activeElement.textContent)); n++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  for (let n = 0; n < 20 && !(await page.evaluate(() => document.activeElement.matches('form[action$="/fork"] button:not([disabled])'))); n++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL((to) => /\/ui\/runs\/[0-9A-Z]{26}/.test(to.pathname) && !to.pathname.includes(runs.loop));
  check((await page.textContent("main")).includes("fork of"), "the fork is not shown");
  check(!(await page.$$eval("[tabindex]", (all) => all.some((e) => e.tabIndex > 0))), "something is taken out of the order of reading");
});

// The inbox on a wide screen: a gate beside the list, by the keyboard; what is decided elsewhere
// greys out where it stands, and nothing that is being typed is touched.
import { base, check, isLive, scenario, signIn, start, tipstaff, until } from "./harness.mjs";

const card = (page, run) => page.locator(`#part-inbox li.card:has(a[href*="${run}"])`);
const focused = (page, run) => page.evaluate((run) => document.activeElement.getAttribute("href")?.includes(run), run);

await scenario({}, async (page) => {
  await signIn(page);
  check((await page.textContent("main")).includes("Nothing waits for you."), "the inbox is not empty");
  await isLive(page);
  const runs = [await start("gate.yaml"), await start("gate.yaml"), await start("gate.yaml")];
  for (const run of runs) await card(page, run).waitFor();

  for (const run of [runs[0], runs[1], runs[2], runs[1]]) {
    await page.keyboard.press(run === runs[1] && (await focused(page, runs[2])) ? "k" : "j");
    check(await focused(page, run), "j and k do not go through the list");
  }
  await page.keyboard.press("Enter");
  await page.waitForURL("**gate=**");
  const [list, form] = [await page.locator("#part-inbox").boundingBox(), await page.locator("#decide").boundingBox()];
  check(form.x >= list.x + list.width && form.y < 800, "the gate does not stand beside the list");
  await page.keyboard.press("d");
  await page.keyboard.press("Enter"); // too early
  await isLive(page);
  await page.fill("#note", "half a th");

  await tipstaff("decide", runs[0], "root", "approve", "--note", "from a terminal");
  await until("the first gate to grey out", async () => /Decided: ?approve by local:cli/.test((await card(page, runs[0]).innerText()).replace(/\s+/g, " ")));
  check((await page.locator("#part-inbox li.card").first().getAttribute("class")).includes("past"), "it has left its place");
  await page.keyboard.type("ought");
  check((await page.inputValue("#note")) === "half a thought", "what was typed is " + (await page.inputValue("#note")));
  check(await page.isVisible("#decide .actions button"), "another gate was closed as well");

  await tipstaff("decide", runs[1], "root", "deny");
  await page.waitForSelector("#decide .actions", { state: "detached" });
  check((await page.inputValue("#note")) === "half a thought", "what was typed is lost");
  check((await page.textContent(".facing")).includes("Decided: deny"), "it does not say what was decided");
  await until("the second to grey out", async () => (await card(page, runs[1]).getAttribute("class")).includes("past"));
  check((await page.locator("#part-inbox li.card").count()) === 3, "something has left the list");
  await page.keyboard.press("Tab"); // out of the note
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Escape");
  check(page.url().includes("gate="), "Escape has thrown away what was typed");

  await page.goto(base + "/ui/");
  check((await page.locator("#part-inbox li.card").count()) === 1, "what was decided is there at the next visit");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL("**gate=**");
  await page.waitForSelector("#decide button[value=approve][aria-disabled=false]");
  await page.click("#decide button[value=approve]");
  await until("the decision", async () => (await page.textContent(".facing")).includes("Decided: approve"));
  check(new URL(page.url()).pathname === "/ui/" && (await page.textContent("#part-inbox")).includes("Nothing waits for you."), "it does not come back to the inbox");
  await page.keyboard.press("Escape");
  await page.waitForURL(base + "/ui/");
});

// On a phone the same link is that of the gate's own page.
await scenario({ viewport: { width: 390, height: 800 } }, async (page) => {
  await signIn(page);
  await isLive(page);
  const run = await start("gate.yaml");
  await page.locator(`#part-inbox .card a[href*="${run}"]:visible`).click();
  await page.waitForURL("**/ui/runs/*/gates/*");

  await page.goto(base + "/ui/runs"); // two rows are chosen, and compared
  await page.click("text=Compare two");
  check((await page.textContent("main")).includes("Two ids of runs"), "nothing says what to choose");
  await page.goto(base + "/ui/runs");
  for (const n of [0, 1]) await page.locator('input[name="run"]').nth(n).check();
  await page.click("text=Compare two");
  await page.waitForURL(/\/ui\/compare\?a=[0-9A-Z]{26}&b=[0-9A-Z]{26}$/);
});

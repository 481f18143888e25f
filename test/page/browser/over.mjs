// A form is open, and its gate or its session is over: nothing that was typed is lost.
import { base, check, isLive, openGate, scenario, signIn, start, tipstaff } from "./harness.mjs";

const text = (page, selector) => page.textContent(selector);

// A gate that is decided elsewhere while its form is open: the buttons go, what was typed stays.
await scenario({}, async (page) => {
  await signIn(page);
  const run = await start("gate.yaml");
  await page.goto(base + "/ui/");
  await openGate(page, run);
  await isLive(page);
  await page.fill("#note", "half a thought");
  await page.evaluate(() => (globalThis.form = document.getElementById("decide")));
  const gate = page.url().split("/").pop();
  await tipstaff("decide", run, gate, "deny", "--note", "from elsewhere");
  await page.waitForSelector("#part-gate .closed");
  check((await text(page, "#part-gate")).includes("from elsewhere"), "the stored decision is not shown");
  check((await page.$$("#decide button")).length === 0, "there are buttons");
  check((await text(page, "#decide [role=alert]")).includes("This gate was closed"), "nobody is told");
  check((await page.inputValue("#note")) === "half a thought" && (await page.evaluate(() => form.isConnected)), "what was typed is gone");
  await page.waitForSelector("#live", { state: "hidden" });
});

// The session ends while something is typed: after signing in it is still there.
await scenario({}, async (page, state) => {
  await signIn(page);
  const run = await start("gate.yaml");
  await page.goto(base + "/ui/");
  await openGate(page, run);
  await isLive(page);
  const at = page.url();
  await page.fill("#note", "half a thought");
  state.away = true; // answers of 401 are told by the browser
  const other = await page.context().newPage();
  await other.goto(base + "/ui/settings");
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.close();
  await page.getByRole("button", { name: "Sign in" }).click({ timeout: 30_000 });
  await page.waitForURL("**/ui/signin?next=*");
  await page.fill("input[name=token]", (await tipstaff("serve", "--token")));
  await page.keyboard.press("Enter");
  await page.waitForURL(at);
  check((await page.inputValue("#note")) === "half a thought", "what was typed is gone");
  await isLive(page);
});

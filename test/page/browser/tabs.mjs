// Eight tabs of one browser: all load and stay current, four by a stream and four by asking.
// Hidden ones hold no connection.
import { base, check, isLive, openGate, scenario, signIn, start, tipstaff, until } from "./harness.mjs";

// hide does what a browser does to a tab that nobody sees.
const hide = (page, hidden) => page.evaluate((hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}, hidden);

await scenario({}, async (first) => {
  await signIn(first);
  const tabs = [first];
  const clock = first.context().clock; // of all tabs
  await clock.install();
  const streams = new Map(); // by tab, requests that are open
  const asked = new Map(); // by tab, requests for the count
  const watch = (page) => {
    streams.set(page, new Set());
    asked.set(page, 0);
    page.on("request", (r) => {
      if (r.url().includes("/ui/stream")) streams.get(page).add(r);
      if (r.url().includes("/ui/whoami")) asked.set(page, asked.get(page) + 1);
    });
    for (const over of ["requestfinished", "requestfailed"]) page.on(over, (r) => streams.get(page).delete(r));
  };
  while (tabs.length < 8) tabs.push(await first.context().newPage());
  const open = () => tabs.filter((p) => streams.get(p).size).length;
  for (const page of tabs) {
    watch(page);
    await page.goto(base + "/ui/");
    await isLive(page);
  }
  check(open() === 4, `${open()} of eight tabs hold a stream`);
  const began = Date.now();
  const run = await start("gate.yaml");
  await Promise.all(tabs.map((p) => p.waitForSelector(`#part-inbox .card:has(a[href*="${run}"])`, { timeout: 10_000 })));
  console.log(`eight tabs were current after ${Date.now() - began} ms, with the start of the run`);
  check(Date.now() - began < 5_000 + 5_000, "they were not current in time"); // 5 s, and what it takes to start a run
  for (const page of tabs) check((await page.title()).startsWith("(1) "), "the title of a tab is " + (await page.title()));

  // One without a stream decides.
  const polling = tabs.find((p) => !streams.get(p).size);
  await openGate(polling, run);
  const button = polling.locator("#decide button[value=approve]");
  await until("the button to be active", async () => (await button.getAttribute("aria-disabled")) === "false");
  await button.click();
  await polling.waitForSelector("#part-gate .closed");
  for (const page of tabs.filter((p) => p !== polling)) await page.waitForSelector("text=Nothing waits for you.", { timeout: 10_000 });

  // One without a stream asks no more of a run that has ended.
  const over = await start("gate.yaml");
  await polling.goto(`${base}/ui/runs/${over}`);
  await isLive(polling);
  check(!streams.get(polling).size, "the tab has found a place");
  await tipstaff("cancel", over);
  await polling.waitForSelector("#live", { state: "hidden" });
  check((await polling.textContent("#part-header")).includes("cancelled"), "the end is not shown");
  let asks = 0;
  polling.on("request", () => asks++);
  await clock.runFor(10_000);
  check(asks === 0, `it asks ${asks} times after the end`);

  // Those that nobody sees let go, and ask how much waits.
  const holding = tabs.filter((p) => streams.get(p).size);
  for (const page of holding) await hide(page, true);
  await clock.runFor(20_000);
  await until("those hidden for less to hold theirs", () => holding.every((p) => streams.get(p).size));
  for (const page of holding) asked.set(page, 0);
  await clock.runFor(11_000);
  await until("the hidden ones to let go", () => holding.every((p) => !streams.get(p).size));
  await clock.runFor(31_000);
  await until("the hidden ones to ask how much waits", () => holding.every((p) => asked.get(p) >= 1));
  await until("others to take their places", () => open() >= 3);
  const again = await start("gate.yaml");
  await tabs.find((p) => !holding.includes(p) && p !== polling).waitForSelector(`#part-inbox .card:has(a[href*="${again}"])`);
  for (const page of holding) {
    await until("the count of a hidden tab", async () => {
      await clock.runFor(31_000); // the answer before may have come late, and the next question with it
      return (await page.title()).startsWith("(1) ");
    });
  }
  check(holding.every((p) => !streams.get(p).size), "a hidden tab holds a stream");
  await hide(holding[0], false);
  await holding[0].waitForSelector(`#part-inbox .card:has(a[href*="${again}"])`);
});

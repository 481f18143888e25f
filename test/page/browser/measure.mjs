// What is measured in a browser: by scenarios, which check it, and by the figures, which print it.
import { base, check, isLive, tipstaff, until } from "./harness.mjs";
import { same, words } from "./same.mjs";

const part = (all, share) => all.sort((a, b) => a - b)[Math.ceil(all.length * share) - 1];

// paint opens a page some times: how long until something is seen of it (the median, and the
// longest), and how many requests are made by then: on a busy machine also those that it does not
// wait for, so the fewest count.
export async function paint(page, path, times = 5) {
  const all = [];
  let requests = Infinity;
  for (let i = 0; i < times; i++) {
    await page.goto(base + path);
    const [first, many] = await page.evaluate(async () => {
      const first = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
      while (!first()) await new Promise((r) => setTimeout(r, 5));
      return [first(), 1 + performance.getEntriesByType("resource").filter((r) => r.startTime < first()).length];
    });
    all.push(first);
    requests = Math.min(requests, many);
  }
  return { ms: part(all, 0.5), cold: all.at(-1), requests };
}

// visible follows the journal of a run to its end: how long after its time each row was seen.
export async function visible(page, run) {
  await page.goto(`${base}/ui/runs/${run}/journal`);
  await isLive(page);
  await page.evaluate(() => {
    scrollTo(0, document.body.scrollHeight); // from where on the page stays at the end
    globalThis.took = [];
    new MutationObserver((all) => {
      for (const row of all.flatMap((m) => [...m.addedNodes]).filter((n) => n.dataset?.key)) {
        const at = Date.parse(row.querySelector("time").dateTime);
        requestAnimationFrame(() => took.push(Date.now() - at));
      }
    }).observe(document.querySelector("tbody[data-live]"), { childList: true });
  });
  await until("the run to end", async () => (await words(page, "#part-header")).includes("completed"), 120_000);
  await page.waitForSelector("#live", { state: "hidden" });
  const took = await page.evaluate(() => took);
  return { rows: took.length, median: part(took, 0.5), p99: part(took, 0.99) };
}

// flood follows a run that writes much for so many seconds, and then cancels it: how soon the page
// answers to keys meanwhile, what its script holds, and whether it has become what a fresh one is.
export async function flood(page, run, seconds) {
  await page.goto(`${base}/ui/runs/${run}`);
  await isLive(page);
  const tools = await page.context().newCDPSession(page);
  const heap = async () => {
    await tools.send("HeapProfiler.collectGarbage");
    return (await tools.send("Runtime.getHeapUsage")).usedSize;
  };
  const record = async () => Number(/record ([\d,]+)/.exec(await words(page, "#part-header"))[1].replaceAll(",", ""));
  await page.evaluate(() => {
    globalThis.answered = [];
    addEventListener("keydown", (e) => {
      const painted = new MessageChannel();
      painted.port1.onmessage = () => answered.push(performance.now() - e.timeStamp);
      requestAnimationFrame(() => painted.port2.postMessage(0));
    }, true);
  });
  const from = await record();
  const began = Date.now();
  let settled = 0;
  let elements = 0;
  for (let gone = 0; gone < seconds; gone = (Date.now() - began) / 1000) {
    await page.keyboard.press("?");
    await page.waitForSelector("#keys[open]");
    await page.keyboard.press("Escape");
    await page.waitForTimeout(500);
    if (!settled && gone >= seconds / 5) settled = await heap();
    elements = Math.max(elements, await page.evaluate(() => document.querySelectorAll("*").length));
  }
  const bytes = await heap();
  const rate = ((await record()) - from) / ((Date.now() - began) / 1000);
  const answered = await page.evaluate(() => answered);
  await tipstaff("cancel", run);
  await until("the run to end", async () => (await words(page, "#part-header")).includes("cancelled"), 60_000);
  await page.waitForSelector("#live", { state: "hidden", timeout: 60_000 });
  await same(page, ["#part-header", "#part-graph", "#part-tree"]);
  return { rate, p95: part(answered, 0.95), keys: answered.length, bytes, grew: bytes - settled, elements };
}

// proven checks a run in the browser: how long that takes, and the longest that the page was not
// there for anything else.
export async function proven(page, run) {
  await page.goto(`${base}/ui/runs/${run}/proof`);
  await page.evaluate(() => {
    globalThis.longest = 0;
    let last = performance.now();
    setInterval(() => ((longest = Math.max(longest, performance.now() - last)), (last = performance.now())), 10);
  });
  const began = Date.now();
  await page.getByRole("button", { name: "Check in this browser" }).click();
  await page.waitForFunction(() => document.querySelector("#browser-check .verdict").textContent, null, { timeout: 300_000 });
  const ms = Date.now() - began;
  const said = await words(page, "#browser-check .verdict");
  check(said.startsWith("Chain and signatures hold"), said);
  return { ms, longest: await page.evaluate(() => longest), said };
}

// A slow network: the page arrives at the true state, and the run does not wait for it.
import { base, check, isLive, scenario, signIn, start, until } from "./harness.mjs";
import { same, words } from "./same.mjs";

await scenario({}, async (page) => {
  await signIn(page);
  const alone = await drive(page);
  const seconds = Number(process.env.TIPSTAFF_SLOW_SECONDS ?? 15);
  const slow = await drive(page, seconds);
  check(slow < alone * 1.5 + 1_000, `the run took ${slow} ms, and ${alone} ms when nobody was slow`);
});

// drive follows a run to its end and gives how long it was driven; slow: for so many seconds 2 kB
// pass in each.
async function drive(page, slow) {
  const run = await start("long-steps.yaml");
  await page.goto(`${base}/ui/runs/${run}`);
  await isLive(page);
  const net = await page.context().newCDPSession(page);
  if (slow) {
    await net.send("Network.emulateNetworkConditions", { offline: false, latency: 100, downloadThroughput: 2_000, uploadThroughput: 2_000 });
    await page.waitForTimeout(slow * 1_000);
    await net.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  }
  await until("the run to end", async () => (await words(page, "#part-header")).includes("completed"), 60_000);
  await page.waitForSelector("#live", { state: "hidden", timeout: 60_000 });
  await same(page, ["#part-header", "#part-tree"]);
  const times = await page.evaluate(async () => {
    const rows = async (query) => (await fetch(location.pathname + "/journal" + query + "&part=journal-rows")).text();
    const at = (html) => [...html.matchAll(/datetime="([^"]+)"/g)].map((m) => Date.parse(m[1]));
    return at(await rows("?after=0"));
  });
  return Math.max(...times) - Math.min(...times);
}

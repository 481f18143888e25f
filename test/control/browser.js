// A page of the daemon's origin follows a run by EventSource, and prints a line of JSON for
// each thing that it is told: what it was, and the id that came with it.
//
//   node browser.js MODULES CHROMIUM URL AUTHORIZATION RUN KIND...
"use strict";
const [modules, chromium, url, authorization, run, ...kinds] = process.argv.slice(2);
const playwright = require("node:module").createRequire(modules + "/")("playwright-core");

async function main() {
  const browser = await playwright.chromium.launch({
    executablePath: chromium,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"],
  });
  // What the daemon answers at / allows no scripts: this one stands for a page that would.
  const context = await browser.newContext({ extraHTTPHeaders: { Authorization: authorization }, bypassCSP: true });
  const page = await context.newPage();
  page.setDefaultTimeout(120000);
  await page.exposeFunction("tell", (told) => console.log(JSON.stringify(told)));
  await page.goto(url + "/");
  await page.evaluate(([run, kinds]) => new Promise((resolve) => {
    const source = new EventSource("/runs/" + run + "/events");
    source.onopen = () => tell({ kind: "open" });
    // It comes back by itself, until it is told that there is nothing more.
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) tell({ kind: "closed" }).then(resolve); else tell({ kind: "lost" }); };
    for (const kind of [...kinds, "end", "message"]) source.addEventListener(kind, (e) => tell({ kind, id: e.lastEventId }));
  }), [run, kinds]);
  await browser.close();
}

main().catch((err) => { console.error(err); process.exit(1); });

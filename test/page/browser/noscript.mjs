// Without scripts everything works but what is live: pages, filters, moments, deciding.
import { base, check, scenario, signIn } from "./harness.mjs";
import { ground, pagesOf } from "./ground.mjs";

const runs = await ground();

await scenario({ javaScriptEnabled: false }, async (page, state) => {
  await signIn(page);
  const all = await pagesOf(page, runs);
  for (const [name, path] of Object.entries(all)) {
    state.missing = name === "missing";
    const res = await page.goto(base + path);
    check(res.status() === (state.missing ? 404 : 200), `${name} is answered ${res.status()}`);
    check(await page.isVisible("h1"), name + " has no title");
  }
  await page.goto(base + all["run-loop"]);
  check(/Reload to see what is new after record \d+/.test(await page.textContent("main")), "nobody says that one has to reload");
  check(await page.isVisible(".graph .stage"), "the graph is not drawn");

  await page.goto(base + all.at);
  await page.click(".at a[rel=next]");
  check(page.url().includes("at=41"), "the next moment is " + page.url());
  await page.goto(base + "/ui/runs");
  await page.click('.filters a[href*="status=failed"]');
  check((await page.textContent("table.runs")).includes("post-letters") && !(await page.textContent("table.runs")).includes("gather-notes"), "the filter does not filter");
  await page.fill("#search", "gather");
  await page.press("#search", "Enter");
  check((await page.textContent("main")).includes("gather-notes"), "nothing is found");

  await page.goto(base + all.gate);
  await page.fill("#note", "by hand");
  await page.click(".decide button[value=deny]");
  check((await page.textContent("main")).includes("Nothing is written yet"), "a decision is not confirmed");
  await page.click(".decide button[value=deny]");
  const told = await page.textContent("main");
  check(told.includes("Decided") && told.includes("by hand"), "the decision is not there");

  await page.goto(base + "/ui/settings");
  await page.check("input[name=theme][value=dark]");
  await page.click("form[action='/ui/settings'] button");
  check((await page.getAttribute("html", "data-theme")) === "dark", "the theme is not kept");
  await page.click("form[action='/ui/signout'] button");
  check((await page.goto(base + "/ui/runs")).url().includes("/ui/signin"), "one is still signed in");
});

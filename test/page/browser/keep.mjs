// What updates leave alone: focus, selection, scroll, closed rows and typed text.
import { base, check, scenario, signIn, start, until } from "./harness.mjs";

const text = (page, selector) => page.textContent(selector);

await scenario({ viewport: { width: 1280, height: 500 } }, async (page) => {
  await signIn(page);
  const run = await start("steps.yaml");
  await page.goto(`${base}/ui/runs/${run}`);
  await until("the run to end", async () => (await text(page, "#part-header")).includes("completed"), 60_000);
  await page.waitForSelector("#live", { state: "hidden" });
  await page.fill("#search", "half typed");
  const before = await page.evaluate(async () => {
    const all = (id) => [...document.querySelectorAll("#part-tree li[data-key]")].find((r) => r.querySelector(".name").textContent === id);
    const closed = all("first").querySelector("details");
    closed.open = false;
    const row = all("second3");
    document.body.style.paddingBottom = "1000px"; // earlier states are shorter: they must not end the page above the row
    row.scrollIntoView({ block: "center" });
    row.querySelector("a.name").focus();
    const chosen = all("second5").querySelector(".name").firstChild;
    getSelection().setBaseAndExtent(chosen, 0, chosen, 4);
    globalThis.kept = { row, closed, top: () => Math.round(row.getBoundingClientRect().top), selected: () => String(getSelection()) };
    return { top: kept.top(), selected: kept.selected() };
  });
  check(before.selected === "seco", "nothing is selected: " + before.selected);
  const wrong = await page.evaluate(async (before) => {
    const module = await import(document.querySelector("script[type=module]").src.replace("app.js", "parts.js"));
    const states = [];
    const head = Number(/record ([\d,]+)/.exec(document.querySelector("#part-header").textContent)[1].replace(",", ""));
    for (let at = Math.round(head * 0.75); at <= head; at += 2) {
      const part = async (name) => (await fetch(`?part=${name}&at=${at}`)).text();
      states.push({ tree: await part("tree"), header: await part("header") });
    }
    for (let n = 0; n < 1000; n++) {
      const { tree, header } = states[n % states.length];
      module.apply("tree", tree);
      module.apply("header", header);
      if (n % 50 === 0) await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
      const is = { top: n % 50 ? before.top : kept.top(), selected: kept.selected(), focus: kept.row.contains(document.activeElement), closed: !kept.closed.open && kept.closed.isConnected };
      if (is.top !== before.top || is.selected !== before.selected || !is.focus || !is.closed) return `after ${n} updates: ${JSON.stringify(is)}, before: ${JSON.stringify(before)}`;
    }
    for (const name of ["tree", "header"]) module.apply(name, await (await fetch("?part=" + name)).text());
    getSelection().removeAllRanges();
    document.activeElement.blur();
    await new Promise((r) => setTimeout(r, 100));
    return "";
  }, before);
  check(!wrong, wrong);
  check((await page.inputValue("#search")) === "half typed", "what was typed is gone");
  const shown = (await text(page, "#part-tree")).replaceAll(/\s+/g, " ");
  await page.reload();
  check((await text(page, "#part-tree")).replaceAll(/\s+/g, " ") === shown, "once it was left, the tree is not that of a fresh page");
});

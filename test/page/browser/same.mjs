// Whether a page that was followed has become what a fresh one is.
import { check } from "./harness.mjs";

export const words = async (page, selector) => (await page.textContent(selector)).replaceAll(/\s+/g, " ");

// same fails if a page is not what a fresh one is. Times are told by the clock.
export const same = async (page, selectors) => {
  const facts = () => Promise.all(selectors.map((s) => page.$eval(s, (e) => {
    const copy = e.cloneNode(true);
    copy.querySelectorAll("time").forEach((t) => (t.textContent = t.dateTime));
    return [...copy.querySelectorAll("tr, li, p, dd, h1")].map((e) => e.textContent.replaceAll(/\s+/g, " ").trim()).join("\n");
  })));
  const shown = await facts();
  await page.reload();
  const fresh = await facts();
  fresh.forEach((f, i) => check(f === shown[i], `${selectors[i]} is\n${shown[i]}\nand of a fresh page\n${f}`));
};

// Every page in both themes and two widths: axe finds nothing, and with TIPSTAFF_SHOTS each is
// drawn into that folder for the eye.
import { accessible, base, check, scenario, signIn, start } from "./harness.mjs";

const run = await start("gate.yaml");

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    await scenario({ colorScheme, viewport: { width, height: 800 } }, async (page) => {
      const seen = async (name) => {
        if (process.env.TIPSTAFF_SHOTS) await page.screenshot({ path: `${process.env.TIPSTAFF_SHOTS}/${name}-${colorScheme}-${width}.png`, fullPage: true });
        await accessible(page, `${name}, ${colorScheme}, ${width}`);
        check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width}`);
      };
      await page.goto(base + "/ui/signin");
      await seen("signin");
      await signIn(page);
      const todo = ["/ui/", "/ui/runs", "/ui/settings", "/ui/runs/" + run];
      const had = new Set();
      while (todo.length) {
        const path = todo.shift();
        const name = path.replaceAll(/[0-9A-Z]{26}/g, "").replaceAll(/[^a-z]+/g, "-").replaceAll(/^-|-$/g, "");
        if (had.has(name)) continue;
        had.add(name);
        const res = await page.goto(base + path);
        if (res.status() >= 500) check(false, path + " is answered " + res.status());
        await seen(name);
        // What a run links to is looked at once of each kind.
        const more = await page.$$eval("main a[href^='/ui/runs/'], .rail a", (all) => all.map((a) => a.getAttribute("href").split("?")[0]));
        todo.push(...more.filter((p) => !p.endsWith(".tar") && !p.includes("/files/") && !p.endsWith("/export")));
      }
    });
  }
}

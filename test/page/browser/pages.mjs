// Every page in both themes and two widths: axe finds nothing, nothing is wider than the window, and
// with TIPSTAFF_SHOTS each is drawn into that folder for the eye.
import { accessible, base, check, scenario, signIn } from "./harness.mjs";
import { ground, pagesOf } from "./ground.mjs";

const only = process.env.TIPSTAFF_SHOT?.split(",");
const runs = await ground();

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    await scenario({ colorScheme, viewport: { width, height: 800 } }, async (page, state) => {
      const seen = async (name) => {
        if (process.env.TIPSTAFF_SHOTS) await page.screenshot({ path: `${process.env.TIPSTAFF_SHOTS}/${name}-${colorScheme}-${width}.png`, fullPage: true });
        await accessible(page, `${name}, ${colorScheme}, ${width}`);
        check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width}`);
      };
      await page.goto(base + "/ui/signin");
      await seen("signin");
      await signIn(page);
      for (const [name, path] of Object.entries(await pagesOf(page, runs))) {
        if (only && !only.includes(name)) continue;
        state.missing = name === "missing";
        const res = await page.goto(base + path);
        check(res.status() === (state.missing ? 404 : 200), `${name} (${path}) is answered ${res.status()}`);
        await seen(name);
      }
    });
  }
}

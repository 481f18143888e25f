// Draws the gate that a run waits at, in both themes: picture.mjs FOLDER LINK RUN.
import { createRequire } from "node:module";

const { chromium } = createRequire(process.env.TIPSTAFF_MODULES + "/")("playwright-core");
const [folder, link, run] = process.argv.slice(2);

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
const context = await browser.newContext({ viewport: { width: 1100, height: 640 } });
const page = await context.newPage();
await page.goto(link);
await page.getByRole("button", { name: "Sign in as local" }).click();
await page.goto(new URL("/ui/", link).href);
await page.goto(new URL(await page.getAttribute(`#part-inbox .card a[href*="${run}/gates/"]`, "href"), link).href);
for (const colorScheme of ["light", "dark"]) {
  await page.emulateMedia({ colorScheme });
  await page.screenshot({ path: `${folder}/approval-${colorScheme}.png`, fullPage: true });
}
await browser.close();

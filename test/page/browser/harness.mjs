// What every scenario stands on: a browser that fails on whatever a page must not do.
import { createRequire } from "node:module";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

const require = createRequire(process.env.TIPSTAFF_MODULES + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const base = process.env.TIPSTAFF_PAGE;
export const api = "http://127.0.0.1:" + new URL(base).port; // for programs, which do not all know names that end on .localhost
const run = promisify(execFile);

// tipstaff runs the command in the workspace of the daemon.
export const tipstaff = async (...args) => {
  const running = run(process.env.TIPSTAFF_BINARY, args, { cwd: process.env.TIPSTAFF_FOLDER, maxBuffer: 1 << 26 });
  running.child.stdin.end(); // nobody types
  return (await running).stdout.trim();
};

// start begins a run in a process of its own, as a person at a terminal does.
export const start = async (file) => /"run_id":\s*"([0-9A-Z]{26})"/.exec(await tipstaff("run", file, "--detach", "--json"))[1];

// records are those of a kind that a run has.
export const records = async (run, kind) => (await tipstaff("events", run, "--json")).split("\n").map((line) => JSON.parse(line)).filter((e) => e.kind === kind);

export const link = () => tipstaff("serve", "--link", "--addr", "127.0.0.1:" + new URL(base).port);

export const check = (ok, text) => {
  if (!ok) throw new Error(text);
};

// until waits for a condition; the time is a limit, not a measure.
export const until = async (what, done, limit = 20_000) => {
  for (const began = Date.now(); !(await done()); await new Promise((r) => setTimeout(r, 50))) check(Date.now() - began < limit, "in vain: " + what);
};

// scenario runs one in a browser of its own. away lets requests fail while the daemon is, missing
// lets a page be missing.
export async function scenario(options, act) {
  const browser = await chromium.launch({ executablePath: process.env.TIPSTAFF_CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
  const wrong = [];
  const state = { away: false };
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const page = await context.newPage();
    context.on("weberror", (e) => wrong.push("error: " + e.error().message)); // of all tabs
    context.on("console", (m) => {
      const lost = (state.away && /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to load resource/.test(m.text())) || (state.missing && / 404 /.test(m.text()));
      if (["error", "warning"].includes(m.type()) && !lost) wrong.push("console: " + m.text());
    });
    context.on("request", (r) => new URL(r.url()).host === new URL(base).host || state.thief || wrong.push("another host: " + r.url()));
    await act(page, state);
    check(!wrong.length, wrong.join("\n"));
  } finally {
    await browser.close();
  }
}

// openGate goes from the inbox to the page of the gate that a run waits at.
export const openGate = async (page, run) => page.goto(base + (await page.getAttribute(`#part-inbox .card a[href*="${run}/gates/"]`, "href")));

// signIn opens a link and presses its button.
export async function signIn(page) {
  await page.goto(await link());
  await page.getByRole("button", { name: "Sign in as local" }).click();
  await page.waitForURL(base + "/ui/");
}

export const isLive = (page) => page.waitForSelector('#live[data-state="live"]:not([hidden])');

// accessible fails on what axe finds. It runs outside of the page's own rules.
export async function accessible(page, where) {
  await page.evaluate(axe); // by the protocol, which no policy of the page concerns
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  check(!violations.length, where + ": " + violations.map((v) => `${v.id} (${v.help}): ${v.nodes.map((n) => n.html).join(" ").slice(0, 400)}`).join("\n"));
}

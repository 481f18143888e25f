// Decisions: nothing that was clicked or typed before a gate was on the screen, at rest and for a
// while, answers it. Every kind of haste is tried TIPSTAFF_WEB_TRIES times, all kinds at once.
import { readFileSync } from "node:fs";
import { api, base, check, scenario, signIn, until, tipstaff } from "./harness.mjs";

const tries = Number(process.env.TIPSTAFF_WEB_TRIES ?? 5);
const bearer = { Authorization: "Bearer " + (await tipstaff("serve", "--token")) };
const program = readFileSync(process.env.TIPSTAFF_FOLDER + "/gate.yaml", "utf8");
const rest = (ms) => new Promise((r) => setTimeout(r, ms));

const get = async (path) => (await fetch(api + path, { headers: bearer })).json();

// opened is the address of a gate that waits, and of its run.
async function opened() {
  const made = await fetch(api + "/runs", { method: "POST", headers: { ...bearer, "Content-Type": "application/json" }, body: JSON.stringify({ program }) });
  const { run } = await made.json();
  let gate;
  await until("a gate", async () => (gate = (await get("/runs/" + run)).open_gates?.[0]?.gate_id));
  return { run, path: `/ui/runs/${run}/gates/${gate}` };
}

const isOpen = async ({ run }) => (await get("/runs/" + run)).open_gates.length > 0;

const button = (page) => page.locator("#decide button[value=approve]");

// active waits until the button can be pressed, and says where its middle is.
async function active(page) {
  await page.waitForSelector("#decide button[value=approve][aria-disabled=false]");
  const { x, y, width, height } = await button(page).boundingBox();
  return [x + width / 2, y + height / 2];
}

// What a page saw, and when, tells whether a decision was meant: it is kept for the page after it.
function watch() {
  const saw = { at: {} };
  const keep = () => {
    saw.painted = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 1e9;
    sessionStorage.setItem("saw", JSON.stringify(saw));
  };
  if (/done=/.test(location.search)) return;
  sessionStorage.setItem("saw", JSON.stringify(saw));
  for (const kind of ["pointerdown", "keydown", "click"]) addEventListener(kind, (e) => { saw.at[kind] = e.timeStamp; keep(); }, { capture: true });
  addEventListener("submit", (e) => { saw.sent = e.submitter?.value; keep(); });
  globalThis.shift = (after) => setTimeout(() => {
    const first = document.querySelector("#decide button[value=approve]");
    if (!first) return; // it is decided
    const room = document.createElement("span");
    room.style.width = first.offsetWidth + "px";
    room.style.marginRight = "-" + getComputedStyle(first.parentNode).columnGap;
    first.before(room);
    room.getBoundingClientRect();
    saw.moved = performance.now();
    keep();
  }, after);
}

async function seen(page) {
  let saw;
  await until("what it saw", async () => (saw = JSON.parse(await page.evaluate(() => sessionStorage.getItem("saw")).catch(() => null)))); // a page may be on its way
  return saw;
}

// each tries something with gates, and counts those that were decided although nobody meant it.
// act returns whether a decision was meant.
async function each(name, page, act) {
  let gate = await opened();
  let unmeant = 0;
  let meant = 0;
  for (let i = 0; i < tries; i++) {
    const told = await act(gate, i);
    if (await isOpen(gate)) continue;
    if (told.meant) meant++;
    else unmeant++;
    console.log(new Date().toISOString(), name, i, told.meant ? "meant" : "NOT MEANT", JSON.stringify(told));
    gate = await opened();
  }
  check(!unmeant, `${name}: ${unmeant} of ${tries} decided what nobody meant`);
  console.log(`${name}: ${tries} tries, ${meant} decisions that were meant`);
}

// Clicks and keys that were made before the gate was there.
async function queued(page) {
  await page.goto(base + (await opened()).path);
  const [x, y] = await active(page);
  await each("queued", page, async (gate, i) => {
    await page.goto(base + "/ui/settings");
    await page.mouse.move(x, y);
    const there = page.goto(base + gate.path, { waitUntil: "commit" });
    const began = Date.now();
    while (Date.now() - began < 200 + (i % 5) * 60) {
      if (i % 2) await page.mouse.click(x, y);
      else {
        await page.keyboard.press("d"); // which goes to the first button, and decides nothing
        await page.keyboard.press(i % 4 ? "Enter" : "Space");
      }
    }
    await there;
    await rest(300);
    const saw = await seen(page);
    // The browser may take a click up late: it counts from when it was made and the page was there.
    saw.meant = Math.max(saw.at.pointerdown ?? 0, saw.at.keydown ?? 0) - saw.painted >= 600;
    return saw;
  });
}

// Enter that decides one gate and is held at the next.
async function held(page) {
  const first = { gate: await opened() };
  await each("held", page, async (gate) => {
    if (!(await isOpen(first.gate))) first.gate = await opened();
    await page.goto(base + first.gate.path);
    await active(page);
    await button(page).focus();
    await page.keyboard.down("Enter");
    await page.waitForURL("**?done=recorded");
    await page.goto(base + gate.path);
    await button(page).focus();
    for (const began = Date.now(); Date.now() - began < 1000; await rest(33)) await page.keyboard.down("Enter");
    await page.keyboard.up("Enter");
    await rest(100);
    return {};
  });
}

// A double click whose first half decides one gate while the other half meets the next.
async function twice(page) {
  const first = { gate: await opened() };
  await each("twice", page, async (gate, i) => {
    if (!(await isOpen(first.gate))) first.gate = await opened();
    await page.goto(base + first.gate.path);
    const [x, y] = await active(page);
    await page.mouse.click(x, y);
    await page.waitForURL("**?done=recorded");
    await page.goto(base + gate.path, { waitUntil: "commit" });
    await page.waitForSelector("#decide button[value=approve]", { state: "attached" });
    await rest((i % 6) * 50);
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    await rest(300);
    return {};
  });
}

// Something above the buttons appears at the moment of the click, and another button stands where
// the first one was.
async function moved(page) {
  await each("moved", page, async (gate, i) => {
    await page.goto(base + gate.path);
    const [x, y] = await active(page);
    await page.mouse.move(x, y);
    const shifted = page.evaluate((after) => void globalThis.shift(after), (i * 7) % 40);
    await rest((i * 3) % 20);
    await page.mouse.down();
    await page.mouse.up();
    await shifted.catch(() => {}); // the page may be another by now
    await rest(300);
    const saw = await seen(page);
    // Meant is what was pressed and let go before anything had moved, and was that very button.
    saw.meant = saw.sent === "approve" && !(saw.moved < saw.at.click);
    return saw;
  });
}

await Promise.all([queued, held, twice, moved].map((haste) => scenario({}, async (page) => {
  await signIn(page);
  await page.addInitScript(watch);
  await haste(page);
})));

// What is clicked before a button is active decides nothing, whenever the page gets to know of it.
import { base, check, records, scenario, signIn, start, until } from "./harness.mjs";

const approve = "form.decide button[value=approve]";
const active = (page) => page.waitForSelector(approve + "[aria-disabled=false]");
const rest = (ms) => new Promise((r) => setTimeout(r, ms));

// at has a browser at a gate that was just opened. After act nothing may be decided, and then one
// click that is meant does. On a machine that is busy a press may come too late to be too early: then
// it was no try.
const at = (act) => scenario({}, async (page) => {
  await page.addInitScript(() => addEventListener("pointerdown", (e) => sessionStorage.setItem("pressed", e.timeStamp - (globalThis.began ?? Infinity)), { capture: true }));
  await signIn(page);
  for (let tries = 1; ; tries++) {
    const run = await start("gate.yaml");
    let gate;
    await until("the gate", async () => {
      await page.goto(base + "/ui/");
      return (gate = await page.getAttribute(`#part-inbox a[href*="${run}/gates/"]`, "href", { timeout: 1_000 }).catch(() => null));
    });
    await act(page, base + gate);
    await rest(700); // as long as a decision could be under way
    if (tries < 5 && (await page.evaluate(() => Number(sessionStorage.getItem("pressed")) >= 600))) continue;
    const none = (await records(run, "policy.gate.resolve")).length;
    check(none === 0, `${none} decisions that nobody meant`);
    await active(page);
    await page.click(approve);
    await page.waitForURL("**?done=recorded");
    check((await records(run, "policy.gate.resolve")).length === 1, "a decision that was meant is not written");
    return;
  }
});

// middle is where a button stands.
const middle = async (page) => {
  const { x, y, width, height } = await page.locator(approve).boundingBox();
  return [x + width / 2, y + height / 2];
};

// Before its script is there a gate is a plain form: a click leads to a page that asks once more.
// That page decides nothing either before its script is there.
await at(async (page, gate) => {
  let go;
  const slow = new Promise((r) => (go = r));
  await page.route("**/app.js", (r) => slow.then(() => r.continue()).catch(() => {})); // of a page that was left
  await page.goto(gate, { waitUntil: "commit" });
  for (const text of ["Your decision", "Nothing is written yet", "Nothing is written yet"]) {
    await page.waitForSelector("text=" + text);
    check(!(await page.getAttribute(approve, "aria-disabled")), "the script is there");
    await page.evaluate(() => (document.body.dataset.before = "1"));
    await page.click(approve, { noWaitAfter: true });
    await page.waitForSelector("body:not([data-before])");
  }
  check((await page.textContent("main")).includes("Nothing is written yet"), "it is not asked again");
  go();
});

// away has a page begin to wait anew, as one that comes back into view does. busy: it does nothing for
// so long after it.
const away = (page, busy = 0) => page.evaluate((busy) => {
  document.dispatchEvent(new Event("visibilitychange"));
  globalThis.began = performance.now();
  for (const end = began + busy; performance.now() < end; );
}, busy);

// there has a page show a gate whose button is active, and says where it stands.
const there = async (page, gate) => {
  await page.goto(gate);
  await active(page);
  return middle(page);
};

// A click that is made too early, and taken up when the button has long been active: the page was busy.
await at(async (page, gate) => {
  const [x, y] = await there(page, gate);
  const busy = away(page, 1_500);
  await page.mouse.click(x, y);
  await busy;
});

// A press that is too early, and let go in time.
await at(async (page, gate) => {
  await page.mouse.move(...(await there(page, gate)));
  await away(page);
  await page.mouse.down();
  await active(page);
  await page.mouse.up();
});

// A tab that was away is seen anew.
await at(async (page, gate) => {
  const [x, y] = await there(page, gate);
  await away(page);
  await page.mouse.click(x, y);
});

// What lay over a button, and is closed at the moment of the click.
await at(async (page, gate) => {
  const [x, y] = await there(page, gate);
  await page.evaluate(([x, y]) => {
    const act = document.getElementById("act");
    act.showModal();
    Object.assign(act.style, { position: "fixed", left: x - 50 + "px", top: y - 50 + "px", margin: 0 });
  }, [x, y]);
  await page.waitForSelector(approve + "[aria-disabled=true]");
  await page.evaluate(() => {
    document.getElementById("act").close();
    globalThis.began = performance.now();
  });
  await page.mouse.click(x, y);
});

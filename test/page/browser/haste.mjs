// What is clicked before a button is active decides nothing, whenever the page gets to know of it.
import { base, check, records, scenario, signIn, start, until } from "./harness.mjs";

const approve = "form.decide button[value=approve]";
const active = (page) => page.waitForSelector(approve + "[aria-disabled=false]");
const rest = (ms) => new Promise((r) => setTimeout(r, ms));

// at has a browser at a gate that was just opened. After act nothing may be decided, and then one
// click that is meant does.
const at = (act) => scenario({}, async (page) => {
  await signIn(page);
  const run = await start("gate.yaml");
  let gate;
  await until("the gate", async () => {
    await page.goto(base + "/ui/");
    return (gate = await page.getAttribute(`#part-inbox a[href*="${run}/gates/"]`, "href", { timeout: 1_000 }).catch(() => null));
  });
  await act(page, base + gate);
  await rest(700); // as long as a decision could be under way
  const none = (await records(run, "policy.gate.resolve")).length;
  check(none === 0, `${none} decisions that nobody meant`);
  await active(page);
  await page.click(approve);
  await page.waitForURL("**?done=recorded");
  check((await records(run, "policy.gate.resolve")).length === 1, "a decision that was meant is not written");
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

// A click that is made too early, and taken up when the button has long been active: the page was busy.
await at(async (page, gate) => {
  await page.goto(gate);
  const [x, y] = await middle(page);
  await page.waitForSelector(approve + "[aria-disabled=true]");
  const busy = page.evaluate(() => {
    for (const end = performance.now() + 1500; performance.now() < end; );
  });
  await page.mouse.click(x, y);
  await busy;
  check((await page.textContent(".guard")).startsWith("Not yet"), "nobody says that it was too early");
});

// A press that is too early, and let go in time.
await at(async (page, gate) => {
  await page.goto(gate);
  await page.mouse.move(...(await middle(page)));
  await page.mouse.down();
  await active(page);
  await page.mouse.up();
  check((await page.textContent(".guard")).startsWith("Not yet"), "nobody says that it was too early");
});

// What lay over a button, and is closed at the moment of the click.
await at(async (page, gate) => {
  await page.goto(gate);
  await active(page);
  const [x, y] = await middle(page);
  await page.evaluate(() => document.getElementById("act").showModal());
  await page.evaluate(([x, y]) => Object.assign(document.getElementById("act").style, { position: "fixed", left: x - 50 + "px", top: y - 50 + "px", margin: 0 }), [x, y]);
  await page.waitForSelector(approve + "[aria-disabled=true]");
  await page.evaluate(() => document.getElementById("act").close());
  await page.mouse.click(x, y);
});

// A tab that was away is seen anew.
await at(async (page, gate) => {
  await page.goto(gate);
  await active(page);
  const [x, y] = await middle(page);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.mouse.click(x, y);
});

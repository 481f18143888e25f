// A conversation: message, streamed text, approval in the transcript, tool result, answer, reload
// in mid-stream, a session that is busy, Stop. What is shown at the end is what the journal has.
import { accessible, base, check, isLive, scenario, signIn, tipstaff, until } from "./harness.mjs";

const shot = (page, name) => process.env.TIPSTAFF_SHOTS && page.screenshot({ path: `${process.env.TIPSTAFF_SHOTS}/chat-${name}.png`, fullPage: true });
const told = (page) => page.evaluate(() => document.querySelector(".told.streaming")?.textContent ?? "");

// timed has a page note how long it takes from a piece of text that has come to the frame after it.
const timed = () => {
  globalThis.painted = [];
  document.addEventListener("tipstaff:told", () => {
    const began = performance.now();
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => globalThis.painted.push(performance.now() - began);
      after.port2.postMessage(0);
    });
  });
};

// journal is what the records of a run say, in order.
const journal = async (run) => {
  const said = [];
  for (const line of (await tipstaff("events", run, "--json")).split("\n")) {
    const e = JSON.parse(line);
    if (e.kind === "agent.message") said.push("assistant: " + e.body.text);
    if (e.kind === "agent.tool_call_request") said.push("call: " + e.body.server + "/" + e.body.tool + " " + Object.values(e.body.arguments).join(" "));
    if (e.kind === "agent.tool_call_result") said.push("result: " + e.body.content);
  }
  return said;
};

// shown is the same as the last turn of a page has it.
const shown = (page) => page.evaluate(() => {
  const said = [];
  for (const li of [...document.querySelectorAll(".turn")].at(-1).querySelectorAll(".said")) {
    if (li.matches(".assistant")) said.push("assistant: " + (li.querySelector(".markdown")?.textContent.trim() ?? ""));
    if (!li.matches(".call")) continue;
    const values = [...li.querySelectorAll("dd pre")].map((p) => p.textContent);
    const result = values.pop();
    said.push("call: " + li.querySelector(".tool").textContent + " " + values.join(" "), "result: " + result);
  }
  return said;
});

const plain = (all) => all.map((s) => s.replaceAll("**", "")).join("\n");

let session;
await scenario({}, async (page, state) => {
  await page.addInitScript(timed);
  await signIn(page);
  await page.goto(base + "/ui/sessions");
  await page.getByRole("link", { name: "New conversation" }).click();
  await accessible(page, "a new conversation");
  await shot(page, "new");
  await page.selectOption("#agent", "default");
  await page.getByText("Bounds of each turn").click();
  await page.getByLabel("model calls").fill("7");
  await page.locator("#text").click();
  await page.keyboard.type("Write the note,");
  await page.keyboard.press("Enter");
  await page.keyboard.type("please <b>now</b>");
  await page.reload();
  check((await page.inputValue("#text")) === "Write the note,\nplease <b>now</b>", "the draft does not survive a reload, or Enter sends");
  await page.getByText("Bounds of each turn").click();
  await page.getByLabel("model calls").fill("7");
  await page.locator("#text").press("Control+Enter");
  await page.waitForURL(/\/ui\/sessions\/[0-9A-Z]{26}$/);
  session = page.url();
  check((await page.inputValue("#text")) === "", "a message that was sent is still a draft");
  await isLive(page);

  await until("streamed text", async () => (await told(page)).startsWith("I **write**"));
  await shot(page, "streaming");
  const before = await told(page);
  check(!(await page.$(".told img, .told b")), "a text that streams makes elements");
  await page.locator("#text").fill("half a thought");
  await page.reload(); // in mid-stream
  await until("the text again, from its beginning", async () => {
    const now = await told(page);
    return now.startsWith("I **write**") && now.length > before.length && !now.includes("…");
  });
  check((await page.inputValue("#text")) === "half a thought", "the draft is lost by a reload in mid-stream");
  const painted = (await page.evaluate(() => globalThis.painted)).sort((a, b) => a - b);

  const gate = page.locator(".turn .gate");
  await gate.waitFor();
  check((await page.locator(".turn .markdown strong").first().textContent()) === "write", "the recorded text is no Markdown");
  check((await gate.textContent()).includes("note.md"), "the gate does not show what it is about");
  check((await page.inputValue("#text")) === "half a thought", "the draft is lost when a gate appears");
  await accessible(page, "a conversation with a gate");
  await shot(page, "gate");
  const allow = gate.getByRole("button", { name: "allow", exact: true });
  await allow.scrollIntoViewIfNeeded();
  await until("the button", async () => (await allow.getAttribute("aria-disabled")) === "false");
  await allow.click();
  await page.waitForURL(session);
  await until("the answer", async () => (await page.textContent(".turn")).includes("The note is there."));
  await until("the end of the turn", async () => (await page.textContent(".turn .mark .word")) === "completed");
  const run = /\/ui\/runs\/([0-9A-Z]{26})/.exec(await page.getAttribute(".turn > p a", "href"))[1];
  const want = plain(await journal(run)), got = plain(await shown(page));
  check(got === want, `the transcript differs from the journal:\n${got}\n---\n${want}`);
  check((await page.locator(".turn .said.user pre").textContent()) === "Write the note,\nplease <b>now</b>", "the message is another");
  check(/model_calls\D+7/.test(await tipstaff("show", run, "--json")) , "the bound was not set");
  check(!(await page.$(".told")), "a text still waits");
  await page.reload();
  check(plain(await shown(page)) === want, "a fresh load differs");
  await shot(page, "done");

  await page.locator("#text").fill("take your time");
  await page.getByRole("button", { name: "Send" }).click();
  await until("slow text", async () => (await told(page)).length > 60);
  painted.push(...(await page.evaluate(() => globalThis.painted)));
  await page.locator("#text").fill("and another thing");
  state.away = true; // browsers report the status of the answer
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("alert").waitFor();
  state.away = false;
  check((await page.textContent("[role=alert]")).includes("session_busy"), "a busy session takes a message");
  check((await page.inputValue("#text")) === "and another thing", "a busy session loses the draft");
  check(page.url() === session, "the page of a refused message has an address of its own");
  await until("the text goes on", async () => (await told(page)).includes("tick"));
  await accessible(page, "a busy conversation");
  await shot(page, "busy");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.waitForURL(session);
  await until("the end of the turn", async () => (await page.locator(".turn").last().locator(".mark .word").first().textContent()) === "cancelled");
  check((await page.inputValue("#text")) === "and another thing", "Stop loses the draft");
  await page.getByRole("button", { name: "Send" }).click();
  await until("an answer", async () => (await page.locator(".turn").last().textContent()).includes("Another thing it is."));

  // Pieces that are lost show as a gap, those that come twice once, and another text begins anew.
  const pieces = await page.evaluate(() => {
    const place = Object.assign(document.createElement("pre"), { className: "told" });
    place.dataset.told = "some/where";
    document.querySelector("main").append(place);
    return [[0, "one "], [4, "two "], [4, "two "], [20, "six"], [3, "new"]].map(([offset, text]) => {
      document.dispatchEvent(new CustomEvent("tipstaff:told", { detail: JSON.stringify({ path: "some/where", offset, text, end: offset + text.length }) }));
      return place.textContent;
    });
  });
  check(pieces.join("|") === "one |one two |one two |one two …six|…new", "pieces are shown as " + pieces.join("|"));

  painted.sort((a, b) => a - b);
  const p95 = painted[Math.floor(painted.length * 0.95)];
  console.log(`text delta received → painted: p95 ${p95.toFixed(1)} ms of ${painted.length} (limit 50 ms)`);
  check(painted.length > 20, "hardly any text was told");
});

// Without scripts it is the same, but that nothing moves by itself.
await scenario({ javaScriptEnabled: false }, async (page) => {
  await signIn(page);
  await page.goto(base + "/ui/sessions/new");
  await page.locator("#text").fill("Write the note");
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForURL(/\/ui\/sessions\/[0-9A-Z]{26}#message$/);
  const at = page.url().split("#")[0];
  await until("the gate", async () => {
    await page.goto(at);
    return page.isVisible(".gate");
  });
  await page.getByRole("button", { name: "allow", exact: true }).click();
  await page.getByRole("button", { name: "Yes, allow" }).click();
  await page.waitForURL(at);
  await until("the answer", async () => {
    await page.reload();
    return (await page.textContent("main")).includes("The note is there.");
  });
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    await scenario({ colorScheme, viewport: { width, height: 800 } }, async (page) => {
      await signIn(page);
      await page.goto(session);
      await accessible(page, `a conversation, ${colorScheme} ${width}`);
      check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `a conversation scrolls sideways at ${width}`);
      await shot(page, `${colorScheme}-${width}`);
    });
  }
}

// The page for everyone: small windows, large text, forced colours, without motion, on paper and by
// touch. Every page is looked at in each of them.
import { accessible, base, check, scenario, signIn } from "./harness.mjs";
import { ground, pagesOf } from "./ground.mjs";

const runs = await ground();
const everyPage = async (page, state, act) => {
  await signIn(page);
  for (const [name, path] of Object.entries(await pagesOf(page, runs))) {
    state.missing = name === "missing";
    await page.goto(base + path);
    await act(name);
  }
};

// Only boxes that say so scroll sideways, and no text is cut off without a way to see it.
const wide = () => document.documentElement.scrollWidth > innerWidth;
const cutOff = () =>
  [...document.querySelectorAll("main *, .rail *, .top *")]
    .filter((e) => {
      const s = getComputedStyle(e);
      const hides = ["hidden", "clip"].includes(s.overflowX) && e.scrollWidth > e.clientWidth + 1;
      return hides && e.clientWidth > 1 && s.textOverflow !== "ellipsis" && !e.closest("svg, .hidden");
    })
    .map((e) => e.outerHTML.slice(0, 200));

async function fits(page, name, where) {
  check(!(await page.evaluate(wide)), `${name} scrolls sideways ${where}`);
  const cut = await page.evaluate(cutOff);
  check(!cut.length, `${name} is cut ${where}: ${cut}`);
  check(await page.isVisible("main h1"), `${name} has no title ${where}`);
}

// 320 px is also what is left of 1280 px at 400 %.
await scenario({ viewport: { width: 320, height: 256 }, deviceScaleFactor: 4 }, (page, state) => everyPage(page, state, (name) => fits(page, name, "at 320 px")));

// What has the focus is not hidden under a bar, however low the window is.
await scenario({ viewport: { width: 320, height: 480 } }, async (page) => {
  await signIn(page);
  const { gate, "run-loop": run } = await pagesOf(page, runs);
  for (const path of [gate, run]) {
    await page.goto(base + path);
    for (let n = 0; n < 60; n++) {
      await page.keyboard.press("Tab");
      const hidden = await page.evaluate(() => {
        const e = document.activeElement;
        if (!e || e === document.body || e.closest(".rail, svg")) return "";
        const r = e.getBoundingClientRect();
        const shows = [0.25, 0.5, 0.75].some((part) => {
          const top = document.elementFromPoint(r.left + Math.min(r.width / 2, 20), r.top + r.height * part);
          return top && (e.contains(top) || top.contains(e));
        });
        return shows ? "" : e.outerHTML.slice(0, 200);
      });
      check(!hidden, "the focus is hidden: " + hidden);
    }
  }
});

await scenario({ viewport: { width: 390, height: 800 } }, (page, state) =>
  everyPage(page, state, async (name) => {
    await page.evaluate(() => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; } p { margin-bottom: 2em !important; }");
      document.adoptedStyleSheets = [sheet];
    });
    await fits(page, name, "with wide spacing");
  }),
);

// With the colours of the system what is chosen, what can be pressed and how things stand can be
// told from the rest.
await scenario({ forcedColors: "active" }, (page, state) =>
  everyPage(page, state, async (name) => {
    await fits(page, name, "with forced colours");
    const lost = await page.evaluate(() => {
      const bare = [...document.querySelectorAll("button:not(.copied), input:not([type=hidden], [type=radio], [type=checkbox], [type=range]), .rail [aria-current], .tabs [aria-current]")].filter((e) => {
        const s = getComputedStyle(e);
        return e.offsetWidth && s.borderTopWidth === "0px" && s.outlineStyle === "none";
      });
      const back = getComputedStyle(document.body).backgroundColor;
      const unseen = [...document.querySelectorAll(".mark circle:not(.ring), .bounds .used, .stage .icon")].filter((e) => getComputedStyle(e).fill === back);
      return [...bare, ...unseen].map((e) => e.outerHTML.slice(0, 120));
    });
    check(!lost.length, `${name} with forced colours: ${lost}`);
  }),
);

// Nothing moves for who does not want it, and little shifts while a page loads for anybody.
await scenario({ reducedMotion: "reduce" }, async (page, state) => {
  await page.addInitScript(() => {
    globalThis.shifted = 0;
    new PerformanceObserver((all) => all.getEntries().forEach((e) => (globalThis.shifted += e.hadRecentInput ? 0 : e.value))).observe({ type: "layout-shift", buffered: true });
  });
  let most = 0;
  await everyPage(page, state, async (name) => {
    await page.waitForTimeout(100);
    const { moving, shifted } = await page.evaluate(() => ({ moving: document.getAnimations().length, shifted: globalThis.shifted }));
    check(moving === 0, `${name} moves`);
    check(shifted < 0.05, `${name} shifts by ${shifted}`);
    most = Math.max(most, shifted);
  });
  console.log(`layout shift: ${most.toFixed(3)} at most (limit 0.05)`);
});

// By touch: what one needs first stands first, and everything that can be pressed is large enough.
await scenario({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }, async (page, state) => {
  await everyPage(page, state, async (name) => {
    await fits(page, name, "on a phone");
    const small = await page.$$eval("button, summary, input:not([type=hidden], [type=radio], [type=checkbox], [type=range]), select, .rail a, .tabs a, .filters a, a.button, .row .name, tbody th a, .rows a", (all) =>
      all.filter((e) => e.checkVisibility() && e.getBoundingClientRect().width && Math.round(Math.max(e.getBoundingClientRect().height, e.closest("label")?.getBoundingClientRect().height ?? 0)) < 44).map((e) => `${e.getBoundingClientRect().height} ${e.outerHTML.slice(0, 120)}`),
    );
    check(!small.length, `${name} has small targets: ${small.slice(0, 5)}`);
  });
  for (const [name, wanted] of [["failed", [".stands", ".failure a", ".failure .message"]], ["gate", [".stands", ".asks a"]]]) {
    await page.goto(base + "/ui/runs/" + runs[name]);
    const tops = await page.evaluate((all) => all.map((s) => document.querySelector("main " + s).getBoundingClientRect().top), [...wanted, ".life", ".bounds", ".tabs"]);
    check(tops.every((t, i) => i === 0 || t >= tops[i - 1] - 2), `the order of a run that is ${name}: ${tops}`);
    check(tops[wanted.length - 1] < 740 - 56, `one has to scroll to what matters of a run that is ${name}`);
  }
});

// On paper: light, without what can only be pressed, with addresses and the head of the run.
await scenario({ colorScheme: "dark" }, async (page) => {
  await signIn(page);
  await page.goto(base + "/ui/runs/" + runs.failed);
  await page.emulateMedia({ media: "print" });
  const paper = await page.evaluate(() => ({
    shown: [...document.querySelectorAll(".rail, .top, .tabs, button:not(.copied)")].filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 80)),
    scheme: getComputedStyle(document.documentElement).colorScheme,
    link: getComputedStyle(document.querySelector(".failure a"), "::after").content,
    foot: document.querySelector(".print-foot").innerText,
  }));
  check(!paper.shown.length, "on paper: " + paper.shown);
  check(paper.scheme === "light", "paper is " + paper.scheme);
  check(paper.link.includes("/node?path="), "links are not written out: " + paper.link);
  check(/sha256:[0-9a-f]{64}/.test(paper.foot), "the foot is " + paper.foot);
  check((await page.pdf()).length > 10_000, "nothing is printed");
});

// A person who looks closer: axe at 320 px as well, where other rules of layout hold.
await scenario({ viewport: { width: 320, height: 640 } }, (page, state) => everyPage(page, state, (name) => accessible(page, name + " at 320 px")));

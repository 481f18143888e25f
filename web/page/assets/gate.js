// Decisions. A button decides only if whoever presses it can have seen the question and the
// button, at rest and for a while: never by a click or a key that was meant for something
// else. The server asks once more where this script has not marked the form.
const wait = 600; // ms

const guarded = new WeakSet();
guardAll();
document.addEventListener("tipstaff:part", guardAll); // a part may bring a gate

function guardAll() {
  for (const form of document.querySelectorAll("form[data-guard]")) {
    if (guarded.has(form)) continue;
    guarded.add(form);
    guard(form);
  }
}

function guard(form) {
  const buttons = [...form.querySelectorAll("button[name=action]:not(:disabled)")];
  const told = form.querySelector(".guard");
  const since = new Map(); // from when on a button is in view
  let seen = Infinity; // when the question was first seen
  let still = performance.now(); // from when on nothing has moved
  let places = "";
  let pressed = null; // the press that a click is to follow from
  let sure = false; // the click was meant
  let sent = false;

  const place = (b) => { const r = b.getBoundingClientRect(); return [r.x, r.y, r.width, r.height].map(Math.round).join(); };
  const ready = (b, at) => !sent && at - Math.max(seen, still, since.get(b) ?? Infinity) >= wait;

  // inView reports whether all of a button is on the screen and nothing, as a dialog, lies over it.
  function inView(b) {
    const r = b.getBoundingClientRect();
    return r.top > -1 && r.left > -1 && r.bottom < innerHeight + 1 && r.right < innerWidth + 1 && b.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2));
  }

  // look notices what has moved, and shows which buttons are active.
  function look() {
    if (form.dataset.over) return;
    const at = performance.now();
    const now = buttons.map(place).join(" ");
    if (now !== places || document.visibilityState !== "visible") still = at;
    places = now;
    for (const b of buttons) {
      if (!inView(b)) since.delete(b);
      else if (!since.has(b)) since.set(b, at);
      b.setAttribute("aria-disabled", String(!ready(b, at)));
    }
  }

  // anew has everybody wait again: what is shown was away.
  function anew() {
    still = performance.now();
    look();
  }

  // A question is seen once it has been drawn: what an observer is told of comes with the next
  // frame, and that one is on the screen only when another has begun.
  new IntersectionObserver((all, observer) => {
    if (!all.some((e) => e.isIntersecting)) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => (seen = performance.now())));
  }, { threshold: 0.1 }).observe(document.querySelector(form.dataset.guard));
  const sizes = new ResizeObserver(look);
  sizes.observe(form);
  sizes.observe(document.body);
  addEventListener("scroll", look, { passive: true, capture: true });
  document.addEventListener("visibilitychange", anew);
  const looking = setInterval(() => (form.isConnected ? look() : clearInterval(looking)), 100);
  look();

  // A gate that is closed by somebody else, by its expiry or by the end of its run loses its
  // buttons. What was typed stays to be copied.
  document.addEventListener("tipstaff:part", () => {
    const closed = document.querySelector("#part-gate [data-closed]");
    if (!closed) return;
    if (closed.dataset.closed === "stored") document.getElementById("part-gate").dataset.still = ""; // nothing more can come
    if (form.dataset.over || sent) return; // whoever has sent it is told by the answer
    form.dataset.over = "1";
    clearInterval(looking);
    sent = true; // for what is still under way
    for (const e of form.querySelectorAll(".actions, .guard, .command, button")) e.remove();
    for (const f of form.querySelectorAll("input, textarea")) {
      f.readOnly = true;
      if (["radio", "checkbox"].includes(f.type)) f.disabled = true;
    }
    form.querySelector("[role=alert]").textContent = "This gate was closed. What became of it stands above; nothing you typed was sent.";
  });

  const actionOf = (e) => buttons.find((b) => b.contains(e.target));
  // Times of events are those at which they happened: what was queued before counts as then.
  function press(e) {
    look();
    const button = actionOf(e);
    pressed = button ? { button, good: !e.repeat && ready(button, e.timeStamp) } : null;
  }
  form.addEventListener("pointerdown", press);
  form.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" && e.key !== " ") return;
    if (e.repeat && actionOf(e) || e.key === "Enter" && e.target.matches("input")) e.preventDefault();
    press(e);
  });
  form.addEventListener("click", (e) => {
    const button = actionOf(e);
    if (!button) return;
    look();
    // Only what stands for a click, as a key or a reader of screens, may come without a press.
    const good = ready(button, e.timeStamp) && e.detail <= 1 && (pressed ? pressed.button === button && pressed.good : !e.detail);
    pressed = null;
    if ((sure = good)) return;
    e.preventDefault();
    told.textContent = sent ? "It has been sent." : "Not yet: the question or this button has only just appeared or moved.";
  });
  form.addEventListener("submit", (e) => {
    if (sent || !sure || !buttons.includes(e.submitter)) {
      e.preventDefault();
      return;
    }
    sent = true;
    look();
  });
  form.addEventListener("formdata", (e) => sent && e.formData.set("confirmed", "1"));
  addEventListener("pageshow", (e) => {
    if (!e.persisted) return;
    sure = sent = false;
    anew();
  });
}

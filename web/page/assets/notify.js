// Tells of decisions that begin to wait: their kind and the title of the run. One tab of the
// browser does it for all of them.
const on = document.documentElement.dataset.notify === "on";
let known;

async function look() {
  const res = await fetch("/ui/waiting", { cache: "no-store" }).catch(() => undefined);
  if (!res?.ok) return;
  const now = await res.json();
  for (const [id, { kind, title, at }] of Object.entries(now)) {
    if (!known || id in known) continue; // what waited before is in the inbox
    const told = new Notification(kind + " waits", { body: title, tag: id });
    told.addEventListener("click", () => {
      focus();
      location.assign(at);
    });
  }
  known = now;
}

if (on && globalThis.Notification?.permission === "granted") {
  navigator.locks?.request("tipstaff-notify", async () => {
    for (;;) {
      await look();
      await new Promise((again) => setTimeout(again, 5_000));
    }
  });
}

for (const choice of document.querySelectorAll('input[name="notify"][value="on"]')) {
  choice.addEventListener("change", () => globalThis.Notification?.requestPermission());
}

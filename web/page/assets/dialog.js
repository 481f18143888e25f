// Actions open in a dialog. Without this script their links lead to pages.
import { apply } from "./parts.js";

const box = document.getElementById("act");

document.addEventListener("click", async (e) => {
  const link = e.target.closest("a[data-dialog]");
  if (!link || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
  e.preventDefault();
  const address = new URL(link.href);
  address.searchParams.set("part", "act");
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) {
    location.assign(link.href); // its page says what is wrong
    return;
  }
  document.getElementById("part-act").replaceChildren();
  apply("act", await answer.text());
  if (!box.open) box.showModal();
});

box?.querySelector(".close").addEventListener("click", () => box.close());

// What every page does.
import { remember } from "./parts.js";
import { tellTimes } from "./times.js";
import "./chat.js"; // before the stream, which asks for the page by its address
import "./stream.js";
import "./keys.js";
import "./notify.js";
import "./gate.js";
import "./dialog.js";
import "./proof.js";

remember();
tellTimes();
document.addEventListener("click", (e) => {
  const id = e.target.closest?.("[data-copy]");
  if (!id) return;
  navigator.clipboard?.writeText(id.dataset.copy);
  document.getElementById("say").textContent = "Copied.";
});

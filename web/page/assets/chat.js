// Conversations: what is told while it is said, and the message box. What a model says is only
// ever set as text; its Markdown comes from the server once it is recorded.
const said = new Map(); // by path: a text that comes in pieces
const kept = 8; // so many of them
const place = (path) => document.querySelector(`[data-told="${CSS.escape(path)}"]`);
let atEnd = false; // whoever reads the end stays there

document.addEventListener("tipstaff:told", ({ detail }) => {
  const told = JSON.parse(detail);
  if (told.progress !== undefined) {
    const at = place(told.path);
    if (at) at.textContent = told.progress;
    return;
  }
  const s = textAt(told);
  if (!s) return;
  const piece = (told.offset > s.end ? "…" : "") + told.text;
  s.pieces.set(told.offset, told.text);
  s.end = told.end;
  s.text += piece;
  if (s.node?.isConnected && s.node.data.length === s.text.length - piece.length) s.node.appendData(piece);
  else show(told.path, s);
  if (atEnd) requestAnimationFrame(toEnd);
});

// textAt is the text that a piece goes on with; undefined: the piece was heard before, as after
// a reconnect. One that contradicts what was heard begins the text anew.
function textAt(told) {
  const s = said.get(told.path);
  if (s?.pieces.get(told.offset) === told.text) return undefined;
  if (s && told.offset >= s.end) return s;
  const anew = { text: "", end: 0, pieces: new Map() };
  said.delete(told.path);
  said.set(told.path, anew);
  if (said.size > kept) said.delete(said.keys().next().value);
  return anew;
}

// show puts a text where the transcript waits for it. Once the message is recorded nothing does.
function show(path, s) {
  const at = place(path);
  if (!at) return;
  at.classList.add("streaming");
  at.textContent = s.text;
  s.node = at.firstChild;
}

document.addEventListener("tipstaff:part", () => {
  said.forEach((s, path) => show(path, s));
  if (atEnd) toEnd();
});

const box = document.querySelector("form.message");
if (box) {
  const field = box.elements.message;
  const own = new URL(box.action).pathname.replace(/\/messages$/, "");
  const name = "draft " + own;
  if (location.pathname !== own) history.replaceState(null, "", own); // a message was refused: this is the conversation all the same
  if (location.hash === "#message") {
    sessionStorage.removeItem(name); // it was sent
    history.replaceState(null, "", location.pathname + location.search);
  }
  if (!field.value) field.value = sessionStorage.getItem(name) ?? "";
  field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
  box.addEventListener("submit", () => sessionStorage.setItem(name, field.value));
  field.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.isComposing || e.repeat) return;
    e.preventDefault();
    box.requestSubmit(box.querySelector("button:not(:disabled)") ?? undefined);
  });
  const look = () => (atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 48);
  addEventListener("scroll", look, { passive: true });
  if (!new URLSearchParams(location.search).has("before")) toEnd();
  look();
}

// toEnd goes to what is new: the question that waits, or else the end.
function toEnd() {
  const gate = document.querySelector(".turn:last-of-type .gate");
  if (gate) gate.scrollIntoView({ block: gate.offsetHeight < innerHeight ? "nearest" : "start" });
  else scrollTo(0, document.documentElement.scrollHeight);
}

// Another server of this machine gets no cookie of the page, by whatever address it is opened, and
// what it gets it can do nothing with.
import { createServer } from "node:http";
import { request } from "node:http";
import { base, check, isLive, scenario, signIn, start } from "./harness.mjs";

const port = new URL(base).port;
const seen = [];
const thief = createServer((req, res) => {
  seen.push(req.headers.cookie ?? "");
  res.setHeader("Content-Type", "text/html");
  res.end("<!doctype html><link rel=icon href=data:,><p>nothing to see");
});
await new Promise((done) => thief.listen(0, "127.0.0.1", done));
const elsewhere = thief.address().port;

// ask speaks to the daemon as a browser that has a cookie does.
const ask = (host, cookie) => new Promise((done, fail) => {
  const headers = { Host: host, Cookie: cookie, Origin: "http://" + host, "Sec-Fetch-Site": "same-origin" };
  request({ host: "127.0.0.1", port, path: "/ui/whoami", headers }, (res) => { res.resume(); done(res.statusCode); }).on("error", fail).end();
});

await start("gate.yaml");
await scenario({}, async (page, state) => {
  state.thief = true;
  await signIn(page);
  await isLive(page);
  const [cookie] = await page.context().cookies();
  check(new URL(base).hostname.endsWith(".localhost") && cookie.domain === new URL(base).hostname, "the cookie is of " + cookie.domain);
  for (const host of ["127.0.0.1", "localhost", "other.localhost"]) {
    await page.goto(`http://${host}:${elsewhere}/ui/`);
  }
  check(seen.length >= 3 && seen.every((c) => !c.includes("tipstaff_" + port)), "the other server got " + JSON.stringify(seen));
  const value = `${cookie.name}=${cookie.value}`;
  check((await ask(new URL(base).host, value)) === 200, "the session does not hold under its own name");
  for (const host of ["127.0.0.1", "localhost"]) check((await ask(`${host}:${port}`, value)) !== 200, "the cookie holds at " + host);
});
thief.close();
console.log("no cookie was sent to another server of this machine");

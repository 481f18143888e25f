// A Restate service whose handler does so many durable steps, one after the other, and who
// calls it: node steps.mjs STEPS ROUNDS prints, for each round, the seconds that it took.
import * as restate from "@restatedev/restate-sdk";
import { createServer } from "node:http2";

const [steps, rounds] = process.argv.slice(2).map(Number);
const result = { text: "word ".repeat(35) + "1234" };
const bench = restate.service({
  name: "bench",
  handlers: {
    steps: async (ctx, n) => {
      for (let i = 0; i < n; i++) await ctx.run(`s${i}`, () => result);
    },
  },
});

async function post(url, body) {
  const res = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!res.ok) throw new Error(`${url}: ${res.status} ${await res.text()}`);
}

const server = createServer(restate.createEndpointHandler({ services: [bench] }));
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
await post(`${process.env.TIPSTAFF_RESTATE_ADMIN}/deployments`, { uri: `http://127.0.0.1:${server.address().port}` });
for (let round = -1; round < rounds; round++) {
  const began = performance.now();
  await post(`${process.env.TIPSTAFF_RESTATE}/bench/steps`, round < 0 ? 1 : steps); // the first connects
  if (round >= 0) console.log((performance.now() - began) / 1000);
}
process.exit(0);

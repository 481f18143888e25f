// One figure as JSON. Its name and what it is taken of are the arguments; a program is started.
import { scenario, signIn, start } from "./harness.mjs";
import * as measures from "./measure.mjs";

const [name, ...of] = process.argv.slice(2);
await scenario({}, async (page) => {
  await signIn(page);
  if (/\.(json|yaml)$/.test(of[0])) of[0] = await start(of[0]);
  console.log(JSON.stringify(await measures[name](page, ...of)));
});

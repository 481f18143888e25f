// One figure, as JSON on the last line: its name and what it is taken of are the arguments.
import { scenario, signIn } from "./harness.mjs";
import * as measures from "./measure.mjs";

const [name, ...of] = process.argv.slice(2);
await scenario({}, async (page) => {
  await signIn(page);
  console.log(JSON.stringify(await measures[name](page, ...of)));
});

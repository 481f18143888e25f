// A run that writes some two hundred records a second: the page answers, stays small, and ends as
// a fresh one is.
import { check, scenario, signIn, start } from "./harness.mjs";
import { flood } from "./measure.mjs";

await scenario({}, async (page) => {
  await signIn(page);
  const seconds = Number(process.env.TIPSTAFF_FLOOD_SECONDS ?? 60);
  const got = await flood(page, await start("flood.yaml"), seconds);
  console.log(`${seconds} s of ${got.rate.toFixed(0)} records a second: ${JSON.stringify(got)}`);
  check(got.rate > 20, "hardly anything was written");
  check(got.elements <= 6_000, `the page has ${got.elements} elements`);
  check(got.bytes <= 25e6, `its script holds ${got.bytes} bytes`);
  check(got.grew <= 3e6, `its script has grown by ${got.grew} bytes`);
});

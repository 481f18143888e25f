// What every page does.
import { remember } from "./parts.js";
import { tellTimes } from "./times.js";
import "./stream.js";
import "./keys.js";
import "./notify.js";
import "./gate.js";
import "./proof.js";

remember();
tellTimes();

// What every page does.
import { remember } from "./parts.js";
import { tellTimes } from "./times.js";
import "./stream.js";
import "./keys.js";
import "./gate.js";
import "./dialog.js";

remember();
tellTimes();

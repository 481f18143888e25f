package main

const (
	differenceTold = "which record, what would be new, and in what the inputs differ."
	goesOnAfterIt  = "after `resume`, the run ends as it would have."
	unserved       = "The older version reads a folder that is newer, writes nothing and does not serve it"
	newerRules     = "is shown, and not driven, ended or judged (`format_newer`); a server leaves it to others."
	migrationTold  = "A process that has the store open finds it at its next write"
	leftIsTold     = "by `tipstaff doctor` on a machine, of every run that waits: `run_left`."
)

// Bugs in what was mended together with the engine, with money that kills cut off and with
// stores that versions and servers share, beside those of engineBugs, moneyBugs, versionsBugs
// and serversBugs.
var auditBugs = []bug{
	{
		id: "serves-what-it-cannot-write", guarantee: 4, says: unserved,
		slip:   "leaves it to whoever asks a server for something to find that its store can only be read",
		file:   "cmd/tipstaff/wire.go",
		old:    "err != nil && config.Serves { // whoever serves drives",
		new:    "err != nil && config.Serves && o.ReadOnly {",
		only:   processes,
		suites: []suite{started("cmd/tipstaff", "TestEveryCommandInEveryFolder")},
	},
	{
		id: "read-only-needs-a-log", page: "commands.md", says: "It also looks where the store may not be written.",
		slip:   "reads the file of a store alone where the disk is full, and not where its folder is locked",
		file:   "sqlite/store.go",
		old:    "(fault == full || fault == locked) && noLog(dir)",
		new:    "fault == full && noLog(dir)",
		only:   processes,
		suites: []suite{started("cmd/tipstaff", "TestReadOnlyStore")},
	},
	{
		id: "rules-of-tomorrow", guarantee: 4, says: newerRules,
		slip:   "drives whatever was made, under the rules that are known",
		file:   "runner/program.go",
		old:    "\tif draft.Rules > rulesNow {",
		new:    "\tif draft.Rules < 0 {",
		suites: []suite{tests("runner", "TestARunOfNewerRulesIsLeftToNewerVersions")},
	},
	{
		id: "daemon-ends-for-a-newer-run", guarantee: 4, says: newerRules,
		slip:   "does not start to serve where a newer version has left a run",
		file:   "runner/resume.go",
		old:    "\t\tcase errors.Is(err, &tipstaff.Error{Code: tipstaff.FormatNewer}): // it waits for the newer program\n",
		new:    "",
		suites: []suite{tests("runner", "TestARunOfNewerRulesIsLeftToNewerVersions")},
	},
	{
		id: "server-outlives-its-store", guarantee: 4, says: "its runs are interrupted, a server ends, and nothing that was acknowledged is lost",
		slip:   "stops to write, and tells nobody who does not write",
		file:   "store/writer.go",
		old:    "\t\t\tclose(w.fallen)\n",
		new:    "",
		suites: []suite{tests("sqlite", "TestAnOpenStoreNoticesAMigration")},
	},
	{
		id: "refused-mark-is-ordinary", guarantee: 4, says: migrationTold,
		slip:   "takes the mark that a newer format of a database refuses for the fault of one operation",
		file:   "postgres/writer.go",
		old:    "\tcase isOvertaken(err):\n\t\treturn store.Broken\n",
		new:    "",
		suites: []suite{tests("postgres", "TestWhatAServerAnswersIsExplained")},
	},
	{
		id: "no-connection-is-no-disk", page: "scale.md", says: "when none is left the error says so.",
		slip:   "has whoever gets no connection look at the log of the database",
		file:   "postgres/writer.go",
		old:    "errors.As(err, &e) && e.Code == \"53300\":",
		new:    "errors.As(err, &e) && e.Code == \"53200\":",
		suites: []suite{tests("postgres", "TestWhatAServerAnswersIsExplained")},
	},
	{
		id: "doctor-knows-no-queue", page: "scale.md", says: leftIsTold,
		slip:   "looks at runs that are driven, and not at those that wait",
		file:   "runner/able.go",
		old:    "flow.Query{Queued: true, Limit: mostExamined}",
		new:    "flow.Query{Leased: true, Limit: mostExamined}",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "upgrade-unnoticed", page: "scale.md", says: "A server looks at what it left again when `tipstaff.yaml`, the lock, the policy or one of its programs changes.",
		slip:   "looks at its own files alone for whether its workspace has changed",
		file:   "runner/able.go",
		old:    "\t\th.files, h.stamp = append(h.files, more...), h.stamp+stamped(more)\n",
		new:    "",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "idle-between-segments", guarantee: 1, says: goesOnAfterIt,
		slip:   "counts the flow as running when it is entered, and as gone before: what waited to park the segment before may park this one",
		file:   "flow/engine.go",
		old:    "\td.segment++\n\treturn nil\n",
		new:    "\td.segment++\n\td.running--\n\td.mu.Unlock()\n\td.mu.Lock()\n\td.running++\n\treturn nil\n",
		suites: []suite{seeded(), simulated()},
	},
	{
		id: "digests-alone", guarantee: 1, says: differenceTold,
		slip:   "finds the record that does not fit, and keeps nothing of it",
		file:   "flow/mismatch.go",
		old:    "\t\te.Was = was\n",
		new:    "",
		suites: []suite{themes("fitting"), tests("runner", "TestMismatchTellsTheDifference")},
	},
	{
		id: "fork-of-those-days", page: "commands.md", says: "up to what the manifest's `bounds` permit by now",
		slip:   "holds a fork to what the manifest permitted when its source was made",
		file:   "runner/fork.go",
		old:    "\tmaps.Copy(ceiling, tipstaff.Bounds(now))\n",
		new:    "",
		suites: []suite{tests("runner", "TestForkWithHigherBounds")},
	},
	{
		id: "extension-of-those-days", page: "plans.md", says: "An extension is up to what the manifest's `bounds` permit by then.",
		slip:   "holds an extension to what the manifest permitted when the run was made",
		file:   "runner/decide.go",
		old:    "\t\tmaps.Copy(ceiling, m.Ceiling())\n",
		new:    "\t\t_ = m\n",
		suites: []suite{tests("runner", "TestExtensionsStayWithinTheManifest")},
	},
	{
		id: "conflict-is-charged", page: "workers.md", says: "costs nothing if no step was made.",
		slip:   "charges what was reserved for an invocation whose session was in use",
		file:   "worker/activity.go",
		old:    "\tcase StartFailed, SessionConflict, SessionLost:\n\t\tif res.Steps == 0 {",
		new:    "\tcase StartFailed, SessionLost:\n\t\tif res.Steps == 0 {",
		suites: []suite{tests("worker", "TestAnIDInUseIsGoneOnWith")},
	},
	{
		id: "worker-dies-of-what-is-held", guarantee: 2, says: heldAsks,
		slip:   "fails the worker that reached what kills had left of a bound",
		file:   "worker/drive.go",
		old:    "\tcase res.Bound != \"\" && res.Held:",
		new:    "\tcase res.Bound != \"\" && res.Held && res.Steps < 0:",
		suites: []suite{tests("worker", "TestAWorkerGoesOnWhereKillsHadLeftTooLittle")},
	},
	{
		id: "own-limit-forgotten", guarantee: 2, says: "A run stays inside its bounds",
		slip:   "takes what the run has left for the limit of the invocation, also where its own is smaller",
		file:   "worker/activity.go",
		old:    "if bounded && (own == 0 || most < own) {",
		new:    "if bounded {",
		suites: []suite{tests("worker", "TestLimitsAreEachTheirOwn")},
	},
	{
		id: "error-of-a-worker-is-not-cut", guarantee: 2, says: errorsAreCut,
		slip:   "records what a CLI says went wrong, however long that is",
		file:   "worker/mapped.go",
		old:    "\tmsg = flow.CutText(msg, \"\")\n",
		new:    "",
		suites: []suite{tests("worker", "TestAnErrorOfAWorkerIsCut")},
	},
	{
		id: "late-error-is-not-cut", guarantee: 2, says: errorsAreCut,
		slip:   "cuts errors where activities return, and forgets hosts that bring theirs later",
		file:   "runner/remote_call.go",
		old:    "\tif given.Error != nil {\n\t\tgiven.Error = given.Error.Shortened(",
		new:    "\tif given.Error != nil && known.given != nil {\n\t\tgiven.Error = given.Error.Shortened(",
		suites: []suite{tests("runner", "TestALateErrorOfAHostIsCut")},
	},
	{
		id: "old-errors-are-not-cut", guarantee: 2, says: errorsAreCut,
		slip:   "forgets the errors that were recorded before errors were cut",
		file:   "pb/envelope.go",
		old:    "\ts.Envelope.cutErrors()\n",
		new:    "",
		suites: []suite{tests("pb", "TestErrorsFromBeforeTheyWereCutAreCut")},
	},
}

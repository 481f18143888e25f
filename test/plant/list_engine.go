package main

const (
	changedProgramsDoNothing = "A program that no longer fits its records does nothing."
	fittingIsNeverRefused    = "A program that fits is never refused."
	misuseEndsNothing        = "what was done stays, and the run goes on once the program is mended."
	storesAreWhole           = "A store takes no run without its draft, and keeps what a run came to, so that it can be exported."
)

// Bugs of the engine against what it promises of programs that changed or break a rule.
var engineBugs = []bug{
	{
		id: "renamed-steps-paid-again", guarantee: 1, says: changedProgramsDoNothing,
		slip:   "takes every drive for one that has nothing to be asked for",
		file:   "flow/engine.go",
		old:    "\td.dry = d.mode == performing && !p.isEmpty()",
		new:    "\td.dry = false",
		suites: []suite{themes("fitting"), simulated()},
	},
	{
		id: "removed-at-the-end", guarantee: 1, says: changedProgramsDoNothing,
		slip:   "looks for what is left when branches are held, and forgets flows that come to their end without one",
		file:   "flow/engine.go",
		old:    "(d.dry || d.inherited != nil) && (d.ending == notEnding && !b.parked || d.ending == cut) {",
		new:    "(d.dry || d.inherited != nil) && d.ending == cut {",
		suites: []suite{themes("fitting"), simulated()},
	},
	{
		id: "limits-of-today", guarantee: 1, says: fittingIsNeverRefused,
		slip:   "refuses a group whose limit became smaller",
		file:   "flow/mismatch.go",
		old:    "\tcase d.startBegun(left):\n",
		new:    "",
		suites: []suite{themes("fitting")},
	},
	{
		id: "forks-ask-first", guarantee: 1, says: fittingIsNeverRefused,
		slip:   "wants a fork to ask for all that it inherits before it does anything new",
		file:   "flow/wait.go",
		old:    "\t\td.fit(d.inherited)",
		new:    "\t\td.fit(nil)",
		suites: []suite{themes("fitting"), script("followup")},
	},
	{
		id: "held-for-ever", guarantee: 1, says: fittingIsNeverRefused,
		slip:   "does not let a held branch go when its group closes",
		file:   "flow/mismatch.go",
		old:    "\tfor d.dry && d.ending == notEnding && !s.isClosed() {",
		new:    "\tfor d.dry && d.ending == notEnding {",
		suites: []suite{themes("closing|agreeing"), simulated()},
	},
	{
		id: "said-by-who-does-not-fit", guarantee: 1, says: changedProgramsDoNothing,
		slip:   "writes what was said before it was known whether the program fits",
		file:   "flow/drive.go",
		old:    "\tif !d.armed && !d.dry {",
		new:    "\tif !d.armed {",
		suites: []suite{tests("flow", "TestNothingIsSaidBeforeItFits"), simulated()},
	},
	{
		id: "said-by-who-was-stopped", guarantee: 1, says: changedProgramsDoNothing,
		slip:   "writes what was said when the drive is stopped before it was known whether the program fits",
		file:   "flow/engine.go",
		old:    "\t\td.queue = nil // what a program said that may not fit\n",
		new:    "",
		suites: []suite{tests("flow", "TestNothingIsSaidBeforeItFits")},
	},
	{
		id: "two-goroutines-one-branch", guarantee: 1, says: misuseEndsNothing,
		slip:   "guards Go alone against a second goroutine",
		file:   "flow/wait.go",
		old:    "\tc.b.busy = methodWait\n",
		new:    "",
		suites: []suite{themes("fitting")},
	},
	{
		id: "unknown-activity-fails", guarantee: 1, says: misuseEndsNothing,
		slip:   "records a typo of the binary as the call's outcome",
		file:   "flow/do.go",
		old:    "\t\t\treturn Result{}, d.failLocked(fatal, &Misuse{do.at, \"there is no activity \" + do.Name + \": the run can go on where there is one\"})",
		new:    "\t\t\treturn do.refuse(&Error{Code: CodeInternal, Message: \"no such activity: \" + do.Name}, nil)",
		suites: []suite{tests("flow", "TestAnActivityThatDoesNotExistIsMisuse")},
	},
	{
		id: "unread-results-fail", guarantee: 1, says: misuseEndsNothing,
		slip:   "fails the call whose value is not what the program expects",
		file:   "flow/json.go",
		old:    "\t\t_, _ = fc.Do(Call{misuse: wrong})",
		new:    "\t\treturn v, &Error{Code: CodeInternal, Message: wrong.Message}",
		suites: []suite{tests("flow", "TestAResultThatCannotBeReadIsMisuse")},
	},
	{
		id: "outputs-not-stored", guarantee: 1, says: storesAreWhole,
		slip:   "signs the digest of outputs that nobody stores",
		file:   "flow/engine.go",
		old:    "\t\tend.Outputs = &out.Value\n",
		new:    "",
		suites: []suite{rules("ExportOfAPlainEnd")},
	},
	{
		id: "runs-without-a-draft", guarantee: 1, says: storesAreWhole,
		slip:   "checks the draft of a run only if it has one",
		file:   "store/run.go",
		old:    "\tif len(drafts) == 0 || drafts[0].Kind !=",
		new:    "\tif len(drafts) > 0 && drafts[0].Kind == \"\" && drafts[0].Kind !=",
		suites: []suite{rules("CreateWithoutADraft")},
	},
	{
		id: "reported-and-reserved", guarantee: 2, says: boundsHold,
		slip:   "charges what was reserved and what was reported",
		file:   "flow/ledger.go",
		old:    "\t\tcase estimate && how == Unsent, ok:",
		new:    "\t\tcase estimate && how == Unsent, ok && n == 0:",
		suites: []suite{simulated()},
	},
	{
		id: "retries-charged-twice", guarantee: 2, says: lostIsGone,
		slip:   "charges a lost attempt when it is found, and again with the next intent",
		file:   "flow/past.go",
		old:    "\tc.open, c.intended, c.suspended, c.reserve, c.known = false, false, false, nil, nil",
		new:    "\tc.open, c.intended, c.suspended, c.known = false, false, false, nil\n\tif how != Lost {\n\t\tc.reserve = nil\n\t}",
		suites: []suite{simulated()},
	},
	{
		id: "parks-with-an-old-timer", guarantee: 1, says: "after `resume`, the run ends as it would have.",
		slip:   "lets a retry of parking from an earlier rest park the run, before it has lingered",
		file:   "flow/wait.go",
		old:    "\tif turn != d.parkTurn || d.running > 0",
		new:    "\tif d.running > 0",
		suites: []suite{simulated()},
	},
	{
		id: "parks-while-it-works", guarantee: 1, says: "after `resume`, the run ends as it would have.",
		slip:   "parks whenever its turn has come, whoever works",
		file:   "flow/wait.go",
		old:    "\tif turn != d.parkTurn || d.running > 0 ||",
		new:    "\tif",
		suites: []suite{simulated()},
	},
}

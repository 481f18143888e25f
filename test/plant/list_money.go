package main

const (
	lostIsGone   = "What an attempt had reserved that is lost, or cut off, nobody else gets"
	lostIsHeld   = "what the attempt had told of its use is used, and the rest is *held*"
	heldAsks     = "Where something is held and too little is left, a `bound` gate asks, and the run does not fail by itself."
	errorsAreCut = "The text of an error has at most 4 KiB in records, replies, Envelopes and gates."
)

// Bugs against what becomes of money that kills cut off, and against the cut of errors.
var moneyBugs = []bug{
	{
		id: "held-is-spent", guarantee: 2, says: lostIsHeld,
		slip:   "charges a lost attempt in full, as it was before money was held",
		file:   "flow/ledger.go",
		old:    "\t\tcase estimate && how == Lost:\n\t\t\tif n > told {\n\t\t\t\tl.held[name] += n - told",
		new:    "\t\tcase estimate && how == Lost:\n\t\t\tif n > told {\n\t\t\t\tl.used[name] += n - told",
		suites: []suite{themes("holding")},
	},
	{
		id: "held-can-be-had", guarantee: 2, says: lostIsGone,
		slip:   "grants what is held for others once more",
		file:   "flow/ledger.go",
		old:    "\t\tif want[name] > limit-l.used[name]-l.held[name]-l.reserved[name] {",
		new:    "\t\tif want[name] > limit-l.used[name]-l.reserved[name] {",
		suites: []suite{themes("holding")},
	},
	{
		id: "held-twice", guarantee: 2, says: lostIsHeld,
		slip:   "holds all that was reserved, also what the attempt had told of its use",
		file:   "flow/ledger.go",
		old:    "\t\t\t\tl.held[name] += n - told",
		new:    "\t\t\t\tl.held[name] += n",
		suites: []suite{themes("holding")},
	},
	{
		id: "counts-are-held", guarantee: 2, says: lostIsGone,
		slip:   "holds what counts calls, too: a crash loop calls for free once it is extended",
		file:   "flow/ledger.go",
		old:    "func Estimated(bound string) bool { return bound == CostUSD || bound == Tokens }",
		new:    "func Estimated(bound string) bool { return true }",
		suites: []suite{themes("holding")},
	},
	{
		id: "unsent-is-charged", guarantee: 2, says: boundsHold,
		slip:   "charges what surely was not done",
		file:   "flow/ledger.go",
		old:    "\tcase b.Error != nil && b.Error.NotSent:\n\t\treturn Unsent",
		new:    "\tcase false:\n\t\treturn Unsent",
		suites: []suite{themes("holding")},
	},
	{
		id: "held-fails-the-run", guarantee: 2, says: heldAsks,
		slip:   "asks only where the program says so",
		file:   "flow/admit.go",
		old:    "\t\tif !do.Ask && d.past.ledger.held[name] == 0 {",
		new:    "\t\tif !do.Ask {",
		suites: []suite{themes("holding")},
	},
	{
		id: "refusal-forgets-the-lost", guarantee: 2, says: lostIsHeld,
		slip:   "takes the refusal of the next attempt for the end of the one that was lost",
		file:   "flow/past.go",
		old:    "\tif p.ledger.holds && c.open && b.Attempt > c.attempt {",
		new:    "\tif false && p.ledger.holds && c.open && b.Attempt > c.attempt {",
		suites: []suite{themes("holding")},
	},
	{
		id: "segment-forgets-held", guarantee: 2, says: lostIsHeld,
		slip:   "hands on what was used to the next segment, and not what is held",
		file:   "flow/past.go",
		old:    "\tfresh.ledger.held.add(b.Held)\n",
		new:    "",
		suites: []suite{themes("holding")},
	},
	{
		id: "fork-forgets-held", guarantee: 2, says: lostIsHeld,
		slip:   "gives a fork what was used, and not what is held",
		file:   "flow/past.go",
		old:    "\t\t\tp.ledger.used, p.ledger.held = b.Counters.clone(), b.Held.clone()",
		new:    "\t\t\tp.ledger.used = b.Counters.clone()\n\t\t\tp.ledger.held = Use{}",
		suites: []suite{themes("holding")},
	},
	{
		id: "one-limit-for-both", guarantee: 2, says: "A run stays inside its bounds", only: processes,
		slip:   "says that what the run has left was reached whichever limit it was",
		file:   "worker/activity.go",
		old:    "\tif res.Outcome == Limit && x.short[res.Which] {",
		new:    "\tif res.Outcome == Limit && len(x.short) > 0 {",
		suites: []suite{started("cmd/tipstaff", "TestAWorkersOwnLimitIsNotThatOfTheRun")},
	},
	{
		id: "error-is-not-cut", guarantee: 2, says: errorsAreCut,
		slip:   "records what an activity says went wrong, however long that is",
		file:   "flow/attempt.go",
		old:    "\tr.err = d.shorten(r.err)\n",
		new:    "",
		suites: []suite{tests("flow", "TestErrorsThatAreTooLongAreCut")},
	},
	{
		id: "error-of-a-check-is-not-cut", guarantee: 2, says: errorsAreCut,
		slip:   "forgets that checks refuse with texts of their own",
		file:   "flow/admit.go",
		old:    "\terr = d.shorten(err)\n",
		new:    "",
		suites: []suite{tests("flow", "TestErrorsThatAreTooLongAreCut")},
	},
	{
		id: "whole-error-is-collected", guarantee: 2, says: "The whole of a longer one is kept beside it.",
		slip:   "names the whole text in the error, and in nothing that keeps it alive",
		file:   "journal/payload.go",
		old:    "\tcase \"effect.finished\", \"effect.failed\", \"effect.lost\", \"effect.given\": // most of them name none",
		new:    "\tcase \"effect.finished\": // most of them name none",
		suites: []suite{tests("journal", "TestDigestsOfPlainRecordsThatNameDocuments")},
	},
	{
		id: "failure-is-not-cut", guarantee: 2, says: errorsAreCut,
		slip:   "thinks that all failures of stages were cut as those of their calls",
		file:   "pipeline/attempt.go",
		old:    "\tif e == nil || x.state.Uncut ||",
		new:    "\tif e == nil || x != nil ||",
		suites: []suite{tests("pipeline", "TestFailuresOfManyWordsAreCut")},
	},
}

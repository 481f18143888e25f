package main

const (
	goesOn      = "A child run that a server drives by itself goes on as every run does."
	parentGoes  = "When it has ended its parent goes on."
	asFrozen    = "A server drives what it can do as the run has frozen it, and leaves the rest to others."
	oneMessage  = "A user has one message at a time, whichever server takes it"
	oneRun      = "The same `Idempotency-Key` with the same body finds the run that it has made"
	firstCome   = "Who comes later does not pass those of the same user who wait."
	scalePage   = "scale.md"
	httpPage    = "http.md"
	familyTests = "TestAChildDrivenByItselfOutlivesItsServer|TestAParentGoesOnWhenItsChildHasEnded|TestAChildThatEndsBeforeItsParentRests|TestAParentIsNeverLeftBehind"
	ableTests   = "TestAServerLeavesWhatItCannotDoAsItWasMade|TestAServerTakesWhatItCanDo|TestAnUpgradeLosesNoRun"
)

// Bugs against what several servers over one store promise.
var serversBugs = []bug{
	{
		id: "feed-attaches-who-is-ahead", guarantee: 5, says: costsNothing,
		slip:   "begins at the end of the feed with a follower who was told more than the feed has read",
		file:   "web/feed.go",
		old:    "\tif !p.attached && p.seq > f.last {\n\t\treturn nil, false, f.over, f.more\n\t}\n",
		new:    "\tif !p.attached && p.seq > f.last {\n\t\tp.next, p.attached = end, true\n\t}\n",
		suites: []suite{tests("web", "TestFollowersMissNothing|TestAFollowerAheadTakesNothingFromTheOthers")},
	},
	{
		id: "feed-batch-for-one", guarantee: 5, says: costsNothing,
		slip: "leaves out of a batch what the follower who asks has had, and gives it to the others",
		file: "web/feed.go",
		old: "\tif !p.attached && p.seq > f.last {\n\t\treturn nil, false, f.over, f.more\n\t}\n\tif !p.attached && !f.attach(p, end) {\n\t\treturn nil, true, f.over, nil\n\t}\n" +
			"\tif p.next == end {\n\t\treturn nil, false, f.over, f.more\n\t}\n" +
			"\tif b := f.joined; b == nil || b.from != p.next || b.to != end {\n\t\tf.joined = &batch{from: p.next, to: end}\n\t\tfor _, e := range f.frames[p.next-f.first:] {\n\t\t\tf.joined.add(e)\n\t\t}\n\t}\n",
		new: "\tif !p.attached && p.seq > f.last {\n\t\tp.next, p.attached = end, true\n\t}\n\tif !p.attached && !f.attach(p, end) {\n\t\treturn nil, true, f.over, nil\n\t}\n" +
			"\tif p.next == end {\n\t\treturn nil, false, f.over, f.more\n\t}\n" +
			"\tif b := f.joined; b == nil || b.from != p.next || b.to != end {\n\t\tf.joined = &batch{from: p.next, to: end}\n\t\tfor _, e := range f.frames[p.next-f.first:] {\n\t\t\tif e.seq == 0 || e.seq > p.seq {\n\t\t\t\tf.joined.add(e)\n\t\t\t}\n\t\t}\n\t}\n",
		suites: []suite{tests("web", "TestFollowersMissNothing")},
	},
	{
		id: "joined-batch", guarantee: 5, says: costsNothing,
		slip:   "gives a reader the batch of another who has come further",
		file:   "web/feed.go",
		old:    "b == nil || b.from != p.next || b.to != end {",
		new:    "b == nil || b.to != end {",
		suites: []suite{tests("web", "TestFollowersMissNothing")},
	},
	{
		id: "child-left-interrupted", page: scalePage, says: goesOn,
		slip:   "takes every child for one that goes on with its parent",
		file:   "runner/watch.go",
		old:    "return err == nil && !(child && r.willGoOn(ctx, parent)), err",
		new:    "_ = parent\n\treturn err == nil && !child, err",
		suites: []suite{tests("runner", familyTests)},
	},
	{
		id: "child-not-handed-over", page: scalePage, says: goesOn,
		slip:   "hands over only what nothing has dispatched",
		file:   "runner/watch.go",
		old:    "\tif err == nil && r.enqueueAgain(ctx, row, l.who) == nil {",
		new:    "\tif _, child, _ := r.parentOf(ctx, l.run); child || err == nil && r.enqueueAgain(ctx, row, l.who) == nil {",
		suites: []suite{tests("runner", familyTests)},
	},
	{
		id: "parent-not-due", page: scalePage, says: parentGoes,
		slip:   "leaves the parent of a child that has ended to whoever has ended the child",
		file:   "store/project.go",
		old:    "\tif err := t.wakeParent(st); err != nil {\n\t\treturn err\n\t}\n",
		new:    "",
		suites: []suite{tests("runner", familyTests), rules("TheEndOfAChildMakesItsParentDue")},
	},
	{
		id: "parent-parks-past-its-child", page: scalePage, says: parentGoes,
		slip:   "has a run park that waits for another which has ended meanwhile",
		file:   "store/lease.go",
		old:    "} else if over > 0 {\n\t\t\tst.wake = t.now",
		new:    "} else if over < 0 {\n\t\t\tst.wake = t.now",
		suites: []suite{tests("runner", familyTests)},
	},
	{
		id: "nobody-looks-in-a-folder", page: scalePage, says: parentGoes,
		slip:   "leaves runs that are due to servers that share them, where there are none",
		file:   "runner/expiry.go",
		old:    "\tif r.Pool != nil { // servers look for themselves\n",
		new:    "\tif true {\n",
		suites: []suite{tests("runner", familyTests)},
	},
	{
		id: "parent-rests-late", page: scalePage, says: parentGoes,
		slip:   "forgets which children a drive has stopped to look at",
		file:   "runner/dispatch.go",
		old:    "\t\ta.waits = append(a.waits, child)\n",
		new:    "",
		suites: []suite{tests("runner", familyTests)},
	},
	{
		id: "takes-what-it-cannot", page: scalePage, says: asFrozen,
		slip:   "takes whatever is next in the queue",
		file:   "runner/able.go",
		old:    "\t\twhy = r.lacks(p.shared())\n\t} else {\n\t\twhy = err.Error()",
		new:    "\t\twhy = \"\"\n\t} else {\n\t\twhy = err.Error()",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "resumes-what-it-cannot", page: scalePage, says: asFrozen,
		slip:   "looks at the machine that a run is tied to alone before it drives it",
		file:   "runner/tie.go",
		old:    "if why := r.lacks(p.shared()); why != \"\" {",
		new:    "if why := r.lacks(p.shared()); why != \"\" && row.Host != \"\" {",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "call-refused-for-good", page: scalePage, says: asFrozen,
		slip:   "has a call refused that this machine alone refuses",
		file:   "runner/able.go",
		old:    "\t\tif why == \"\" || !env.r.pooled() {",
		new:    "\t\tif true {",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "lacks-what-nobody-uses", page: scalePage, says: "Only what the run can use counts",
		slip:   "has every program that the manifest had be there, also those that the run never starts",
		file:   "runner/able.go",
		old:    "list.name == \"programs\" && !others && !slices.Contains(started, item)",
		new:    "list.name == \"programs\" && !others && len(started) < 0",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "lacks-places-of-no-tool", page: scalePage, says: "Only what the run can use counts",
		slip:   "has every place that the manifest had be there, also for a run whose tools reach none",
		file:   "runner/able.go",
		old:    "\t\tif !c.reaches(uris, list.name) {\n",
		new:    "\t\tif uris == nil {\n",
		suites: []suite{tests("runner", ableTests)},
	},
	{
		id: "left-runs-looked-at-always", page: scalePage, says: "what it left is passed over",
		slip:   "goes along the whole line whenever a place is free",
		file:   "runner/able.go",
		old:    "\tif w != nil && now.Before(w.until) {\n\t\treturn w\n\t}\n",
		new:    "",
		suites: []suite{tests("runner", "TestRunsThatWereLeftCostLittle")},
	},
	{
		id: "left-runs-never-forgotten", page: scalePage, says: "what it left is passed over",
		slip:   "remembers what waits no more",
		file:   "runner/able.go",
		old:    "return l.user == user && l.seen.Before(w.began)",
		new:    "return l.user == user && l.seen.Before(w.began) && l.why == \"\"",
		suites: []suite{tests("runner", "TestRunsThatWereLeftCostLittle")},
	},
	{
		id: "hiccup-for-good", page: scalePage, says: "What could not be read is tried again",
		slip:   "leaves a run to others for good that could not be read once",
		file:   "runner/able.go",
		old:    "\tlasts := err == nil || ",
		new:    "\tlasts := true || ",
		suites: []suite{tests("runner", "TestAServerTriesAgainWhatCouldNotBeRead|TestRunsThatWereLeftCostLittle")},
	},
	{
		id: "claim-of-another-undone", page: scalePage, says: "A run is driven by one process at a time.",
		slip:   "undoes a claim whoever holds it",
		file:   "store/queue.go",
		old:    "WHERE id = ? AND queued = 1 AND claimed = ?`, run, claim)",
		new:    "WHERE id = ? AND queued = 1 AND claimed <> ?`, run, claim+1)",
		suites: []suite{rules("AClaimIsUndoneByItsHolderAlone")},
	},
	{
		id: "decided-while-it-parks", page: httpPage, says: "`\"resume\": true` has the run go on",
		slip:   "takes a run that has parked for one that is driven, for as long as its driver does not know",
		file:   "runner/resume.go",
		old:    "\t\tr.goesOnAgain(row.ID)\n",
		new:    "",
		suites: []suite{tests("runner", "TestADecisionJustAfterTheParkHasTheRunGoOn")},
	},
	{
		id: "message-per-server", page: httpPage, says: oneMessage,
		slip:   "looks for the message before without waiting for one that is being made",
		file:   "store/run.go",
		old:    "\tif run.Alone == \"\" {",
		new:    "\tif run.Alone == \"\" || len(run.Labels) > 0 {",
		suites: []suite{tests("runner", "TestOneMessageAtATimeOverSeveralServers")},
	},
	{
		id: "fails-for-what-was-undone", page: httpPage, says: oneRun,
		slip:   "believes what an operation failed for, although its transaction was undone",
		file:   "store/writer.go",
		old:    "\t\t\tw.settleDoubts(batch)\n",
		new:    "",
		suites: []suite{rules("AFailureIsOfWhatIsStored")},
	},
	{
		id: "later-run-passes", page: scalePage, says: firstCome,
		slip:   "takes a free place before it looks at the queue",
		file:   "runner/pool.go",
		old:    "\t\tif before == 0 {",
		new:    "\t\tif before >= 0 {",
		suites: []suite{tests("runner", "TestALaterRunPassesNoEarlierOne")},
	},
	{
		id: "other-keys-unsaid", page: scalePage, says: "A server whose keys are not those of unfinished runs says so in its log when it starts",
		slip:   "compares the keys of runs with those that the database knows, not with its own",
		file:   "runner/able.go",
		old:    "draft.Keys != (tipstaff.RunKeys{}) && draft.Keys.Executor != r.Keys.Executor {\n\t\t\tn++",
		new:    "draft.Keys != (tipstaff.RunKeys{}) && len(known) == 0 {\n\t\t\tn++",
		suites: []suite{tests("runner", "TestAServerLeavesWhatItCannotDoAsItWasMade")},
	},
}

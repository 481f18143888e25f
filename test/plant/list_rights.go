package main

const (
	broughtAsks   = "Of everybody else a run asks before each `once` call, whatever a rule of the policy allows"
	workersAsk    = "a [worker](workers.md) with another posture than `read_only` begins"
	servedIs      = "named by a caller with `run`, as it stands there"
	orderIsAnEdit = "In another order, or with outputs of the caller's, it is the caller's document."
	otherFiles    = "So is any other file of the workspace"
	holdsForAll   = "holds for what comes of it: child runs, corrections, forks,"
	aloneAsks     = "Of whoever may not `decide` it asks about all that does more than read."
	wholePlan     = "Only a person's acceptance of the whole of a plan, at a gate, ends it."
	noneWrites    = "No run writes into these folders."
)

// handedTests are the tests of who may hand over what.
func handedTests(names string) []suite { return []suite{tests("runner", names)} }

// brought is a way to bring a document, tried by all who may come.
func brought(way string) []suite {
	return []suite{{level: inProcess, pkg: "runner", run: "^TestNothingRunsUnaskedForWhomMayNotDecide$/^" + way + "$"}}
}

// Bugs against who may hand over a document, and what a run asks then.
var rightsBugs = []bug{
	{
		id: "brought-rule-waives", page: "security.md", says: broughtAsks,
		slip: "lets a rule that allows waive the question, as it does for those who may decide",
		file: "tool/gate.go",
		old:  "waived := p.Do == policy.Allow || p.Rule == policy.NoMatch;", new: "waived := p.Rule == policy.NoMatch;",
		suites: brought("a_text"),
	},
	{
		id: "brought-worker-begins", page: "security.md", says: workersAsk,
		slip: "asks about calls of tools alone",
		file: "runner/perform.go",
		old:  "Asks: w.asksBefore(), walk: w,", new: "walk: w,",
		suites: brought("a_text"),
	},
	{
		id: "brought-any-file", page: "security.md", says: otherFiles,
		slip: "takes a file of the workspace for the operator's word, as it lies on the server",
		file: "runner/handed_file.go",
		old:  "len(o.Program) > 0 && !o.handed.served && !plan", new: "len(o.Program) > 0 && req.File == \"\" && !plan",
		suites: brought("a_file_of_the_workspace"),
	},
	{
		id: "brought-in-order", page: "security.md", says: orderIsAnEdit,
		slip: "does not see that another order makes another program",
		file: "runner/pipeline.go",
		old:  "p.handed.own = p.handed.own || ordered != pipe", new: "p.handed.own = p.handed.own || ordered == nil",
		suites: brought("a_file_that_is_served,_in_another_order"),
	},
	{
		id: "brought-beside", page: "security.md", says: servedIs,
		slip: "looks at the document, and not at the files that it names",
		file: "runner/handed_file.go",
		old:  "p.handed.own = p.handed.own || !served", new: "p.handed.own = p.handed.own && !served",
		suites: brought("a_file_that_is_served,_beside_what_is_not"),
	},
	{
		id: "brought-edit", page: "security.md", says: orderIsAnEdit,
		slip: "forgets who has edited a draft when it is started",
		file: "runner/pipeline_draft_fold.go",
		old:  "\t\t\tnext.draft.Asks = joinAsks(next.draft.Asks, u.Asks)\n", new: "",
		suites: brought("an_edit_of_a_draft"),
	},
	{
		id: "brought-alone", page: "security.md", says: aloneAsks,
		slip: "asks of an agent alone what its pipeline would ask",
		file: "runner/handed.go",
		old:  "joinAsks(h.of, asksEffects), nil", new: "joinAsks(h.of, asksOnce), nil",
		suites: handedTests("TestAnAgentAloneGoesAroundNoGate"),
	},
	{
		id: "brought-child", page: "security.md", says: holdsForAll,
		slip: "makes the child run for its parent, which may decide",
		file: "runner/child.go",
		old:  "handed{of: parent.draft.Asks}", new: "handed{}",
		suites: handedTests("TestChildrenAskAsTheirParentDoes"),
	},
	{
		id: "brought-rollback", page: "security.md", says: holdsForAll,
		slip: "lets a run that is begun again ask what it asked before",
		file: "runner/rollback.go",
		old:  "false, joinAsks(base.draft.Asks, req.asks)", new: "false, base.draft.Asks",
		suites: brought("a_rollback"),
	},
	{
		id: "brought-fork-replays", page: "security.md", says: holdsForAll,
		slip: "has a fork ask about what it has inherited, so that it does not fit its history",
		file: "runner/handed.go",
		old:  "&& !c.unasked[path]", new: "",
		suites: handedTests("TestAForkAsksAboutWhatItHasNotInherited"),
	},
	{
		id: "brought-changes-accepted", page: "security.md", says: wholePlan,
		slip: "takes the acceptance of a correction for one of the whole program",
		file: "runner/revision_confirm.go",
		old:  "\t\treturn p.segment.Former.Asks\n", new: "\t\treturn \"\"\n",
		suites: handedTests("TestACorrectionThatIsAcceptedAsksAsBefore"),
	},
	{
		id: "brought-reader-asks", page: "security.md", says: workersAsk,
		slip: "asks about workers that change nothing, too",
		file: "worker/drive.go",
		old:  "d.allowed || d.Posture == ReadOnly || d.Asks", new: "d.allowed || d.Asks",
		suites: handedTests("TestAReadingWorkerIsNotAskedAbout"),
	},
	{
		id: "served-is-writable", page: "security.md", says: noneWrites,
		slip: "protects what the manifest names, and not what a daemon was told on its command line",
		file: "workspace/protection.go",
		old:  "slices.Concat(list, p.around.Named, ServedBy(filepath.Join(dir, ownFolder)))", new: "slices.Concat(list, p.around.Named)",
		suites: []suite{tests("tool", "TestNoToolWritesWhatIsServed")},
	},
}

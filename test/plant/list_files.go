package main

const (
	onDelivered   = "Checks run on what would be delivered"
	takenAway     = "is taken away before the next one"
	neverPart     = "is never part of what is delivered"
	onlyIgnored   = "Nothing is taken through a link that leads out of the checkout"
	linkedCompare = "compared after each invocation of a worker and before each check"
	beforeAnybody = "before anybody works there"
	newContents   = "puts new contents beside those of the repository"
	cleanGoes     = "or with a run that ends before, and its `teardown` runs there"
	ownPorts      = "No two worktrees have the same one"
)

// Bugs against what a worktree is given, and against the checkout that checks run in.
var filesBugs = []bug{
	{
		id: "checks-in-the-worktree", page: "delivery.md", says: onDelivered,
		slip:   "runs a check where the worker has worked",
		file:   "delivery/activity.go",
		old:    "command.Dir, command.Env = placeWithin(in.Place, clean.dir), portsEnv(clean.ports)",
		new:    "command.Env = portsEnv(clean.ports)",
		suites: []suite{tests("delivery", "TestChecksRunOnWhatIsDelivered")},
	},
	{
		id: "checks-before-the-tree", page: "delivery.md", says: onDelivered,
		slip:   "holds runs of now to the rules of earlier ones",
		file:   "runner/files.go",
		old:    "Earlier: c.draft.Rules < rulesDelivered}",
		new:    "Earlier: c.draft.Rules <= rulesDelivered}",
		suites: []suite{script("worktree_files")},
	},
	{
		id: "leavings-for-the-next-check", page: "delivery.md", says: takenAway,
		slip:   "keeps what a check has added",
		file:   "delivery/clean.go",
		old:    "		if removeAll(name) != nil {",
		new:    "		if name == \"\" {",
		suites: []suite{tests("delivery", "TestChecksRunOnWhatIsDelivered")},
	},
	{
		id: "changes-for-the-next-check", page: "delivery.md", says: takenAway,
		slip:   "looks at names alone",
		file:   "delivery/clean.go",
		old:    "		case cleanStamp(info) != was.stamp:",
		new:    "		case false:",
		suites: []suite{tests("delivery", "TestChecksRunOnWhatIsDelivered|TestTheCleanCheckoutIsMadeReady")},
	},
	{
		id: "an-index-for-the-next-check", page: "delivery.md", says: takenAway,
		slip:   "leaves git's index as a check has made it",
		file:   "delivery/clean.go",
		old:    "	return copyIndex(cleanIndex(c.dir), filepath.Join(c.dir, \".git\", \"index\")) == nil\n",
		new:    "	return true\n",
		suites: []suite{tests("delivery", "TestAnIndexIsNotHandedOn")},
	},
	{
		id: "secrets-delivered", page: "delivery.md", says: neverPart,
		slip:   "trusts the ignore files of the worktree",
		file:   "delivery/snapshot.go",
		old:    "	found = w.withoutPlaced(found)\n",
		new:    "",
		suites: []suite{tests("delivery", "TestWhatWasGivenIsNotDelivered")},
	},
	{
		id: "secrets-by-another-name", page: "delivery.md", says: neverPart,
		slip:   "copies a file under a name that no record holds",
		file:   "delivery/give.go",
		old:    "	case !utf8.ValidString(name + rel):",
		new:    "	case !utf8.ValidString(filepath.Base(checkout)):",
		suites: []suite{tests("delivery", "TestNamesThatCannotBeRecorded")},
	},
	{
		id: "out-by-a-link", page: "delivery.md", says: onlyIgnored,
		slip:   "does not look where a link leads",
		file:   "delivery/give.go",
		old:    "	case err != nil || !filepath.IsLocal(rel):",
		new:    "	case err != nil:",
		suites: []suite{tests("delivery", "TestIgnoredFilesAreCopiedAndLinked")},
	},
	{
		id: "changed-links-unseen", page: "delivery.md", says: linkedCompare,
		slip:   "compares names and modes, and not what files hold",
		file:   "delivery/linked.go",
		old:    "			sum.Write(digest[:])\n",
		new:    "			sum.Write(digest[:0])\n",
		suites: []suite{tests("delivery", "TestChangedLinksAreTold")},
	},
	{
		id: "changed-links-told-by-checks-alone", page: "delivery.md", says: linkedCompare,
		slip:   "compares what is linked before a check, and not when a worker has ended",
		file:   "runner/files.go",
		old:    "linked, err := e.r.Git.LinkedChanged(comparing, w)",
		new:    "linked, err := e.r.Git.LinkedChanged(comparing, delivery.Worktree{})",
		suites: []suite{script("linked_changed")},
	},
	{
		id: "changed-links-checked", page: "delivery.md", says: linkedCompare,
		slip:   "tells of a changed link, and runs the check all the same",
		file:   "delivery/activity.go",
		old:    "len(linked) > 0 {",
		new:    "len(linked) > 99 {",
		suites: []suite{tests("delivery", "TestChangedLinksAreTold")},
	},
	{
		id: "clean-in-another-format", page: "delivery.md", says: onDelivered,
		slip:   "makes the repository of a clean checkout as most repositories are",
		file:   "delivery/clean.go",
		old:    "r.config([]setting{{\"core.bare\", \"false\"}",
		new:    "(&Repo{Place: Place{Format: \"sha1\"}}).config([]setting{{\"core.bare\", \"false\"}",
		suites: []suite{tests("delivery", "TestKindsOfRepositories")},
	},
	{
		id: "work-after-a-failed-setup", page: "delivery.md", says: beforeAnybody,
		slip:   "records that a set-up has failed, and goes on",
		file:   "delivery/prepare.go",
		old:    "	if !done.Receipt.Passed(done.Receipt.Tree) {\n		return setupFailure",
		new:    "	if done.Receipt.Code == \"timeout\" {\n		return setupFailure",
		suites: []suite{tests("delivery", "TestSetupRunsBeforeAnybodyWorks")},
	},
	{
		id: "clean-for-good", page: "delivery.md", says: cleanGoes,
		slip:   "takes a clean checkout away at the gate alone",
		file:   "runner/drive.go",
		old:    "		if out.Terminal() && p.shared().wrapped(p) {",
		new:    "		if out.Terminal() && p.shared().hasChildren() {",
		suites: []suite{tests("runner", "TestTeardownOfCleanCheckoutsThatAreLeft")},
	},
	{
		id: "clean-of-a-run-that-nobody-drives", page: "delivery.md", says: cleanGoes,
		slip:   "forgets a run that is ended without being driven",
		file:   "runner/cancel.go",
		old:    "		if swept, err = r.settle(ctx, row, body); err == nil {",
		new:    "		if swept, err = r.settle(ctx, row, body); err == nil && swept > 0 {",
		suites: []suite{tests("runner", "TestTeardownOfCleanCheckoutsThatAreLeft")},
	},
	{
		id: "clean-of-a-run-under-way", page: "delivery.md", says: cleanGoes,
		slip:   "tidies away the checkout in which a check may be running",
		file:   "runner/worktrees.go",
		old:    "		if err != nil || !tipstaff.State(row.State).Terminal() {\n			return false",
		new:    "		if err != nil {\n			return false",
		suites: []suite{tests("runner", "TestCleanCheckoutsAreTidied")},
	},
	{
		id: "clean-without-a-teardown", page: "delivery.md", says: cleanGoes,
		slip:   "removes a checkout that was left, and not what runs for it",
		file:   "runner/worktrees.go",
		old:    "r.tearDown(ctx, c.Run, r.prepared(ctx, c.Run, draft).Teardown, placed(draft, c.Path), ports)",
		new:    "r.tearDown(ctx, c.Run, nil, placed(draft, c.Path), ports)",
		suites: []suite{tests("runner", "TestCleanCheckoutsAreTidied")},
	},
	{
		id: "ports-twice", page: "delivery.md", says: ownPorts,
		slip:   "looks only whether somebody listens",
		file:   "delivery/ports.go",
		old:    "				taken[p] = true\n",
		new:    "				taken[p] = false\n",
		suites: []suite{tests("delivery", "TestPortsAreOfOneRun")},
	},
	{
		id: "linked-without-end", page: "delivery.md", says: "16 GiB",
		slip:   "reads what is linked however much it is",
		file:   "delivery/linked.go",
		old:    "size > maxLinkedBytes {",
		new:    "size > maxLinkedBytes<<20 {",
		suites: []suite{tests("delivery", "TestLinkedFoldersWithoutEnd")},
	},
	{
		id: "linked-and-nothing-else", page: "delivery.md", says: "are compared before and after each invocation and check",
		slip:   "tells what has changed only if the check has run",
		file:   "delivery/activity.go",
		old:    "	got.Notices = slices.Concat(linked, Compare(before, after), r.Meddling())\n",
		new:    "	if got.Notices = linked; got.Receipt.Code == \"\" {\n		got.Notices = slices.Concat(Compare(before, after), r.Meddling())\n	}\n",
		suites: []suite{tests("delivery", "TestMeddlingIsToldWhateverElse|TestCommandsOfTheCleanCheckoutAreWatched")},
	},
	{
		id: "secrets-for-whoever-asks", page: "delivery.md", says: "Somebody who may not decide cannot have",
		slip:   "takes the word of a document for that of its reader",
		file:   "runner/files.go",
		old:    "!noFiles && askEffects(asks) == nil",
		new:    "!noFiles || askEffects(asks) == nil",
		suites: []suite{tests("runner", "TestWhoMayNotDecideNamesNoIgnoredFiles")},
	},
	{
		id: "contents-stay-behind", page: "delivery.md", says: newContents,
		slip:   "publishes pointers, and not what they point to",
		file:   "delivery/commit.go",
		old:    "return r.bringContents(ctx, to, names)",
		new:    "return nil",
		suites: []suite{tests("delivery", "TestContentsOfLFS")},
	},
	{
		id: "secret-in-a-content", page: "delivery.md", says: newContents,
		slip:   "looks for credentials in pointers alone",
		file:   "delivery/secret.go",
		old:    "kept, err := r.contentHolds(ctx, d.changes, holds)",
		new:    "kept, err := r.contentHolds(ctx, nil, holds)",
		suites: []suite{tests("delivery", "TestACredentialInAContent")},
	},
}

package main

const (
	lookedAgain      = "What blocks is looked for again whenever the gate is shown, and when it is decided"
	suggests         = "It suggests the first of `approve`, `fix`, `skip` and `halt` that is not blocked"
	countsForAMoment = "What was found counts for 2 seconds for whoever is shown the gate; a decision always looks itself"
	opensAgain       = "which says what came in the way"
	anyTime          = "at any time the newest of them"
	oneAtATime       = "One `apply` at a time writes"
	waitsNoLonger    = "waits for it no longer than one call of git may take"
	noHalves         = "Nothing is applied by halves"
	diskFull         = "for which a disk is full asks a person"
	noWorktree       = "What was decided needs no worktree any more"
	accepts          = "which holds for those that the record of the gate names"
)

// Bugs against the gate of a delivery.
var deliveryBugs = []bug{
	{
		id: "blockers-as-they-were", page: "delivery.md", says: lookedAgain,
		slip:   "shows what was recorded when the gate opened",
		file:   "delivery.go",
		old:    "	if g.Now != nil {\n		s.Blocked, s.DefaultAction",
		new:    "	if g.Now == nil {\n		return s, true\n	}\n	if g.Now.Worktree && len(g.Now.Blocked) == 0 {\n		s.Blocked, s.DefaultAction",
		suites: []suite{tests("runner", "TestBlockersAreLookedForAgain")},
	},
	{
		id: "decided-as-it-was", page: "delivery.md", says: lookedAgain,
		slip:   "looks again for whoever reads, and not for whoever decides",
		file:   "runner/decide.go",
		old:    "	g.Now = known.now\n",
		new:    "",
		suites: []suite{tests("runner", "TestBlockersAreLookedForAgain|TestABlockerThatIsGone")},
	},
	{
		id: "shown-for-good", page: "delivery.md", says: countsForAMoment,
		slip:   "keeps what was found for as long as the process lives",
		file:   "runner/look.go",
		old:    "		if !had.until.IsZero() && !at.Before(had.until) {",
		new:    "		if had.until.IsZero() && !at.Before(had.until) {",
		suites: []suite{tests("runner", "TestLooksAreShared")},
	},
	{
		id: "decided-by-what-was-shown", page: "delivery.md", says: countsForAMoment,
		slip:   "decides by what somebody was shown a moment ago",
		file:   "runner/decide.go",
		old:    "known.now = r.lookAgain(ctx, run, subject)",
		new:    "known.now = r.looks.at(ctx, r.Stop, asked.ID, r.Now, func(ctx context.Context) *tipstaff.DeliveryNow { return r.lookAgain(ctx, run, subject) })",
		suites: []suite{tests("runner", "TestDecisionsAreLookedAtAnew")},
	},
	{
		id: "everybody-looks-at-once", page: "delivery.md", says: countsForAMoment,
		slip:   "starts git for as many gates as somebody shows",
		file:   "runner/look.go",
		old:    "make(chan struct{}, looksAtOnce)",
		new:    "make(chan struct{}, 100*looksAtOnce)",
		suites: []suite{tests("runner", "TestOneLooksForAllWhoWait")},
	},
	{
		id: "fix-of-nothing", page: "delivery.md", says: lookedAgain,
		slip:   "does not look whether the worktree is there",
		file:   "delivery/look.go",
		old:    "f.WorktreeMissing, f.Secret = !now.Worktree, s.Secret",
		new:    "f.WorktreeMissing, f.Secret = false, s.Secret",
		suites: []suite{tests("delivery", "TestWhatStandsInTheWayNow")},
	},
	{
		id: "follow-ups-without-end", page: "delivery.md", says: "One that has changed nothing",
		slip:   "forgets, when it looks again, what only the run knows of follow-ups",
		file:   "delivery/look.go",
		old:    "			f.NoFollowup = &was\n",
		new:    "			f.NoFollowup = nil\n",
		suites: []suite{tests("delivery", "TestWhatIsSettledOfFollowUps")},
	},
	{
		id: "suggests-what-is-blocked", page: "delivery.md", says: suggests,
		slip:   "suggests approve whatever stands in its way",
		file:   "delivery.go",
		old:    "		if slices.Contains(open, action) {\n			return action",
		new:    "		if len(open) > 0 {\n			return action",
		suites: []suite{tests("delivery", "TestSuggestedAction|TestWhatStandsInTheWayNow")},
	},
	{
		id: "opens-again-without-a-word", page: "delivery.md", says: opensAgain,
		slip:   "opens the gate anew, and does not say why",
		file:   "delivery/deliver.go",
		old:    "	if d.hindrance != nil {",
		new:    "	if d.hindrance != nil && d.hindrance.Code == \"\" {",
		suites: []suite{tests("delivery", "TestAGateThatOpensAgainSaysWhy")},
	},
	{
		id: "applied-by-halves", page: "delivery.md", says: noHalves,
		slip:   "leaves in the checkout what had its place before one file could not be written",
		file:   "delivery/place.go",
		old:    "			err = p.takeBack(err)\n",
		new:    "			p.undo = nil\n",
		suites: []suite{tests("delivery", "TestAnApplyThatFailsInTheMiddle")},
	},
	{
		id: "removes-what-is-to-be-put-back", page: "delivery.md", says: noHalves,
		slip:   "cleans up what it has replaced, also where that could not go back",
		file:   "delivery/place.go",
		old:    "	if !errors.As(err, &unsettled) {",
		new:    "	if !errors.As(err, &unsettled) || true {",
		suites: []suite{tests("delivery", "TestAnApplyThatCannotBeTakenBack")},
	},
	{
		id: "full-for-a-moment", page: "delivery.md", says: diskFull,
		slip:   "records a full disk as any failure of git, which ends the run",
		file:   "delivery/activity.go",
		old:    "	case noRoom(err):\n		return &flow.Error{",
		new:    "	case noRoom(err) && len(err.Error()) == 0:\n		return &flow.Error{",
		suites: []suite{tests("delivery", "TestNoRoomForAWorktree")},
	},
	{
		id: "full-in-other-words", page: "delivery.md", says: "says `disk_full`, where, and how much is needed",
		slip:   "knows one of the ways in which git says that a disk is full",
		file:   "delivery/room.go",
		old:    "\"No space left on device\", \"Out of diskspace\", ",
		new:    "\"No space left on device\", ",
		suites: []suite{tests("delivery", "TestNoRoomForADelivery")},
	},
	{
		id: "two-apply-at-once", page: "delivery.md", says: oneAtATime,
		slip:   "takes no lock before it looks at the checkout",
		file:   "delivery/activity.go",
		old:    "	unlock, err := e.lock(ctx, applyLock(r))",
		new:    "	unlock, err := func() error { return nil }, error(nil)",
		suites: []suite{tests("delivery", "TestTwoThatApplyAtOnce")},
	},
	{
		id: "accepted-unnamed", page: "delivery.md", says: accepts,
		slip:   "takes an acceptance of some files for one of all",
		file:   "delivery/activity.go",
		old:    "func(name string) bool { return named[name] })",
		new:    "func(string) bool { return len(named) > 0 })",
		suites: []suite{tests("delivery", "TestAnAcceptanceIsOfWhatTheGateHasNamed")},
	},
	{
		id: "named-as-it-was", page: "delivery.md", says: "names them in its first lines and asks about them",
		slip:   "opens the gate anew with what was obeyed when the difference was recorded",
		file:   "delivery/deliver.go",
		old:    "		d.diff.Obeyed = sinceThen(d.diff.Obeyed, *made.Obeyed)\n",
		new:    "		_ = sinceThen\n",
		suites: []suite{tests("delivery", "TestAnAcceptanceIsOfWhatTheGateHasNamed")},
	},
	{
		id: "waits-for-a-lock-whatever-it-is-told", page: "delivery.md", says: waitsNoLonger,
		slip:   "lets an apply go on to its end when the process is told to stop",
		file:   "delivery/activity.go",
		old:    ", Stops: func(flow.Attempt) bool { return true }}",
		new:    "}",
		suites: []suite{tests("delivery", "TestWaitingForALockIsInterrupted")},
	},
	{
		id: "in-doubt-about-nothing", page: "delivery.md", says: waitsNoLonger,
		slip:   "does not say of an apply that was cancelled while it waited that it has changed nothing",
		file:   "delivery/activity.go",
		old:    "	if errors.Is(context.Cause(ctx), flow.ErrCancelled) {",
		new:    "	if context.Cause(ctx) == nil {",
		suites: []suite{tests("delivery", "TestCancelledWhileItWaitsForALock")},
	},
	{
		id: "locked-is-unreadable", page: "delivery.md", says: waitsNoLonger,
		slip:   "waits for a lock without a limit of its own",
		file:   "delivery/lock.go",
		old:    "	limited, cancel := context.WithTimeoutCause(ctx, limit, &BusyError{Path: path, Limit: limit, Hint: e.Git.LimitHint})",
		new:    "	limited, cancel := context.WithTimeout(ctx, limit)",
		suites: []suite{tests("delivery", "TestALockThatNobodyLetsGo")},
	},
	{
		id: "one-lock-for-all", page: "delivery.md", says: oneAtATime,
		slip:   "has everybody of the machine wait for whoever applies something",
		file:   "delivery/lock.go",
		old:    "sha256.Sum256([]byte(r.Common))",
		new:    "sha256.Sum256([]byte(r.Format))",
		suites: []suite{tests("delivery", "TestLocksAreOfOneRepository")},
	},
	{
		id: "a-lock-that-cannot-be-left", page: "delivery.md", says: waitsNoLonger,
		slip:   "has the system wait for a lock",
		file:   "store/files/files.go",
		old:    "		case <-ctx.Done():\n",
		new:    "		case <-context.WithoutCancel(ctx).Done():\n",
		suites: []suite{tests("store/files", "TestWaitingForALockEnds")},
	},
	{
		id: "published-from-a-worktree", page: "delivery.md", says: noWorktree,
		slip:   "says of a run that has only to publish that it cannot go on",
		file:   "diagnose.go",
		old:    "run.Delivery.Kind != DeliveryCompleted && run.Delivery.Kind != DeliveryDecided:",
		new:    "run.Delivery.Kind != DeliveryCompleted:",
		suites: []suite{tests("runner", "TestADecidedDeliveryNeedsNoWorktree"), script("followup")},
	},
	{
		id: "difference-of-the-end-alone", page: "delivery.md", says: anyTime,
		slip:   "prints the difference of the end, and that of a stage by its name",
		file:   "diff.go",
		old:    "(req.Stage == \"\" || b.Stage == req.Stage)",
		new:    "b.Stage == req.Stage",
		suites: []suite{tests(".", "TestTheNewestDifferenceIsShown")},
	},
	{
		id: "reviewed-unseen", page: "delivery.md", says: "names the files that have changed",
		slip:   "names no files at the gate of a review",
		file:   "gate.go",
		old:    "	return g.Kind == Handoff || g.Kind == Question && AskerPath(g.Kind, g.Key) != g.Key",
		new:    "	return g.Kind == Question && AskerPath(g.Kind, g.Key) != g.Key",
		suites: []suite{tests("runner", "TestTheNewestDifference")},
	},
	{
		id: "follow-up-unnamed", page: "delivery.md", says: "`decide` prints its id",
		slip:   "says that it is decided, and not what goes on",
		file:   "cli/decide.go",
		old:    "		fmt.Fprintf(a.out, \"followed up by %s, with what is to be corrected\\n\", next)\n",
		new:    "",
		suites: []suite{script("followup")},
	},
	{
		id: "placings-for-ever", page: "delivery.md", says: "with what an `apply` has left in yours (`tipstaff-apply-<run>-…`) that was broken off",
		slip:   "leaves what was written beside the checkout to whoever applies the same commit again",
		file:   "delivery/worktree.go",
		old:    "errors.Join(r.clear(w), r.forgetPlacings(w))",
		new:    "r.clear(w)",
		suites: []suite{tests("delivery", "TestAnApplyThatCannotBeTakenBack")},
	},
}

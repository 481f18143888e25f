package main

const costsNothing = "A slow or vanished reader costs the run nothing and, going on after its last `seq`, misses nothing."
const noTrace = "Looking changes nothing: no tool or route that observes or inspects leaves a trace in the store or its folders."

// Bugs against guarantee 5.
var watching = []bug{
	{
		id: "follower-blocks", guarantee: 5, says: costsNothing,
		slip:   "hands the signal over to a follower instead of leaving it",
		file:   "store/watch.go",
		old:    "\t\t\tselect {\n\t\t\tcase l.changed <- struct{}{}:\n\t\t\tdefault:\n\t\t\t}",
		new:    "\t\t\tl.changed <- struct{}{}",
		suites: []suite{rules("FollowIsCoalesced")},
	},
	{
		id: "listeners-before-the-commit", guarantee: 5, says: costsNothing,
		slip:   "asks who follows a run when its record is written, and not when it can be read",
		file:   "store/watch.go",
		old:    "\tif n := len(t.notices); n == 0 || t.notices[n-1].run != run {\n",
		new:    "\tif n := len(t.notices); t.s.hub.listeners[run] != nil && (n == 0 || t.notices[n-1].run != run) {\n",
		suites: []suite{tests("store", "TestWhoComesDuringACommitHearsOfIt")},
	},
	{
		id: "watcher-holds-the-writer", guarantee: 5, says: costsNothing,
		slip:   "tells the watchers before the next transaction, to save a goroutine",
		file:   "store/writer.go",
		old:    "\tw.notifier.tell(t.Committed(w.inbox))\n",
		new:    "\tw.rules.Deliver(t.Committed(w.inbox))\n",
		suites: []suite{rules("WatchersCannotHoldUpTheWriter|WatchSees.*")},
	},
	{
		id: "listener-holds-the-drive", guarantee: 5, says: costsNothing,
		slip:   "waits for subscribers that do not keep up with what is told and not recorded",
		file:   "runner/transient.go",
		old:    "\t\tselect {\n\t\tcase to <- e:\n\t\tdefault:\n\t\t}",
		new:    "\t\tto <- e",
		suites: []suite{tests("runner", "TestAListenerThatDoesNotKeepUpMissesTheRest")},
	},
	{
		id: "gap-in-the-stream", guarantee: 5, says: costsNothing,
		slip:   "attaches a reader who was left behind to the first frame after its place, not to the very next",
		file:   "web/feed.go",
		old:    "\t\tif e.seq == p.seq+1 {",
		new:    "\t\tif e.seq > p.seq {",
		suites: []suite{tests("web", "TestAReaderBehindTheFeedIsNotAttached|TestADeafFollowerMissesNothing")},
	},
	{
		id: "one-page-is-all", guarantee: 5, says: costsNothing,
		slip:   "takes the first page of a long run for all of its records",
		file:   "store/record.go",
		old:    "\t\tfull = got == want\n",
		new:    "\t\tfull = got > want\n",
		suites: []suite{tests("sqlite", "TestRecordsOfALongRunAreRead")},
	},
	{
		id: "cursor-of-what-is-told", guarantee: 5, says: costsNothing,
		slip:   "takes whoever reads from a cursor one record back",
		file:   "web/stream.go",
		old:    "tipstaff.EventsRequest{Run: f.run, After: f.seq, Limit: storedRecords}) {",
		new:    "tipstaff.EventsRequest{Run: f.run, After: f.seq + 1, Limit: storedRecords}) {",
		suites: []suite{tests("web", "TestADeafFollowerMissesNothing"), tests("test/page", "TestARunOverHTTP")},
	},
	{
		id: "looking-denies", guarantee: 5, says: noTrace,
		slip:   "has whoever looks at a run deny the gates that have expired, so that they see how things stand",
		file:   "runner/get.go",
		old:    "func (r *Runner) get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {\n",
		new:    "func (r *Runner) get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {\n\tif err := r.DenyExpired(ctx); err != nil {\n\t\treturn tipstaff.Run{}, err\n\t}\n",
		suites: []suite{tests("runner", "TestLookingWritesNothing"), started("cmd/tipstaff", "TestLookingChangesNothing")},
	},
	{
		id: "looking-stores", guarantee: 5, says: noTrace,
		slip:   "keeps the outcome of a verification with the run",
		file:   "runner/verify.go",
		old:    "\treturn report(ctx, r.Store, res, t, unreadable, req), nil\n",
		new:    "\trep := report(ctx, r.Store, res, t, unreadable, req)\n\t_, err = r.Store.PutBlob(ctx, []byte(rep.Head))\n\treturn rep, err\n",
		suites: []suite{tests("runner", "TestLookingWritesNothing"), started("cmd/tipstaff", "TestLookingChangesNothing")},
	},
	{
		id: "frames-unlocked", guarantee: 5, says: "all who follow a run share one reader",
		slip:   "adds frames to a feed without its lock, because one goroutine alone does",
		file:   "web/feed.go",
		old:    "func (f *feed) publish(e frame) {\n\tf.mu.Lock()\n\tdefer f.mu.Unlock()\n",
		new:    "func (f *feed) publish(e frame) {\n",
		only:   race,
		suites: []suite{tests("web", "TestFollowersHearAtOnce"), raced(tests("web", "TestFollowersHearAtOnce|TestACrowdOfFollowers"))},
	},
}

package main

const (
	noProcessDecides = "No process of a run decides: not its own run, not one that it has started, not another of the same store"
)

// Bugs by which a process of a run decides, or the token or the cookie of a daemon reaches others.
var ownrunBugs = []bug{
	{
		id: "own-run-decides", page: securityPage, says: noProcessDecides,
		slip:   "takes whoever has the scope for somebody who may decide",
		file:   "caller.go",
		old:    "if scope == ScopeDecide && len(c.OwnRuns()) > 0 {",
		new:    "if false {",
		suites: []suite{tests("runner", "TestWhatAProcessOfARunStartsAsks")},
	},
	{
		id: "own-run-ancestors-alone", page: securityPage, says: "Nor may it cancel, resume, correct or roll back its run, those above it, or what comes from it",
		slip:   "looks at the runs above its own, and not at what comes from it",
		file:   "runner/guard.go",
		old:    "[][2]string{{own, row.ID}, {row.ID, own}}",
		new:    "[][2]string{{own, row.ID}}",
		suites: []suite{tests("runner", "TestWhatAProcessOfARunHasCausedIsItsOwn")},
	},
	{
		id: "own-run-not-recorded", page: securityPage, says: "records in",
		slip:   "does not record whose process asked for a run",
		file:   "runner/start.go",
		old:    "\tbody.Within = slices",
		new:    "\t_ = slices",
		suites: []suite{tests("runner", "TestWhatAProcessOfARunHasCausedIsItsOwn")},
	},
	{
		id: "own-run-by-no-peer", page: securityPage, says: "A daemon asks once a connection",
		slip:   "takes the other end of every connection for somebody else",
		file:   "supervisor/peer_linux.go",
		old:    "\tif pid > 0 {\n\t\treturn Peer{Member",
		new:    "\tif pid < 0 {\n\t\treturn Peer{Member",
		only:   processes,
		suites: []suite{started("supervisor", "TestTheOtherEndOfAConnection")},
	},
	{
		id: "own-run-peer-gone", page: securityPage, says: "or nobody holds the other end any more, nobody decides over that connection",
		slip:   "takes an end that nobody holds for somebody else's",
		file:   "supervisor/peer_linux.go",
		old:    "\tif inode == 0 {\n\t\treturn Peer{Doubt: true}",
		new:    "\tif inode == 0 {\n\t\treturn Peer{}",
		only:   processes,
		suites: []suite{started("supervisor", "TestTheOtherEndOfAConnection")},
	},
	{
		id: "own-run-peer-of-a-thread", page: securityPage, says: "whether a process of a run holds the other end",
		slip:   "looks at the descriptors of the first thread",
		file:   "supervisor/peer_linux.go",
		old:    "\t\tif tid != pid {",
		new:    "\t\tif tid != pid {\n\t\t\tcontinue\n\t\t}\n\t\tif tid != pid {",
		only:   processes,
		suites: []suite{started("supervisor", "TestTheOtherEndOfAConnection")},
	},
	{
		id: "own-run-peer-in-flight", page: securityPage, says: "whether a process of a run holds the other end",
		slip:   "forgets descriptors that are on their way in a message",
		file:   "supervisor/peer_linux.go",
		old:    "counts(info, \"scm_fds:\") || ",
		new:    "",
		only:   processes,
		suites: []suite{started("supervisor", "TestTheOtherEndOfAConnection")},
	},
	{
		id: "token-stays-after-rotation", page: "http.md", says: "`--rotate` replaces it",
		slip:   "reads the token when the daemon starts, and not again",
		file:   "cmd/tipstaff/token.go",
		old:    ", own.tokens.Refresh = file, func() { _ = own.read() }",
		new:    ", own.tokens.Refresh = file, nil",
		only:   processes,
		suites: []suite{started("cmd/tipstaff", "TestATokenIsReplacedAtOnce")},
	},
	{
		id: "token-never-expires", page: "http.md", says: "is `unauthenticated` afterwards",
		slip:   "reads when a token expires, and lets it in afterwards",
		file:   "caller.go",
		old:    "case !t.holds(*found):",
		new:    "case false:",
		suites: []suite{tests(".", "TestWhyATokenIsRefused")},
	},
	{
		id: "cookie-for-every-port", page: "web.md", says: "no session holds at 127.0.0.1 or `localhost`",
		slip:   "takes a cookie that came to 127.0.0.1",
		file:   "web/page/session.go",
		old:    " || s.elsewhere(r) != \"\" {",
		new:    " {",
		suites: []suite{tests("web/page", "TestSessionsAreUnderTheNameOfThePage")},
	},
}

package main

const (
	securityPage   = "security.md"
	cloneIsRefused = "A command that would start or send something asks once at a terminal, and is refused elsewhere (`workspace_untrusted`, exit code 3); no run is made or driven on."
	looksStart     = "Commands that look start nothing and send nothing."
	listIsTrusted  = "What is trusted is this list in this folder: one that has changed asks again and shows the difference, and so does a folder that was moved, or took the place of another."
	recordBelieved = "One that is torn, a link, somebody else's or writable by others is not believed."
	runsDoNotTrust = "its programs inherit no trust, a process of a run that says `tipstaff trust` is refused (`own_run`), and built-in tools neither read nor write that folder, whatever the roots."
	onTheList      = "On the list that you are shown stands what would be started or sent"
)

// Bugs against trust in a folder.
var trustBugs = []bug{
	{
		id: "untrusted-starts-runs", page: securityPage, says: cloneIsRefused,
		slip:   "asks for room in the queue alone",
		file:   "runner/trust.go",
		old:    "\tif err := r.RequireTrust(); err != nil {\n\t\treturn err\n\t}\n\treturn r.roomFor",
		new:    "\treturn r.roomFor",
		suites: []suite{tests("runner", "TestNoRunIsMadeInAWorkspaceThatIsNotTrusted")},
	},
	{
		id: "trust-asked-once", page: securityPage, says: cloneIsRefused,
		slip:   "takes the manifest that a drive begins with for the one that was trusted",
		file:   "runner/environment.go",
		old:    "err != nil && !d.who.ending && !r.cancelAsked(d.run) {",
		new:    "err != nil && d.who.ending {",
		suites: []suite{tests("runner", "TestADriveLooksAgain")},
	},
	{
		id: "daemon-drives-untrusted", page: securityPage, says: "A daemon has its runs wait, says so in `/healthz` and at each of them, and drives them when the folder is trusted.",
		slip:   "lets the drive be refused, also where nobody resumes the run",
		file:   "runner/trust.go",
		old:    "for r.Serves && r.Untrusted()",
		new:    "for r.pooled() && r.Untrusted()",
		suites: []suite{tests("runner", "TestTheNextDaemonTakesUpWhatWaitsForTrust")},
	},
	{
		id: "workers-list-starts", page: securityPage, says: looksStart,
		slip:   "asks CLIs for their version, which does no harm",
		file:   "cmd/tipstaff/worker.go",
		old:    "untrusted := requireTrust(workspace) != nil",
		new:    "untrusted := false",
		only:   processes,
		suites: []suite{started("cmd/tipstaff", "TestNoCommandStartsAnythingInAHostileClone")},
	},
	{
		id: "verify-starts-servers", page: securityPage, says: cloneIsRefused,
		slip:   "leaves the check of tools verify to the lock",
		file:   "runner/tools.go",
		old:    "\tif !offline {\n\t\tif err := t.trusts(d.manifest, d.lock); err != nil {",
		new:    "\tif !offline {\n\t\tif err := t.trusts(d.manifest, d.lock); err != nil && offline {",
		suites: []suite{tests("runner", "TestALookThatStartsServersNeedsTrust")},
	},
	{
		id: "list-without-environment", page: securityPage, says: onTheList,
		slip:   "shows the command of a worker alone",
		file:   "workspace/starts.go",
		old:    `words(w.Args)), with(w.Env, "="))`,
		new:    `words(w.Args)), "")`,
		suites: []suite{tests("workspace", "TestStartsIsWhatIsStartedOrSent")},
	},
	{
		id: "list-without-exec", page: securityPage, says: onTheList,
		slip:   "takes built-in tools for harmless, whatever the folder's policy says",
		file:   "workspace/starts.go",
		old:    "declared && len(s.Programs) > 0 && len(m.unasked) > 0",
		new:    "declared && len(s.Programs) > 0 && m.Implicit",
		suites: []suite{tests("workspace", "TestStartsIsWhatIsStartedOrSent")},
	},
	{
		id: "trusted-path", page: securityPage, says: listIsTrusted,
		slip:   "trusts whatever stands at a path",
		file:   "trust/trust.go",
		old:    "\tcase was.Folder != id:",
		new:    "\tcase was.Folder == \"\" && id != \"\":",
		suites: []suite{tests("trust", "TestAFolderThatTookThePlaceOfATrustedOneIsNot")},
	},
	{
		id: "trusted-list", page: securityPage, says: listIsTrusted,
		slip:   "compares how many things there are",
		file:   "trust/trust.go",
		old:    "\tcase was.Digest != t.Digest:",
		new:    "\tcase len(was.Starts) != len(starts):",
		suites: []suite{tests("trust", "TestAChangedListIsNotTrusted")},
	},
	{
		id: "record-of-others", page: securityPage, says: recordBelieved,
		slip:   "reads the record as any file",
		file:   "trust/file_unix.go",
		old:    "\tif err := own(f); err != nil {",
		new:    "\tif err := own(f); err != nil && f == nil {",
		suites: []suite{tests("trust", "TestARecordThatOthersMayHaveMadeIsNotBelieved")},
	},
	{
		id: "record-of-another", page: securityPage, says: recordBelieved,
		slip:   "believes a record under the name of another workspace",
		file:   "trust/trust.go",
		old:    "nameOf(t.Workspace) != filepath.Base(name) {",
		new:    "t.Workspace == \"\" {",
		suites: []suite{tests("trust", "TestARecordThatOthersMayHaveMadeIsNotBelieved")},
	},
	{
		id: "hosts-inherit-trust", page: securityPage, says: runsDoNotTrust,
		slip:   "passes on our environment to hosts, but for whom they serve",
		file:   "cmd/tipstaff/host.go",
		old:    ` || strings.HasPrefix(v, trustVariable+"=")`,
		new:    "",
		only:   processes,
		suites: []suite{started("cmd/tipstaff", "TestNoHostInheritsTrust")},
	},
	{
		id: "runs-trust", page: securityPage, says: runsDoNotTrust,
		slip:   "asks the environment whether a process belongs to a run",
		file:   "cmd/tipstaff/trust.go",
		old:    "func() []string { return supervisor.Membership().Runs }",
		new:    `func() []string { _ = supervisor.Membership; if run := os.Getenv("TIPSTAFF_RUN_ID"); run != "" { return []string{run} }; return nil }`,
		only:   processes,
		suites: []suite{started("cmd/tipstaff", "TestNoProgramOfARunTrustsForIt")},
	},
	{
		id: "tools-write-the-record", page: securityPage, says: runsDoNotTrust,
		slip:   "protects what is there already",
		file:   "workspace/protection.go",
		old:    "inside(p.state, path) && !inWorktree(filepath.Join(p.state, builtin.WorktreesFolder), path)",
		new:    "path == filepath.Join(p.state, \"trust\")",
		suites: []suite{tests("workspace", "TestWhatIsKeptForTheUserIsNotForTools")},
	},
}

package main

const (
	clientsPage     = "mcp.md"
	clientsRefused  = "Without the scope `decide` a client is refused (`forbidden`), and its gates are answered by a person"
	clientsScopes   = "looks at your runs, starts them, has them go on, ends them: scopes `read`, `run`, `submit`"
	clientsDecision = "A decision is always one: it has the gate and the digest of what was shown, and lacks the action"
	clientsReported = "So it does not count at gates of kind `delivery` and `in_doubt`, unless the"
	clientsVia      = "The answer is recorded `via: elicitation`: it is *reported*"
	clientsDeclined = "Declined, the gate stays open and is not"
	clientsWait     = "which returns when a gate that was open is decided, another opens, or the run waits to be resumed"
	clientsErrors   = "Its text, of at most 2 KiB, is the message and then, each on a line, code, problems"
	clientsPages    = "where a daemon of the workspace serves the page, its `url`"
)

// Bugs against who decides over MCP.
var clientsBugs = []bug{
	{
		id: "stdio-is-trusted", page: clientsPage, says: clientsRefused,
		slip:   "takes a client on standard input and output for the person who has started it, as it was",
		file:   "caller.go",
		old:    "return c.Surface == \"cli\" || c.Surface == \"parent\" }",
		new:    "return c.Surface == \"cli\" || c.Surface == SurfaceStdio || c.Surface == \"parent\" }",
		suites: []suite{tests(".", "TestDiagnosisForItsCaller")},
	},
	{
		id: "stdio-decides", page: clientsPage, says: clientsScopes,
		slip:   "lets every client decide that may run something",
		file:   "mcpserver/stdio.go",
		old:    "\tif o.Decide {",
		new:    "\tif !o.ReadOnly {",
		suites: []suite{tests("mcpserver", "TestScopesOfStdio")},
	},
	{
		id: "a-decision-is-ready", page: clientsPage, says: clientsDecision,
		slip:   "offers the first action of a gate ready to be sent",
		file:   "diagnose.go",
		old:    "\tc.miss(\"action\", map[string]any{\"type\": \"string\"}, actions)",
		new:    "\tc.Kind, c.Args[\"action\"] = ReadyCall, actions[0]",
		suites: []suite{tests(".", "TestDiagnoses")},
	},
	{
		id: "a-decision-of-anything", page: clientsPage, says: clientsDecision,
		slip:   "leaves the digest out: the decision is about whatever the gate is then",
		file:   "diagnose.go",
		old:    "\"gate_id\": g.ID, \"subject_digest\": g.Digest}}",
		new:    "\"gate_id\": g.ID}}",
		suites: []suite{tests(".", "TestDiagnoses")},
	},
	{
		id: "elicited-deliveries", page: clientsPage, says: clientsReported,
		slip:   "believes a client at every gate",
		file:   "workspace/mcp.go",
		old:    "\treturn kind != tipstaff.Delivery && kind != tipstaff.InDoubt",
		new:    "\treturn true",
		suites: []suite{tests("workspace", "TestWhatElicitationDecides")},
	},
	{
		id: "elicited-unchecked", page: clientsPage, says: clientsReported,
		slip:   "leaves it to the server not to ask",
		file:   "runner/decide.go",
		old:    "req.Via == tipstaff.ViaElicitation && !r.Elicits(gateOf(asked).Kind) {",
		new:    "req.Via == tipstaff.ViaElicitation && false {",
		suites: []suite{tests("runner", "TestElicitedDecisions")},
	},
	{
		id: "elicited-unsaid", page: clientsPage, says: clientsVia,
		slip:   "records what a client reports as the client's own decision",
		file:   "control_act.go",
		old:    "req, \"\", ViaElicitation)",
		new:    "req, \"\", viaOf(ctx))",
		suites: []suite{tests("mcpserver", "TestGatesArePutToThePerson")},
	},
	{
		id: "declined-is-asked-again", page: clientsPage, says: clientsDeclined,
		slip:   "forgets who did not want to answer",
		file:   "mcpserver/elicit.go",
		old:    "\t\ts.asked.declined[name] = true\n",
		new:    "",
		suites: []suite{tests("mcpserver", "TestWhoDeclinesIsNotAskedAgain")},
	},
	{
		id: "a-decision-is-missed", page: clientsPage, says: clientsWait,
		slip:   "looks at gates as they are, and not at what was decided after the cursor",
		file:   "watch.go",
		old:    "\tw.decided = w.decided || e.Kind.ClosesGate() && e.Seq > w.from\n",
		new:    "",
		suites: []suite{tests(".", "TestWatchUntilDecision")},
	},
	{
		id: "an-error-says-little", page: clientsPage, says: clientsErrors,
		slip:   "shows a model the message alone",
		file:   "mcpserver/errors.go",
		old:    "&mcp.TextContent{Text: reply.Error.text()}",
		new:    "&mcp.TextContent{Text: reply.Error.Message}",
		suites: []suite{tests("mcpserver", "TestErrorsInWords")},
	},
	{
		id: "a-diff-says-nothing", page: clientsPage, says: "the patch, or that none is recorded",
		slip:   "answers with an empty document, which clients reject",
		file:   "resource.go",
		old:    "\t\tif err == nil && d.Text == \"\" {",
		new:    "\t\tif false {",
		suites: []suite{tests(".", "TestDiffOfARunWithoutOne")},
	},
	{
		id: "a-page-of-the-dead", page: clientsPage, says: clientsPages, only: processes,
		slip:   "believes what a daemon has left behind that was killed",
		file:   "cmd/tipstaff/serve_page.go",
		old:    "|| !supervisor.Alive(served.Daemon, info.ModTime(), time.Now()) {",
		new:    "|| !supervisor.Alive(served.Daemon, info.ModTime(), time.Now()) && false {",
		suites: []suite{started("cmd/tipstaff", "TestMCPSendsPeopleToThePage")},
	},
}

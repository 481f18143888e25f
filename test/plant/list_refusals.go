package main

const inTheJournal = "A refused, denied, expired or cancelled thing is in the journal, with the rule or the person that said so."

// Bugs against guarantee 7.
var refusals = []bug{
	{
		id: "refusal-not-recorded", guarantee: 7, says: inTheJournal,
		slip:   "returns what a check refuses to the program, without a record",
		file:   "flow/admit.go",
		old:    "\t\t\treturn over(do.refuse(refusal, nil))",
		new:    "\t\t\treturn over(Result{}, refusal)",
		suites: []suite{themes("doubt"), tests("flow", "TestChecks")},
	},
	{
		id: "bound-refuses-in-silence", guarantee: 7, says: inTheJournal,
		slip:   "notes the refusal of a bound only where somebody is asked for more",
		file:   "flow/admit.go",
		old:    "\t\tdo.noteRefusal(name)\n\t\t// Nobody",
		new:    "\t\tif do.Ask {\n\t\t\tdo.noteRefusal(name)\n\t\t}\n\t\t// Nobody",
		suites: []suite{themes("bounds"), tests("flow", "TestBoundsWarnAndRefuse")},
	},
	{
		id: "grant-refused-in-silence", guarantee: 7, says: inTheJournal,
		slip:   "notes the refusal of a grant from the second on",
		file:   "flow/reserve.go",
		old:    "\t\tif !a.denied { // who asks",
		new:    "\t\tif a.denied { // who asks",
		suites: []suite{themes("reserving"), tests("flow", "TestBoundsWarnAndRefuse|Test.*Reserve.*"), tests("runner", "TestPipelineModelCallsAreBounded")},
	},
	{
		id: "expiry-not-recorded", guarantee: 7, says: inTheJournal,
		slip:   "tells who decides too late that the gate has expired, and leaves it open",
		file:   "runner/decide.go",
		old:    "\t\t\treturn []flow.Draft{flow.Closing(row.ID, row.Key, g.Digest, g.Deny, \"expiry\")}, nil",
		new:    "\t\t\treturn nil, refusal",
		suites: []suite{tests("runner", "TestAnExpiredGateIsDeniedOnce")},
	},
	{
		id: "gates-left-open", guarantee: 7, says: inTheJournal,
		slip:   "closes the gates of a run that is cancelled, and not of one that fails",
		file:   "flow/engine.go",
		old:    "\tfor _, g := range gates {\n\t\tdrafts = append(drafts, closeGate(g, \"run_ended\"))",
		new:    "\tfor _, g := range gates[min(1, len(gates)):] {\n\t\tdrafts = append(drafts, closeGate(g, \"run_ended\"))",
		suites: []suite{themes("cancelling|closing"), tests("flow", "TestTheEndClosesGatesInOrder")},
	},
	{
		id: "cancel-without-a-request", guarantee: 7, says: inTheJournal,
		slip:   "ends a cancelled run that nobody drives without the request",
		file:   "runner/cancel.go",
		old:    "\t\t\t\tdrafts = append([]flow.Draft{req.draft()}, drafts...)",
		new:    "\t\t\t\tdrafts = append([]flow.Draft{}, drafts...)",
		suites: []suite{tests("runner", "TestCancelOfAWaitingRunSettlesIt|TestForkOfAnEndedRunCanBeCancelled")},
	},
	{
		id: "person-not-named", guarantee: 7, says: inTheJournal,
		slip:   "records a decision on behalf of whoever the client says it was",
		file:   "runner/decide.go",
		old:    "SubjectDigest: g.Digest, Via: req.Via, Client: client(ctx), OnBehalfOf: principal(ctx)}",
		new:    "SubjectDigest: g.Digest, Via: req.Via, Client: client(ctx), OnBehalfOf: req.DecidedBy}",
		suites: []suite{tests("runner", "TestTheSameDecisionAgainHasTheSameBytes|TestDecisionNamesItsClient|TestARunParksIsDecidedAndEnds|TestWhoMayAct|TestGuard")},
	},
	{
		id: "rule-not-named", guarantee: 7, says: inTheJournal,
		slip:   "leaves the rule out of what a policy denies",
		file:   "tool/gate.go",
		old:    "\td := detail{\"rule\": p.Rule, \"policy_digest\": p.PolicyDigest}",
		new:    "\td := detail{\"policy_digest\": p.PolicyDigest}",
		suites: []suite{tests("tool", "TestRefusalsOfAPolicySayWhy|TestEveryRefusalAlone"), tests("runner", "TestADeniedApprovalSendsNothing")},
	},
}

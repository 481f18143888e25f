package tipstaff

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a [RunStart].
const (
	MaxTitle  = 120 // characters
	MaxLabels = 32

	openingTitle = 60 // characters of a message that its run is called by
)

// Start makes a run that a process of its own drives, and returns when that was started.
func (c Control) Start(ctx context.Context, req RunStart) (StartedRun, error) {
	bounds, err := req.check()
	if err != nil {
		return StartedRun{}, err
	}
	var (
		started Started
		via     = viaOf(ctx)
		host    = Hosting{Detach: true, Key: req.Key, Project: req.Project, Labels: req.Labels}
	)
	switch {
	case !req.ForkOf.IsZero():
		started, err = c.fork(ctx, req, host, bounds)
	case req.Prose != "":
		started, err = c.Runs.Draft(ctx, DraftRequest{Prose: req.Prose, Skill: req.Skill, Agent: req.Agent, Inputs: req.Inputs, Title: req.Title,
			Via: via, Hosting: host, Bounds: bounds})
	default:
		start := req.document()
		start.Hosting, start.Inputs, start.Bounds, start.Via = host, req.Inputs, bounds, via
		started, err = c.Runs.Start(ctx, start)
	}
	if err != nil {
		return StartedRun{}, err
	}
	run := StartedRun{Run: started.Run, Program: started.Program.Digest, Replayed: started.Existed, Warnings: append([]Problem{}, started.Warnings...),
		Next: []NextCall{watchCall(started.Run, 0)}}
	if started.Launched != nil {
		run.Launched = *started.Launched
	}
	return run, nil
}

// TurnStart is a message to an agent.
type TurnStart struct {
	Message string
	Agent   string // "": the default one
	Bounds  Bounds // can only lower those of the workspace
	// After is the last turn of a session that this one goes on with: by the same agent, and
	// within the limits that turn had where they are lower than the workspace's. nil: a new
	// session.
	After *Run
}

// Say takes a turn. This process drives it, so that whoever follows it here hears what the
// model says while it says it.
func (c Control) Say(ctx context.Context, t TurnStart) (Run, error) {
	if strings.TrimSpace(t.Message) == "" {
		return Run{}, Errorf(InvalidArgument, "there is no message")
	}
	req := RunStart{Message: t.Message, Agent: t.Agent}
	if t.After != nil {
		req.Agent, req.Session = t.After.Turn.Agent, t.After.Turn.Session
	}
	start := req.document()
	start.Bounds, start.Via = t.Bounds, viaOf(ctx)
	if t.After != nil {
		usual, err := c.Runs.Validate(ctx, ValidateRequest{Start: &start})
		if err != nil {
			return Run{}, err
		}
		start.Bounds = t.After.Bounds.below(usual.Bounds)
	}
	started, err := c.Runs.Start(ctx, start)
	if err != nil {
		return Run{}, err
	}
	return c.Runs.Get(ctx, started.Run)
}

// check refuses what asks for two things, or for none, and reads the bounds.
func (req RunStart) check() (Bounds, error) {
	given := []string{}
	for name, is := range map[string]bool{"program": req.Program != "", "program_file": req.ProgramFile != "", "prose": req.Prose != "",
		"message": req.Message != "", "fork_of": !req.ForkOf.IsZero()} {
		if is {
			given = append(given, name)
		}
	}
	if len(given) != 1 {
		slices.Sort(given)
		return nil, Errorf(InvalidArgument, "give exactly one of program, program_file, prose, message and fork_of: this has %s", cmp.Or(strings.Join(given, ", "), "none"))
	}
	document := req.Program != "" || req.ProgramFile != ""
	for _, field := range []struct {
		name string
		odd  bool
		of   string
	}{
		{"skill", req.Skill != "" && req.Prose == "", "prose"},
		{"agent", req.Agent != "" && req.Prose == "" && req.Message == "", "prose or message"},
		{"session", req.Session != "" && req.Message == "", "message"},
		{"fork_at_seq", req.ForkAt != 0 && req.ForkOf.IsZero(), "fork_of"},
		{"inputs", len(req.Inputs) > 0 && !document && req.Prose == "", "program, program_file or prose"},
	} {
		if field.odd {
			return nil, Errorf(InvalidArgument, "%s goes with %s, not with %s", field.name, field.of, given[0])
		}
	}
	if n := utf8.RuneCountInString(req.Title); n > MaxTitle {
		return nil, Errorf(InvalidArgument, "the title has %d characters: %d is the most", n, MaxTitle)
	}
	if n := len(req.Labels); n > MaxLabels {
		return nil, Errorf(InvalidArgument, "the run has %d labels: %d is the most", n, MaxLabels)
	}
	return readBounds(req.Bounds)
}

// document is the request for a run of a document: that of the caller, that of a file, or a
// turn with a message.
func (req RunStart) document() StartRequest {
	switch {
	case req.Message != "":
		message := strings.ToValidUTF8(req.Message, "\uFFFD")
		turn := struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
			Agent   string `json:"agent,omitempty"`
			Session string `json:"session,omitempty"`
		}{"turn", message, req.Agent, req.Session}
		text, _ := json.Marshal(turn) // texts can be written
		first, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
		return StartRequest{Program: text, Name: "the message", Title: cmp.Or(req.Title, cutText(first, openingTitle))}
	case req.ProgramFile != "":
		return StartRequest{File: req.ProgramFile, Name: req.ProgramFile, Title: req.Title}
	}
	return StartRequest{Program: []byte(req.Program), Name: "program", NoFiles: true, Title: req.Title}
}

// readBounds reads bounds as documents have them: by the names of plans (tool_calls) or by
// the fields of pipelines (max_tool_calls).
func readBounds(given map[string]json.RawMessage) (Bounds, error) {
	if len(given) == 0 {
		return nil, nil
	}
	read := Bounds{}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(given)) {
		bound, limit, err := readBound(name, given[name])
		if _, twice := read[bound]; err == nil && twice {
			err = &BoundError{name, "duplicate", "it is given twice"}
		}
		if err != nil {
			code := "range"
			if b := (*BoundError)(nil); errors.As(err, &b) {
				code = b.Code
			}
			problems = append(problems, Problem{Code: code, Path: "bounds." + name, Message: err.Error()})
		}
		read[bound] = limit
	}
	if len(problems) > 0 {
		return nil, &Error{Code: InvalidArgument, Message: "the bounds cannot be read: " + problems[0].Message, Problems: problems}
	}
	return read, nil
}

func readBound(name string, text json.RawMessage) (bound string, limit int64, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a float64 could not hold every int64
	var value any
	if err := d.Decode(&value); err != nil {
		return name, 0, err
	}
	bound = name
	for of, field := range boundFields {
		if field != name {
			continue
		}
		bound = of
		if n, ok := value.(json.Number); ok && of == BoundWallTime {
			value = n.String() + "s"
		}
	}
	limit, err = ParseRunBound(bound, value)
	return bound, limit, err
}

// fork makes a run from the beginning of another, and has it driven.
func (c Control) fork(ctx context.Context, req RunStart, host Hosting, bounds Bounds) (Started, error) {
	if req.Project != "" && req.Project != "." {
		return Started{}, Errorf(InvalidArgument, "project_dir is not for a fork, which is about what its source is about")
	}
	host.Project = ""
	raise := map[string]int64{}
	for name, limit := range bounds {
		if name == BoundWallTime {
			limit /= time.Second.Milliseconds()
		}
		raise[BoundField(name)] = limit
	}
	fork, err := c.Runs.Fork(ctx, ForkRequest{Run: req.ForkOf, Place: Place{At: req.ForkAt}, Changes: Changes{Raise: raise}, Title: req.Title, Hosting: host})
	return Started{Run: fork.ID, Validated: Validated{Program: fork.Program}, Existed: fork.Existed, Launched: fork.Launched}, err
}

// Resume has a waiting or interrupted run go on in a process of its own, if anything would
// come of it. All else is an outcome too, and changes nothing.
func (c Control) Resume(ctx context.Context, req RunRequest) (ResumedRun, error) {
	if c.Guard != nil {
		if err := c.Guard(ctx, req.Run, ToolRunResume); err != nil {
			return ResumedRun{}, err
		}
	}
	d, err := c.Diagnose(ctx, req)
	if err != nil {
		return ResumedRun{}, err
	}
	var run Run // of one that cannot be read nothing else is known
	if d.Condition != DiagnosisUnreadable {
		if run, err = c.Runs.Get(ctx, req.Run); err != nil {
			return ResumedRun{}, err
		}
	}
	got := ResumedRun{Run: req.Run, Status: run.Status, Reason: d.Reason, Recommended: d.Recommended, Next: d.Next}
	switch {
	case !d.Facts.Child.IsZero():
		got.Outcome, got.Recommended = ResumeSuperseded, cmp.Or(d.Recommended, d.Facts.Child)
	case run.State.Terminal():
		got.Outcome = ResumeTerminal
	case d.Condition == DiagnosisNotStarted:
		got.Outcome = ResumeDraft
	case run.Condition == Running || run.Status == StatusQueued:
		got.Outcome = ResumeRunning
	case (d.Condition == DiagnosisDecision || d.Condition == DiagnosisDelivery) && !slices.ContainsFunc(d.Next, func(n NextCall) bool { return n.Tool == ToolRunResume }):
		got.Outcome, got.Gates = ResumeUndecided, run.OpenGates
	case d.Condition == DiagnosisResumeReady && run.sleeps(c.Now()):
		got.Outcome = ResumeUndecided
	case d.Condition == DiagnosisUnreadable && d.Facts.Unreadable == FormatNewer:
		got.Outcome, got.Code = ResumeBlocked, string(FormatNewer)
	case d.Condition == DiagnosisUnreadable:
		got.Outcome, got.Code = ResumeBlocked, "program_unreadable"
	case d.Condition == DiagnosisBlockedWorktree:
		got.Outcome, got.Code = ResumeBlocked, BlockWorktree
	case d.Condition == DiagnosisReplayMismatch:
		got.Outcome, got.Code = ResumeBlocked, string(ReplayMismatch)
	default:
		return c.launch(ctx, got, run.HeadSeq)
	}
	return got, nil
}

// launch has a run go on. Of two who ask at once, one starts a process.
func (c Control) launch(ctx context.Context, got ResumedRun, head int64) (ResumedRun, error) {
	started, err := c.Runs.Resume(ctx, ResumeRequest{Run: got.Run, Detach: true})
	got.Outcome, got.Launched, got.Status, got.Reason = ResumeLaunched, started.Launched, StatusRunning, "a process drives it on"
	if CodeOf(err) == Busy {
		got.Outcome, got.Launched, got.Reason, err = ResumeRunning, nil, "another process drives it", nil
	}
	got.Recommended, got.Next = ID{}, []NextCall{watchCall(got.Run, head)}
	return got, err
}

// Cancel ends a run, with all of its processes.
func (c Control) Cancel(ctx context.Context, req RunCancel) (CancelledRun, error) {
	ask := CancelRequest{Run: req.Run, Reason: req.Reason, Hard: req.Mode == "hard"}
	if req.Mode != "" && req.Mode != "graceful" && !ask.Hard {
		return CancelledRun{}, Errorf(InvalidArgument, "%s is not a mode: it is graceful or hard", Quote(req.Mode, 100))
	}
	for _, span := range []struct {
		name    string
		seconds *int
		most    int
		to      *time.Duration
	}{{"grace_s", req.GraceS, 300, &ask.Grace}, {"wait_s", req.WaitS, 60, &ask.Wait}} {
		switch {
		case span.seconds == nil:
		case *span.seconds < 0 || *span.seconds > span.most:
			return CancelledRun{}, Errorf(InvalidArgument, "%s is %d: it is from 0 to %d", span.name, *span.seconds, span.most)
		default: // 0 would be what is usual
			*span.to = max(time.Duration(*span.seconds)*time.Second, time.Nanosecond)
		}
	}
	done, err := c.Runs.Cancel(ctx, ask)
	if err != nil {
		return CancelledRun{}, err
	}
	got := CancelledRun{Run: req.Run, Status: done.How, Forced: done.Forced, State: done.State, Swept: done.Swept,
		Next: []NextCall{readyCall(ToolRunEvidence, "see who decided what", map[string]any{"run_id": req.Run, "slice": SliceDecisions})}}
	if !done.State.Terminal() {
		got.Next = []NextCall{watchCall(req.Run, done.HeadSeq)}
	}
	return got, nil
}

// DecideGate closes a gate, whatever it asks.
func (c Control) DecideGate(ctx context.Context, req GateDecision) (GateDecided, error) {
	return c.decide(ctx, req, "")
}

// DecideHandoff closes a gate that hands over what a stage has brought.
func (c Control) DecideHandoff(ctx context.Context, req GateDecision) (GateDecided, error) {
	return c.decide(ctx, req, Handoff)
}

// DecideDelivery closes a gate that asks what becomes of the changes of a run.
func (c Control) DecideDelivery(ctx context.Context, req GateDecision) (GateDecided, error) {
	return c.decide(ctx, req, Delivery)
}

// ViaElicitation is how a gate was decided whose answer an MCP client reports: it says that it
// has asked its person, and nobody else has seen that.
const ViaElicitation = "elicitation"

// DecideElicited closes a gate with what the person at an MCP client has answered. It is theirs
// to decide, whatever the client itself may do; whether their answer counts, by the kind of
// the gate, the workspace says.
func (c Control) DecideElicited(ctx context.Context, req GateDecision) (GateDecided, error) {
	person := CallerFrom(ctx)
	person.Scopes = append(slices.Clone(person.Scopes), ScopeDecide)
	return c.decideVia(WithCaller(ctx, person), req, "", ViaElicitation)
}

// decide closes a gate of a kind; "": of any.
func (c Control) decide(ctx context.Context, req GateDecision, kind GateKind) (GateDecided, error) {
	return c.decideVia(ctx, req, kind, viaOf(ctx))
}

func (c Control) decideVia(ctx context.Context, req GateDecision, kind GateKind, via string) (GateDecided, error) {
	if req.Gate.IsZero() {
		return GateDecided{}, Errorf(InvalidArgument, "no gate was named").WithHint("gate_id is that of the gate that was shown, so that a repeat never decides a later one")
	}
	d, err := c.Runs.Decide(ctx, DecideRequest{Run: req.Run, Gate: req.Gate.String(), Kind: kind, Action: req.Action, Answer: req.Answer, Feedback: req.Feedback,
		Note: req.Note, DecidedBy: req.DecidedBy, SubjectDigest: req.SubjectDigest, Via: via})
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) && e.Run.IsZero() {
			e.Run = req.Run
		}
		return GateDecided{}, err
	}
	got := GateDecided{Run: req.Run, Decision: d.Raw, Replayed: d.Replayed, Status: d.Run.Status, Next: []NextCall{}}
	switch next := d.Decision.FollowupRunID; {
	case !next.IsZero():
		got.Next = append(got.Next, readyCall(ToolRunResume, "have the follow-up begin", map[string]any{"run_id": next}))
	case d.Run.State.Terminal():
		got.Next = append(got.Next, readyCall(ToolRunEvidence, "see who decided what", map[string]any{"run_id": req.Run, "slice": SliceDecisions}))
	case d.Run.Condition == Running || d.Run.Status == StatusQueued:
		got.Next = append(got.Next, watchCall(req.Run, d.Run.HeadSeq))
	default:
		got.Next = append(got.Next, readyCall(ToolRunResume, "have it go on", map[string]any{"run_id": req.Run}))
	}
	got.Next = slices.DeleteFunc(got.Next, func(call NextCall) bool { return !CallerFrom(ctx).mayCall(call, d.Run.Control) })
	if len(got.Next) == 0 {
		got.Next = append(got.Next, readyCall(ToolRunStatus, "see where it stands", map[string]any{"run_id": req.Run}))
	}
	return got, nil
}

// viaOf is how a caller acts, as records say it; "": as the command line does.
func viaOf(ctx context.Context) string {
	if c := CallerFrom(ctx); c.Surface != "cli" {
		return c.Surface
	}
	return ""
}

func readyCall(tool, why string, args map[string]any) NextCall {
	return NextCall{Kind: ReadyCall, Tool: tool, Args: args, Why: why}
}

// watchCall is the call that follows a run from a record.
func watchCall(run ID, after int64) NextCall {
	return readyCall(ToolRunWatch, "follow it", map[string]any{"run_id": run, "after_seq": after})
}

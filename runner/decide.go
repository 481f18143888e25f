package runner

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

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/tool"
)

// Limits of what a decision may carry.
const (
	maxFeedback  = 16 << 10
	maxNote      = 4 << 10
	maxDecidedBy = 200
	maxClient    = 200 // characters; the rest is left out
)

// Decide closes a gate, in one transaction. It starts nothing.
func (r *Runner) Decide(ctx context.Context, req tipstaff.DecideRequest) (tipstaff.Decided, error) {
	of, err := r.openToChange(ctx, req.Run, tipstaff.ScopeDecide)
	if err == nil {
		req.Answer, err = checkSizes(req)
	}
	if err != nil {
		return tipstaff.Decided{}, err
	}
	decided, err := r.decide(ctx, of.ID, req)
	return decided, explain(err, req.Run)
}

func (r *Runner) decide(ctx context.Context, run string, req tipstaff.DecideRequest) (none tipstaff.Decided, err error) {
	asked, found, err := findGate(func(open bool) ([]flow.GateRow, error) {
		return r.Store.Gates(ctx, flow.GateQuery{Run: run, Open: open})
	}, req.Gate)
	if err != nil {
		return none, err
	}
	var known aboutGate
	if found {
		if of := gateOf(asked).Kind; req.Kind != "" && of != req.Kind {
			return none, tipstaff.Errorf(tipstaff.WrongGateKind, "gate %s is of kind %s, not %s", req.Gate, of, req.Kind).WithHint("decide it as one of its kind, or of any")
		}
		if asked.Decided == 0 && req.Via == tipstaff.ViaElicitation && !r.Elicits(gateOf(asked).Kind) {
			return none, tipstaff.Errorf(tipstaff.Forbidden, "an answer that a client reports does not count at gate %s, which is of kind %s", asked.Key, asked.Kind).
				WithHint("answer it at a terminal, or on the page").WithCommand("answer it with `tipstaff decide`, or on the page; mcp.elicitation in tipstaff.yaml says what counts")
		}
		if req.Answer, err = fullAnswer(gateOf(asked), req); err != nil {
			return none, err
		}
		if known.offered, err = r.checkResult(ctx, run, asked, req); err != nil {
			return none, err
		}
		if subject, ok := tipstaff.DeliverySubjectOf(gateOf(asked)); ok && asked.Decided == 0 {
			known.now = r.lookAgain(ctx, run, subject)
			r.looks.forget(asked.ID)
		}
	}
	if err := r.checkExtension(ctx, run, req); err != nil {
		return none, err
	}
	var row flow.GateRow
	var replayed bool
	var refusal error // one that leaves a record: the gate had expired
	decide := func(tx flow.Tx) ([]flow.Draft, error) {
		var ok bool
		var err error
		if row, ok, err = findGate(tx.Gates, req.Gate); err != nil {
			return nil, err
		} else if !ok {
			return nil, tipstaff.Errorf(tipstaff.GateNotFound, "run %s has no gate %q%s", run, req.Gate, likeOpenGate(tx, req.Gate)).
				WithCommand("`tipstaff show %s` lists its open gates", run)
		}
		replayed, refusal = false, nil
		if row.Decided > 0 {
			replayed = true
			return nil, again(row, req)
		}
		if g := gateOf(row); g.Expired(tx.Now()) {
			refusal = tipstaff.Errorf(tipstaff.GateExpired, "gate %s expired at %s and was denied", row.Key, g.ExpiresAt.Format(time.RFC3339))
			return []flow.Draft{flow.Closing(row.ID, row.Key, g.Digest, g.Deny, "expiry")}, nil
		}
		return r.resolve(ctx, tx.Row(), row, req, known)
	}
	if found && asked.Decided == 0 && asked.Kind == string(tipstaff.Delivery) && req.Action == tipstaff.DeliverFix {
		err = r.followUp(ctx, run, asked, req, known, decide)
	} else {
		err = r.Store.Write(ctx, run, decide)
	}
	if errors.Is(err, errMoved) { // another has decided it meanwhile
		return r.decide(ctx, run, req)
	}
	if err = cmp.Or(err, refusal); err != nil {
		return none, err
	}
	if endsRun(row.Kind, req.Action) {
		// The decision has ended the run. A living owner takes it itself.
		now, err := r.Store.Run(ctx, run)
		if err == nil && !tipstaff.State(now.State).Terminal() && !r.driving(run) && !r.alive(now) {
			err = r.driveOut(ctx, run)
		}
		if err != nil {
			return none, err
		}
	}
	return r.decided(ctx, run, row.ID, replayed)
}

// endsRun reports whether a decision takes effect at once: nothing is left to be done.
func endsRun(kind, action string) bool {
	switch tipstaff.GateKind(kind) {
	case tipstaff.Handoff:
		return action == actionHalt
	case tipstaff.Delivery:
		return action == tipstaff.DeliverHalt || action == tipstaff.DeliverFix
	}
	return false
}

// fullAnswer is the answer of a decision as it is recorded.
func fullAnswer(g tipstaff.Gate, req tipstaff.DecideRequest) (json.RawMessage, error) {
	full, err := tipstaff.FullAnswer(g, req.Action, req.Answer)
	if err != nil || len(full) == 0 {
		return nil, err
	}
	return canon.Exact(full)
}

// What a person may answer beside the words of confirmations.
const (
	actionAnswer    = "answer"
	actionHalt      = "halt" // at a handoff: the run ends here
	actionUseResult = "use_result"
	actionModify    = "modify" // approval, with data
)

func checkSizes(req tipstaff.DecideRequest) (json.RawMessage, error) {
	bad := func(format string, args ...any) error {
		return tipstaff.Errorf(tipstaff.InvalidArgument, format, args...)
	}
	switch {
	case req.Gate == "":
		return nil, bad("no gate was named")
	case req.Via == flow.ViaExpiry || req.Via == flow.ViaSuperseded || req.Via == flow.ViaRunEnded:
		return nil, bad("via %q is for gates that nobody decided", req.Via)
	case len(req.Feedback) > maxFeedback:
		return nil, bad("feedback has %d bytes: 16 KiB is the most", len(req.Feedback))
	case len(req.Note) > maxNote:
		return nil, bad("a note has %d bytes: 4 KiB is the most", len(req.Note))
	case len(req.DecidedBy) > maxDecidedBy:
		return nil, bad("decided_by has %d bytes: 200 is the most", len(req.DecidedBy))
	case len(req.Answer) == 0:
		return nil, nil
	}
	answer, err := canon.Exact(req.Answer)
	if unsafe := (*canon.UnsafeNumber)(nil); errors.As(err, &unsafe) {
		return nil, bad("the answer cannot be kept exactly: %v", err)
	}
	if err != nil {
		return nil, bad("the answer is not JSON: %v", err)
	}
	return answer, nil
}

// findGate takes an id, or a key: the open gate of that key, else the one decided
// last, so that the same decision again finds the one that is stored. Open ones are
// few, so they are looked at first.
func findGate(gates func(open bool) ([]flow.GateRow, error), name string) (found flow.GateRow, ok bool, err error) {
	for _, open := range []bool{true, false} {
		rows, err := gates(open)
		if err != nil {
			return flow.GateRow{}, false, err
		}
		for _, g := range rows {
			switch {
			case g.ID == name, g.Key == name && g.Decided == 0:
				return g, true, nil
			case g.Key == name && g.Decided > found.Decided:
				found, ok = g, true
			}
		}
	}
	return found, ok, nil
}

// likeOpenGate asks about the open gate that was perhaps meant.
func likeOpenGate(tx flow.Tx, name string) string {
	open, err := tx.Gates(true)
	if err != nil {
		return ""
	}
	keys := make([]string, len(open))
	for i, g := range open {
		keys[i] = g.Key
	}
	return tipstaff.DidYouMean(name, keys)
}

// again compares a decision with the one that is stored.
func again(row flow.GateRow, req tipstaff.DecideRequest) error {
	switch row.Via {
	case flow.ViaExpiry:
		return tipstaff.Errorf(tipstaff.GateExpired, "gate %s expired and was denied", row.Key)
	case flow.ViaSuperseded, flow.ViaRunEnded:
		return tipstaff.Errorf(tipstaff.GateClosed, "gate %s was closed: %s", row.Key, row.Via)
	}
	b := row.Decision
	same := b.Action == req.Action && bytes.Equal(b.Answer, req.Answer) && b.Feedback == req.Feedback && b.Note == req.Note && b.DecidedBy == req.DecidedBy
	if !same {
		return tipstaff.Errorf(tipstaff.DecisionConflict, "gate %s was already decided: %s, via %s", row.Key, b.Action, b.Via).
			WithHint("a decision cannot be changed; the same decision again would be answered with the stored one")
	}
	return nil
}

// aboutGate is what is known of a gate beside its record when somebody decides.
type aboutGate struct {
	offered bool                  // it has a result of its own, which use_result takes without an answer
	now     *tipstaff.DeliveryNow // what stands in the way; nil: what the record says
}

// resolve makes the records of a decision.
func (r *Runner) resolve(ctx context.Context, run flow.Row, row flow.GateRow, req tipstaff.DecideRequest, known aboutGate) ([]flow.Draft, error) {
	g := gateOf(row)
	g.Now = known.now
	if !slices.Contains(g.Actions, req.Action) {
		return nil, tipstaff.Errorf(tipstaff.ActionNotOffered, "gate %s does not offer %q%s", g.Key, req.Action, tipstaff.DidYouMean(req.Action, g.Actions)).
			WithHint("it offers: %s", strings.Join(g.Actions, ", "))
	}
	if b := tipstaff.BlockedAt(g, req.Action); b != nil {
		return nil, tipstaff.Errorf(tipstaff.ActionBlocked, "%s is blocked at gate %s: %s (%s)", req.Action, g.Key, b.Reason, b.Code)
	}
	if req.SubjectDigest != "" && req.SubjectDigest != g.Digest {
		return nil, tipstaff.Errorf(tipstaff.SubjectChanged, "gate %s asks about %s, not about %s", g.Key, g.Digest, req.SubjectDigest)
	}
	if err := fits(g, req, known.offered); err != nil {
		return nil, err
	}
	req.Via = via(req.Via)
	if run.State == string(tipstaff.Proposed) && req.Action == actionAccept {
		return r.accept(ctx, g, req)
	}
	if run.State == string(tipstaff.Clarifying) && req.Action == actionAnswer { // questions before there is a program
		if err := answers(g, req.Answer); err != nil {
			return nil, err
		}
		body := tipstaff.IntentAnswer{Gate: g.ID.String(), Answers: req.Answer, Via: req.Via, Client: client(ctx), Note: req.Note, DecidedBy: req.DecidedBy, OnBehalfOf: principal(ctx)}
		return []flow.Draft{{Kind: string(tipstaff.KindIntentAnswer), Path: g.Key, From: signer(ctx), Body: flow.JSON(body)}}, nil
	}
	b := tipstaff.GateResolved{Gate: row.ID, Action: req.Action, Answer: req.Answer, Feedback: req.Feedback, Note: req.Note, DecidedBy: req.DecidedBy,
		SubjectDigest: g.Digest, Via: req.Via, Client: client(ctx), OnBehalfOf: principal(ctx)}
	return []flow.Draft{{Kind: string(tipstaff.KindPolicyGateResolve), Path: row.Key, From: signer(ctx), Body: flow.JSON(b)}}, nil
}

// fits checks what an action needs or does not take.
func fits(g tipstaff.Gate, req tipstaff.DecideRequest, offered bool) error {
	needs := req.Action == actionUseResult && !offered || req.Action == "extend" || req.Action == actionModify || req.Action == actionAnswer && req.Feedback == ""
	if needs && len(req.Answer) == 0 {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%s needs an answer", req.Action).WithHint("give it as JSON").WithCommand("--answer '{\"…\": …}'")
	}
	if req.Action == "extend" {
		var by flow.Use
		if err := json.Unmarshal(req.Answer, &by); err != nil || len(by) == 0 {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "extend needs amounts by bound, like {\"tool_calls\": 5}, or one alone")
		}
		for _, n := range by {
			if n <= 0 {
				return tipstaff.Errorf(tipstaff.InvalidArgument, "a bound can only be extended by more than 0")
			}
		}
	}
	if files := tipstaff.AsksAgain(g, req.Action); len(files) > 0 && !tipstaff.AcceptsObeyed(req.Answer) {
		return tipstaff.Errorf(tipstaff.ObeyedFilesChanged, "%s would change what runs and programs obey here (%s): %s", req.Action, tipstaff.ObeyedFilesChanged, strings.Join(files, ", ")).
			WithHint("look at these files first; the answer {\"obeyed\": true} applies them, too").WithCommand("look at these files with `tipstaff show %s --diff`; then add --answer '%s'", req.Run, tipstaff.AcceptObeyed())
	}
	return feedbackFits(g, req)
}

// feedbackFits checks that feedback is there where it is used, and nowhere else:
// what nobody would read must not look as if it had been taken.
func feedbackFits(g tipstaff.Gate, req tipstaff.DecideRequest) error {
	var subject struct {
		Required []string `json:"feedback_required_for"`
	}
	switch g.Kind {
	case tipstaff.Handoff, tipstaff.Confirmation, tipstaff.Delivery:
		_ = json.Unmarshal(g.Subject, &subject) // it names what it needs, or nothing
	case tipstaff.Question, tipstaff.Clarification:
		if req.Action == actionAnswer { // its text
			return nil
		}
	}
	needed := slices.Contains(subject.Required, req.Action)
	switch {
	case needed && strings.TrimSpace(req.Feedback) == "":
		return tipstaff.Errorf(tipstaff.FeedbackRequired, "%s needs feedback", req.Action).WithHint("it is told to whoever goes on").WithCommand("give it with --feedback")
	case !needed && req.Feedback != "":
		return tipstaff.Errorf(tipstaff.FeedbackNotAllowed, "%s at a gate of kind %s takes no feedback", req.Action, g.Kind).WithCommand("say why with --note")
	}
	return nil
}

// doubted is what an in_doubt gate asks about.
type doubted struct {
	Path  string     `json:"path"`
	Name  string     `json:"name"`
	Input tool.Input `json:"input"` // of a tool call
}

// checkResult checks that a result given for a call has the shape that the call's own
// would have: the program relies on it. offered: none is given, and none is needed,
// because the agent's host has brought one.
func (r *Runner) checkResult(ctx context.Context, run string, asked flow.GateRow, req tipstaff.DecideRequest) (offered bool, err error) {
	var subject doubted
	if req.Action != actionUseResult || asked.Decided > 0 || json.Unmarshal(gateOf(asked).Subject, &subject) != nil {
		return false, nil
	}
	if len(req.Answer) == 0 {
		known, err := traceCall(ctx, r.Store, run, subject.Path)
		return err == nil && known.given != nil, err
	}
	return false, r.checkGiven(ctx, run, subject, req.Answer)
}

// checkGiven checks a result that somebody gives for a call.
func (r *Runner) checkGiven(ctx context.Context, run string, of doubted, answer json.RawMessage) error {
	p, err := openProgram(ctx, r.Store, run)
	if err != nil {
		return err
	}
	if of.Name != tool.ActivityName && of.Name != remoteActivity {
		return r.checkPerformed(p, of, answer)
	}
	if of.Name == tool.ActivityName {
		d, err := p.shared().gate.Tools.Lookup(of.Input.URI)
		if err != nil {
			return nil // nobody knows the tool any more
		}
		if err := of.Input.CheckResult(d, answer); err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "the answer is not a result of %s: %v", of.Input.URI, err)
		}
	}
	return r.checkStageResult(ctx, run, p, of.Path, answer)
}

// checkPerformed checks a result that is given for a call of a performer, if that can tell:
// with it the step or stage must be able to complete.
func (r *Runner) checkPerformed(opened program, of doubted, answer json.RawMessage) error {
	asked := Doubt{Call: of.Name, Path: of.Path, Answer: answer}
	var stage *pipeline.Agent
	switch p := opened.(type) {
	case *pipelineProgram:
		name, _, _ := strings.Cut(of.Path, "#")
		if stage = p.pipe.Agent(name); stage != nil {
			asked.Schema = stage.OutputSchema
		}
	case *planProgram:
		for leaf := range p.doc.Root.Leaves {
			if path := p.root() + strings.TrimPrefix(leaf.Path, planRoot); strings.HasPrefix(of.Path, path+"/") {
				asked.Schema = leaf.OutputSchema
			}
		}
	}
	for _, way := range slices.Sorted(maps.Keys(r.performers)) {
		by, ok := r.performers[way].(AnswerChecker)
		if !ok {
			continue
		}
		res, err := by.CheckAnswer(asked)
		if err == nil && res != nil && stage != nil && stage.Way == way {
			err = stage.CheckOutput(res.Output)
		}
		if err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "the answer is not a result of %s: %v", of.Name, err)
		}
	}
	return nil
}

// checkStageResult checks a result that is given for the one call of a remote or tool
// stage: with it the stage must be able to complete. Other calls lie below their stage.
func (r *Runner) checkStageResult(ctx context.Context, run string, opened program, path string, answer json.RawMessage) error {
	p, ok := opened.(*pipelineProgram)
	name, _, _ := strings.Cut(path, "#")
	if !ok || p.draft.Rules < rulesKept || strings.Contains(path, "/") || p.pipe.Agent(name) == nil {
		return nil
	}
	stage := p.pipe.Agent(name)
	read := pipeline.DecodeObject
	if stage.Way == pipeline.WayTool {
		read = toolOutput
	}
	output, err := read(answer)
	if err == nil {
		err = stage.CheckOutput(output)
	}
	if err != nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "the answer is not an output of stage %s: %v", name, err).
			WithHint("give the stage's output itself, as a JSON object with all that the stage requires")
	}
	now, err := stateAt(ctx, r.Store, run, 0)
	if err == nil && now.state.Size()+len(answer) > pipeline.MaxEnvelope {
		err = tipstaff.Errorf(tipstaff.InvalidArgument, "with this output of stage %s the Envelope would have more than %d bytes", name, pipeline.MaxEnvelope)
	}
	return err
}

// checkExtension refuses to extend a bound of the run beyond what its manifest permits.
func (r *Runner) checkExtension(ctx context.Context, run string, req tipstaff.DecideRequest) error {
	var by tipstaff.Bounds
	if req.Action != "extend" || json.Unmarshal(req.Answer, (*map[string]int64)(&by)) != nil {
		return nil // what is wrong with it is said by whoever knows the gate
	}
	p, err := openProgram(ctx, r.Store, run)
	if err != nil {
		return err
	}
	tally, err := r.totals(ctx, run, p)
	if err != nil {
		return err
	}
	limit := tally.Limit
	if _, ok := p.(*pipelineProgram); ok { // it counts these itself
		now, err := stateAt(ctx, r.Store, run, 0)
		if err != nil {
			return err
		}
		limit = maps.Clone(limit)
		limit[tipstaff.BoundIterations] = now.state.MaxIterations
	}
	ceiling := tipstaff.Min(p.shared().gate.Manifest.Ceiling())
	if m, err := r.manifest(); err == nil { // it may permit another amount by now
		maps.Copy(ceiling, m.Ceiling())
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if most, ok := ceiling[name]; ok && by[name] > most-limit[name] {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be extended by %s: it is %s, and the manifest permits %s", name,
				tipstaff.FormatBound(name, by[name]), tipstaff.FormatBound(name, limit[name]), tipstaff.FormatBound(name, most)).
				WithHint("bounds.%s in tipstaff.yaml says how much there may be", name)
		}
	}
	return nil
}

// decided reads the stored decision back, and has its file written.
func (r *Runner) decided(ctx context.Context, run, gate string, replayed bool) (none tipstaff.Decided, err error) {
	rows, err := r.Store.Gates(ctx, flow.GateQuery{Run: run, ID: gate})
	if err != nil || len(rows) == 0 {
		return none, err
	}
	d, raw, err := r.decisionOf(ctx, run, rows[0])
	if err != nil {
		return none, err
	}
	r.project(run)
	now, err := r.get(ctx, idOf(run))
	return tipstaff.Decided{Decision: d, Raw: raw, Replayed: replayed, Run: now}, err
}

// decisionOf is the decision of a gate with its canonical bytes.
func (r *Runner) decisionOf(ctx context.Context, run string, row flow.GateRow) (none tipstaff.Decision, raw []byte, err error) {
	e, err := eventAt(ctx, r.Store, run, row.Decided)
	if err == nil {
		err = attach(ctx, r.Store, e)
	}
	if err != nil {
		return none, nil, err
	}
	return decisionIn(gateOf(row), e)
}

// decisionIn is the decision that a record holds. Its bytes follow from the record alone, so
// they are equal for everyone who asks.
func decisionIn(g tipstaff.Gate, e *tipstaff.Event) (none tipstaff.Decision, raw []byte, err error) {
	b, err := flow.ReadResolved(string(e.Kind), e.Body)
	if err != nil {
		return none, nil, err
	}
	d := tipstaff.Decision{Action: b.Action, Answer: b.Answer, DecidedAt: e.At, Feedback: b.Feedback, GateID: g.ID, Kind: g.Kind, Note: b.Note,
		Path: g.Path, RunID: e.Run, Schema: 1, SubjectDigest: cmp.Or(b.SubjectDigest, g.Digest),
		Actor: tipstaff.Actor{Principal: cmp.Or(b.OnBehalfOf, "local:cli"), Via: b.Via, Client: b.Client, DecidedBy: b.DecidedBy}}
	if d.Answer == nil {
		d.Answer = json.RawMessage("null")
	}
	if g.Kind == tipstaff.Delivery && b.Action == tipstaff.DeliverFix {
		d.FollowupRunID = tipstaff.FollowupID(g.ID)
	}
	raw, err = canon.Form(flow.JSON(d))
	return d, raw, err
}

package tipstaff

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// collector takes the evidence from the records of a run.
type collector struct {
	run       Run
	now       time.Time
	agents    map[string]string // by path, of a plan
	envelopes int
	key       string

	order     []*EvidenceStep
	steps     map[string]*EvidenceStep // by path
	findings  []EvidenceFinding
	visits    map[string]int64 // the last that ended, by stage
	waived    map[string]bool  // findings, by id
	inputs    map[string]commandInput
	commands  []EvidenceCommand
	running   map[string]int // commands that have not ended, by the path of the call; of workers by its id
	files     []EvidenceFile
	errors    []EvidenceError
	wrong     map[string]string // what went wrong last, by step
	gates     []EvidenceDecision
	waivers   []WaiverRecorded
	overrides []HandoffOverridden
	bounds    map[string]*EvidenceBound
	delivery  EvidenceDelivery
	checks    []EvidenceCheck
}

func (c *collector) apply(e *Event) {
	c.delivery.fold(e)
	if file, is := fileOf(e); is && !slices.Contains(c.files, file) {
		c.files = append(c.files, file)
	}
	if e.Kind.Envelope() {
		c.applyEnvelope(e)
	}
	switch e.Kind {
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		c.applyEffect(e)
	case KindPlanStep:
		c.applyPlanStep(e, BodyOf[PlanStep](e))
	case KindStageStarted, KindStageFinished, KindStageRetrying, KindStageSkipped, KindFindingRecorded:
		c.applyStage(e)
	case KindWaiverRecorded:
		b := BodyOf[WaiverRecorded](e)
		c.waivers = append(c.waivers, b)
		for _, id := range b.FindingIDs {
			c.waived[id] = true
		}
	case KindHandoffOverridden:
		c.overrides = append(c.overrides, BodyOf[HandoffOverridden](e))
	case KindBoundWarned:
		if b := c.bound(BodyOf[BoundWarned](e).Bound); b.WarnedAt.IsZero() {
			b.WarnedAt = e.At
		}
	case KindBoundRefused:
		if b := c.bound(BodyOf[BoundRefused](e).Bound); b.ExceededAt.IsZero() {
			b.ExceededAt = e.At
		}
	case KindBoundExtended:
		b := BodyOf[BoundExtended](e)
		to := c.bound(b.Bound)
		to.Extensions = append(to.Extensions, EvidenceExtension{By: FormatBound(b.Bound, b.By), At: e.At, Gate: b.Gate, Decision: c.decisionAt(b.Gate)})
	case KindAgentToolCallRequest, KindAgentToolCallResult, KindWorkerEnded:
		c.applyWorker(e)
	case KindCheckFinished:
		b := BodyOf[CheckFinished](e).Receipt
		c.checks = append(c.checks, EvidenceCheck{Receipt: b})
		c.commands = append(c.commands, commandOf(e.Path, b))
	case KindSetupFinished:
		c.commands = append(c.commands, commandOf(e.Path, BodyOf[SetupFinished](e).Receipt))
	case KindDeliveryCommitted, KindDeliveryApplied:
		c.delivery.AppliedAt = e.At
	case KindRunInterrupted:
		c.errors = append(c.errors, EvidenceError{Code: BodyOf[RunInterrupted](e).Reason, Message: "the run was interrupted", Seq: e.Seq, Retryable: true})
	}
}

// commandOf is a command whose receipt is known.
func commandOf(path string, r Receipt) EvidenceCommand {
	return EvidenceCommand{Path: path, Argv: cutArguments(r.Argv), ExitCode: &r.ExitCode, DurationMs: r.Ms, Outcome: cmp.Or(r.Code, exitOutcome(r.ExitCode))}
}

func exitOutcome(code int) string {
	if code == 0 {
		return "ok"
	}
	return "exit"
}

func (c *collector) applyEnvelope(e *Event) {
	c.envelopes++
	if e.From == "executor" {
		c.key = e.Key
	}
	switch e.Kind {
	case KindIntentDraft:
		if f := BodyOf[IntentDraft](e).Followup; f != nil {
			c.delivery.FollowupOf = f.ParentRunID
		}
	case KindIntentFail:
		b := BodyOf[IntentFail](e)
		c.errors = append(c.errors, EvidenceError{Code: cmp.Or(b.Code, b.Reason), Message: b.Message, Seq: e.Seq, Provider: pressure(b.Code, time.Time{})})
	}
	switch {
	case e.Kind.OpensGate():
		if g, err := OpenedGate(e.Kind, e.Path, e.Seq, e.At, e.Body); err == nil {
			c.gates = append(c.gates, EvidenceDecision{Gate: g.ID.String(), Kind: g.Kind, Key: g.Key, Path: g.Path, Question: g.Question, OpenedAt: e.At, expires: g.ExpiresAt, deny: g.Deny})
		}
	case e.Kind.Terminal():
		b := BodyOf[Terminal](e)
		for i := range c.gates {
			switch g := &c.gates[i]; {
			case !g.ClosedAt.IsZero():
			case g.Gate == b.Gate: // the cancellation is the decision
				g.ClosedAt, g.Decision = e.At, &GateResolved{Gate: g.Gate, Action: cmp.Or(g.deny, ActionHalt), Note: b.Reason, Via: b.Via, OnBehalfOf: b.OnBehalfOf}
			default:
				g.ClosedAt, g.Closed = e.At, flow.ViaRunEnded
			}
		}
	case e.Kind.ClosesGate():
		if b, err := flow.ReadResolved(string(e.Kind), e.Body); err == nil {
			c.closeGate(b.Gate, e.At, &b)
		}
	}
}

func (c *collector) closeGate(gate string, at time.Time, b *GateResolved) {
	i := slices.IndexFunc(c.gates, func(g EvidenceDecision) bool { return g.Gate == gate && g.ClosedAt.IsZero() })
	if i < 0 {
		return
	}
	g := &c.gates[i]
	g.ClosedAt = at
	if g.Decision = b; !b.Decision() {
		g.Decision, g.Closed = nil, b.Via
	}
}

func (c *collector) decisionAt(gate string) *GateResolved {
	for _, g := range c.gates {
		if g.Gate == gate {
			return g.Decision
		}
	}
	return nil
}

// step is the leaf or visit at a path.
func (c *collector) step(path string, at time.Time) *EvidenceStep {
	s := c.steps[path]
	if s == nil {
		s = &EvidenceStep{Path: path, Agent: c.agents[path], Outcome: StepStarted, StartedAt: at}
		c.steps[path], c.order = s, append(c.order, s)
	}
	return s
}

func (c *collector) applyPlanStep(e *Event, b PlanStep) {
	s := c.step(e.Path, e.At)
	if b.Status == StepStarted {
		s.Attempts = 1
		return
	}
	s.Outcome, s.ResultDigest = b.Status, b.ResultDigest
	if s.DurationMs = b.LatencyMs; s.DurationMs == 0 {
		s.DurationMs = e.At.Sub(s.StartedAt).Milliseconds()
	}
	if b.Error != nil {
		s.ErrorCode = cmp.Or(b.Error.Code, b.Error.Reason)
		c.fail(e, s.Path, EvidenceError{Code: s.ErrorCode, Message: b.Error.Message})
	}
}

// fail records what went wrong in a step, unless a record of its call has just said so.
func (c *collector) fail(e *Event, step string, wrong EvidenceError) {
	said := wrong.Code + ": " + wrong.Message
	if c.wrong[step] != said {
		c.wrong[step] = said
		wrong.Path, wrong.Seq = e.Path, e.Seq
		c.errors = append(c.errors, wrong)
	}
}

func (c *collector) applyStage(e *Event) {
	switch e.Kind {
	case KindStageStarted:
		b := BodyOf[StageStarted](e)
		s := c.step(e.Path, e.At)
		s.Agent, s.Attempts = cmp.Or(s.Agent, b.Stage), b.Attempt
	case KindStageFinished:
		b := BodyOf[StageFinished](e)
		s := c.step(e.Path, e.At.Add(-b.Took()))
		s.Agent, s.Attempts, s.Outcome, s.DurationMs, s.ErrorCode = cmp.Or(s.Agent, b.Stage), b.Attempts, b.Outcome, b.DurationMs, b.Code
		if len(b.Output) > 0 {
			s.ResultDigest = flow.Digest(b.Output)
		}
		if c.visits[b.Stage] = max(c.visits[b.Stage], b.Visit); b.Code != "" {
			c.fail(e, e.Path, EvidenceError{Code: b.Code, Message: b.Error, Provider: pressure(b.Code, time.Time{})})
		}
	case KindStageRetrying:
		b := BodyOf[StageRetrying](e)
		c.fail(e, e.Path, EvidenceError{Code: b.Code, Message: b.Error, Retryable: true, Provider: pressure(b.Code, time.Time{})})
		delete(c.wrong, e.Path) // the next attempt may fail in the same way
	case KindStageSkipped:
		b := BodyOf[StageSkipped](e)
		c.step(cmp.Or(e.Path, b.Stage), e.At).Outcome = NodeSkipped.String()
	case KindFindingRecorded:
		c.findings = append(c.findings, EvidenceFinding{FindingRecorded: BodyOf[FindingRecorded](e)})
	}
}

// placeOf is the step that a call belongs to.
func (c *collector) placeOf(path string) string {
	if c.run.Pipeline != nil {
		visit, _, _ := strings.Cut(path, "/")
		return visit
	}
	return leafOf(path)
}

func (c *collector) applyEffect(e *Event) {
	var b Effect
	if !decode(e.Body, &b) {
		return
	}
	if b.Name == toolActivity {
		c.applyCall(e, b)
	}
	if b.Error != nil {
		wrong := EvidenceError{Code: b.Error.Code, Message: b.Error.Message, Retryable: e.Kind == KindEffectFailed || b.Error.Retry, Provider: pressure(b.Error.Code, resetOf(e.At, b.Error))}
		c.fail(e, c.placeOf(e.Path), wrong)
		if e.Kind == KindEffectFailed {
			delete(c.wrong, c.placeOf(e.Path)) // the next attempt may fail in the same way
		}
	}
}

// toolActivity is the call of a tool, by a node of a plan or by an agent.
const toolActivity = "tool.call"

func (c *collector) applyCall(e *Event, b Effect) {
	if !withinAgent(e.Path) {
		s := c.step(e.Path, e.At.Add(-b.Took()))
		s.Class, s.Attempts = cmp.Or(s.Class, b.Class), int64(b.Attempt)
	}
	var in struct{ Args commandInput }
	if decode(b.Input, &in) && len(in.Args.Argv) > 0 {
		c.inputs[e.Path] = in.Args // it stands in the first record of a call alone
	}
	run, runs := c.inputs[e.Path]
	if !runs {
		return
	}
	i, begun := c.running[e.Path]
	if !begun {
		i = len(c.commands)
		c.running[e.Path] = i
		c.commands = append(c.commands, EvidenceCommand{Path: e.Path, Argv: cutArguments(run.Argv), Cwd: run.Cwd, Outcome: StepStarted})
	}
	if e.Kind != KindEffectIntended {
		c.commands[i].end(b)
		delete(c.running, e.Path)
	}
}

// resetOf is when a provider said that it may be asked again; zero: it did not.
func resetOf(at time.Time, e *flow.Error) time.Time {
	var detail struct {
		RetryAt time.Time `json:"retry_at"`
	}
	if decode(e.Detail, &detail) && !detail.RetryAt.IsZero() {
		return detail.RetryAt
	}
	if e.After > 0 {
		return at.Add(e.After)
	}
	return time.Time{}
}

func pressure(code string, reset time.Time) *ProviderPressure {
	if kind := PressureOf(code); kind != "" {
		return &ProviderPressure{Kind: kind, ResetAt: reset}
	}
	return nil
}

// commandInput is how calls name a program: those of Tipstaff's own tool by argv, those of
// the CLIs of workers by command, a list or the text that a shell is given.
type commandInput struct {
	Argv    []string        `json:"argv"`
	Command json.RawMessage `json:"command"`
	Cwd     string          `json:"cwd"`
}

// words are what is run; nil: nothing.
func (in commandInput) words() []string {
	if len(in.Argv) > 0 {
		return in.Argv
	}
	var words []string
	var text string
	if decode(in.Command, &words) {
		return words
	}
	if decode(in.Command, &text) && text != "" {
		return []string{text}
	}
	return nil
}

// end takes the outcome of the call that ran the command.
func (done *EvidenceCommand) end(b Effect) {
	done.DurationMs, done.Outcome = b.Took().Milliseconds(), "ok"
	type exit struct {
		Code *int `json:"exit_code"`
	}
	var value struct {
		exit
		Structured exit `json:"structured"`
	}
	if b.Error != nil {
		done.Outcome = b.Error.Code
		var detail struct{ Output exit }
		_ = decode(b.Error.Detail, &detail) // other errors have none
		done.ExitCode = detail.Output.Code
	} else if decode(b.Value, &value) {
		done.ExitCode = cmp.Or(value.Code, value.Structured.Code)
	}
}

func cutArguments(argv []string) []string {
	cut := make([]string, len(argv))
	for i, word := range argv {
		if cut[i] = word; len(word) > mostArgument {
			cut[i] = head(word, mostArgument) + "…"
		}
	}
	return cut
}

// applyWorker takes in what a worker runs, how its invocations end, and what it brings.
func (c *collector) applyWorker(e *Event) {
	switch e.Kind {
	case KindAgentToolCallRequest:
		b := BodyOf[AgentToolCallRequest](e)
		var in commandInput
		if b.Invocation == "" || !decode(b.Arguments, &in) || in.words() == nil {
			return
		}
		c.running[b.Invocation+b.ID] = len(c.commands)
		c.commands = append(c.commands, EvidenceCommand{Path: e.Path, Argv: cutArguments(in.words()), Cwd: in.Cwd, Outcome: StepStarted})
	case KindAgentToolCallResult:
		b := BodyOf[AgentToolCallResult](e)
		i, ran := c.running[b.Invocation+b.ID]
		if !ran {
			return
		}
		c.commands[i].DurationMs, c.commands[i].Outcome = b.DurationMS, "ok"
		if b.IsError {
			c.commands[i].Outcome = cmp.Or(b.Class, "error")
		}
	case KindWorkerEnded:
		b := BodyOf[WorkerEnded](e)
		if _, well := outcomeStates[b.Outcome]; !well {
			c.errors = append(c.errors, EvidenceError{Code: "worker_" + b.Outcome, Message: "the invocation ended: " + b.String(), Path: e.Path, Seq: e.Seq})
		}
	}
}

func (c *collector) bound(name string) *EvidenceBound {
	if c.bounds[name] == nil {
		c.bounds[name] = &EvidenceBound{Name: name, Extensions: []EvidenceExtension{}}
	}
	return c.bounds[name]
}

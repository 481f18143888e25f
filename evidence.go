package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Slices of the evidence of a run.
const (
	SliceAll          = "all"
	SlicePlan         = "plan"
	SliceSteps        = "steps"
	SliceFindings     = "findings"
	SliceCommands     = "commands"
	SliceArtifacts    = "artifacts"
	SliceErrors       = "errors"
	SliceDecisions    = "decisions"
	SliceBounds       = "bounds"
	SliceDelivery     = "delivery"
	SliceVerification = "verification"
)

// EvidenceSlices are all of them, in the order in which they are shown.
func EvidenceSlices() []string {
	return []string{SlicePlan, SliceSteps, SliceFindings, SliceCommands, SliceArtifacts, SliceErrors, SliceDecisions, SliceBounds, SliceDelivery, SliceVerification}
}

// EvidenceRequest selects what is recorded of a run.
type EvidenceRequest struct {
	Run   ID     `json:"run_id"`
	Slice string `json:"slice,omitempty"` // "": all
	// SeverityMin leaves out findings below it: P0 is the worst. "": none.
	SeverityMin string `json:"severity_min,omitempty"`
	// Stages leave out what happened elsewhere: names of stages, visits (work#2) or paths of
	// a plan, with all below them. Empty: nothing is left out. They select steps, findings,
	// commands, artifacts, errors and decisions.
	Stages []string `json:"stages,omitempty"`
	Limit  int      `json:"limit,omitempty"`  // of each list; 0: 100
	Offset int      `json:"offset,omitempty"` // of each list
}

// Evidence limits.
const (
	defaultEvidence = 100
	mostEvidence    = 1000
	mostArgument    = 512 // bytes of an argument of a command
)

// RunEvidence is what is recorded of a run up to a record. Slices that were not asked for
// are absent; those that are empty are there.
type RunEvidence struct {
	Run          ID                             `json:"run_id"`
	HeadSeq      int64                          `json:"head_seq"`
	Plan         *EvidencePlan                  `json:"plan,omitempty"`
	Steps        *EvidenceList[EvidenceStep]    `json:"steps,omitempty"`
	Findings     *EvidenceList[EvidenceFinding] `json:"findings,omitempty"`
	Commands     *EvidenceList[EvidenceCommand] `json:"commands,omitempty"`
	Artifacts    *EvidenceList[EvidenceFile]    `json:"artifacts,omitempty"`
	Errors       *EvidenceList[EvidenceError]   `json:"errors,omitempty"`
	Decisions    *EvidenceDecisions             `json:"decisions,omitempty"`
	Bounds       *EvidenceList[EvidenceBound]   `json:"bounds,omitempty"`
	Delivery     *EvidenceDelivery              `json:"delivery,omitempty"`
	Verification *EvidenceVerification          `json:"verification,omitempty"`
}

// EvidenceList is one page of a list.
type EvidenceList[T any] struct {
	Items []T `json:"items"`
	Total int `json:"total"` // also those that are on other pages
}

// EvidencePlan is the program in force.
type EvidencePlan struct {
	Program
	Summary string          `json:"summary,omitempty"`
	Nodes   []EvidenceNode  `json:"nodes,omitempty"`  // of a plan, in the order of the document
	Stages  []string        `json:"stages,omitempty"` // of a pipeline
	Tools   []string        `json:"tools"`            // that it names
	Gates   []string        `json:"gates"`            // questions that it asks
	Bounds  Bounds          `json:"bounds"`
	Deliver json.RawMessage `json:"deliver,omitempty"`
}

// EvidenceNode is a node of a plan.
type EvidenceNode struct {
	Path  string `json:"path"`
	Kind  string `json:"kind"`
	Label string `json:"label,omitempty"` // tool, agent, question, skill
}

// EvidenceStep is a leaf of a plan, or a visit of a stage.
type EvidenceStep struct {
	Path         string     `json:"path"`
	Agent        string     `json:"agent,omitempty"`
	Class        flow.Class `json:"class,omitempty"`
	Attempts     int64      `json:"attempts"`
	Outcome      string     `json:"outcome"` // started: it has not ended
	StartedAt    time.Time  `json:"started_at,omitzero"`
	DurationMs   int64      `json:"duration_ms"`
	ResultDigest string     `json:"result_digest,omitempty"`
	ErrorCode    string     `json:"error_code,omitempty"`
}

// Statuses of an [EvidenceFinding].
const (
	FindingOpen   = "open"
	FindingFixed  = "fixed" // a later visit does not have it
	FindingWaived = "waived"
)

// EvidenceFinding is something that a stage objected to.
type EvidenceFinding struct {
	FindingRecorded
	Latest bool   `json:"latest"` // it is of the stage's last visit
	Status string `json:"status"`
}

// EvidenceCommand is a program that was run: by a tool, a check, or a worker.
type EvidenceCommand struct {
	Path       string   `json:"path"`
	Argv       []string `json:"argv"` // long arguments are cut
	Cwd        string   `json:"cwd,omitempty"`
	ExitCode   *int     `json:"exit_code,omitempty"` // nil: not known
	DurationMs int64    `json:"duration_ms"`
	Outcome    string   `json:"outcome"` // ok, the code of what went wrong, or started
}

// EvidenceFile is something that the run has brought forth and keeps.
type EvidenceFile struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // diff, check_output, outputs, file, data, verdict
	Digest string `json:"digest,omitempty"`
	Path   string `json:"path"`
}

// EvidenceError is something that went wrong, whether or not it was tried again.
type EvidenceError struct {
	Code      string            `json:"code"`
	Message   string            `json:"message"`
	Path      string            `json:"path"`
	Seq       int64             `json:"seq"`
	Retryable bool              `json:"retryable"`
	Provider  *ProviderPressure `json:"provider,omitempty"`
}

// ProviderPressure is what keeps a provider from answering.
type ProviderPressure struct {
	Kind    string    `json:"kind"`              // limit, overload, access
	ResetAt time.Time `json:"reset_at,omitzero"` // when it said that it may be asked again; zero: it did not
}

// PressureOf tells by the code of a failed model call what kind of pressure a provider is
// under; "": it is none.
func PressureOf(code string) string {
	switch code {
	case "rate_limited":
		return "limit"
	case "provider_unavailable":
		return "overload"
	case "provider_auth":
		return "access"
	}
	return ""
}

// EvidenceDecisions are the gates of a run, and what was let pass at them.
type EvidenceDecisions struct {
	EvidenceList[EvidenceDecision]
	Waivers    []WaiverRecorded    `json:"waivers"`
	Overridden []HandoffOverridden `json:"overridden"`
}

// EvidenceDecision is a gate with what became of it.
type EvidenceDecision struct {
	Gate     string        `json:"gate_id"`
	Kind     GateKind      `json:"kind"`
	Key      string        `json:"key"`
	Path     string        `json:"path"`
	Question string        `json:"question"`
	OpenedAt time.Time     `json:"opened_at"`
	ClosedAt time.Time     `json:"closed_at,omitzero"`
	WaitedS  float64       `json:"waited_s"`
	Decision *GateResolved `json:"decision,omitempty"`
	Closed   string        `json:"closed,omitempty"` // why, without a decision: expiry, superseded, run_ended
	expires  time.Time
	deny     string
}

// EvidenceBound is one bound of a run.
type EvidenceBound struct {
	Name string `json:"name"`
	boundText
	WarnedAt   time.Time           `json:"warned_at,omitzero"`
	ExceededAt time.Time           `json:"exceeded_at,omitzero"`
	Extensions []EvidenceExtension `json:"extensions"`
}

// EvidenceExtension raised a bound.
type EvidenceExtension struct {
	By       string        `json:"by"` // how much
	At       time.Time     `json:"at"`
	Gate     string        `json:"gate_id"`
	Decision *GateResolved `json:"decision,omitempty"`
}

// EvidenceDelivery is where the delivery stands, and which runs it follows up.
type EvidenceDelivery struct {
	DeliveryState
	AppliedAt  time.Time `json:"applied_at,omitzero"` // when the changes were handed over
	FollowupOf string    `json:"followup_of,omitempty"`
}

// EvidenceVerification is what there is to check.
type EvidenceVerification struct {
	Checks    EvidenceList[EvidenceCheck] `json:"checks"`
	HeadSeq   int64                       `json:"head_seq"`
	HeadHash  string                      `json:"head_hash"`
	Envelopes int                         `json:"envelopes"`
	KeyID     string                      `json:"key_id,omitempty"` // that the executor signs with
}

// EvidenceCheck is the receipt of a check.
type EvidenceCheck struct {
	Receipt
	Current bool `json:"current"` // it ran on what the run has changed in the end
}

// Evidence is what is recorded of a run. present tells whether a directory is there; nil:
// nobody can tell.
func Evidence(ctx context.Context, r RunReader, req EvidenceRequest, now time.Time, present func(path string) bool) (RunEvidence, error) {
	if err := req.check(); err != nil {
		return RunEvidence{}, err
	}
	run, err := r.Get(ctx, req.Run)
	if err != nil {
		return RunEvidence{}, err
	}
	doc, err := documentOf(ctx, r, run)
	if err != nil {
		return RunEvidence{}, err
	}
	c := collector{run: run, now: now, agents: doc.agents(run), steps: map[string]*EvidenceStep{}, inputs: map[string]commandInput{},
		running: map[string]int{}, wrong: map[string]string{}, visits: map[string]int64{}, waived: map[string]bool{},
		bounds: map[string]*EvidenceBound{}, delivery: EvidenceDelivery{DeliveryState: newDeliveryState()}}
	for e, err := range upTo(ctx, r, run) {
		if err != nil {
			return RunEvidence{}, err
		}
		c.apply(&e)
	}
	c.delivery.present(present)
	return c.report(req, doc), nil
}

// check refuses what cannot be meant: nothing is clamped.
func (r *EvidenceRequest) check() error {
	r.Slice, r.Limit = cmp.Or(r.Slice, SliceAll), cmp.Or(r.Limit, defaultEvidence)
	if r.Slice != SliceAll && !slices.Contains(EvidenceSlices(), r.Slice) {
		return Errorf(InvalidArgument, "%q is no slice of the evidence: it is all, %s", r.Slice, strings.Join(EvidenceSlices(), ", "))
	}
	if r.SeverityMin != "" && severity(r.SeverityMin) < 0 {
		return Errorf(InvalidArgument, "%q is no severity: it is P0, P1, P2 or P3", r.SeverityMin)
	}
	if r.Limit < 1 || r.Limit > mostEvidence {
		return Errorf(InvalidArgument, "limit is %d; it must be from 1 to 1000", r.Limit)
	}
	if r.Offset < 0 {
		return Errorf(InvalidArgument, "offset is %d; it cannot be negative", r.Offset)
	}
	return nil
}

// severity is how bad a finding is: 0 is the worst; negative: it does not say.
func severity(text string) int { return slices.Index([]string{"P0", "P1", "P2", "P3"}, text) }

// in reports whether a path lies in one of the stages that are asked for.
func (r *EvidenceRequest) in(path string) bool {
	return len(r.Stages) == 0 || slices.ContainsFunc(r.Stages, func(stage string) bool {
		return path == stage || strings.HasPrefix(path, stage+"/") || strings.HasPrefix(path, stage+"#")
	})
}

// upTo yields the records that a run had when its status was read.
func upTo(ctx context.Context, r EventReader, run Run) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range r.Events(ctx, EventsRequest{Run: run.ID}) {
			if err == nil && e.Seq > run.HeadSeq || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

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
	case KindAgentToolCallRequest, KindAgentToolCallResult, KindWorkerEnded, KindTaskOutput:
		c.applyWorker(e)
	case KindDiffRecorded:
		b := BodyOf[DiffRecorded](e)
		c.file(EvidenceFile{Name: "diff.patch", Kind: "diff", Digest: b.Patch, Path: cmp.Or(b.Stage, e.Path)})
	case KindCheckFinished:
		b := BodyOf[CheckFinished](e).Receipt
		c.checks = append(c.checks, EvidenceCheck{Receipt: b})
		c.commands = append(c.commands, EvidenceCommand{Path: e.Path, Argv: cutArguments(b.Argv), ExitCode: &b.ExitCode, DurationMs: b.Ms, Outcome: cmp.Or(b.Code, exitOutcome(b.ExitCode))})
		if b.Output != "" {
			c.file(EvidenceFile{Name: b.Name, Kind: "check_output", Digest: b.Output, Path: e.Path})
		}
	case KindDeliveryCommitted, KindDeliveryApplied:
		c.delivery.AppliedAt = e.At
	case KindRunInterrupted:
		c.errors = append(c.errors, EvidenceError{Code: BodyOf[RunInterrupted](e).Reason, Message: "the run was interrupted", Seq: e.Seq, Retryable: true})
	}
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
	case KindIntentAttest:
		if b := BodyOf[IntentAttest](e); b.OutputsDigest != "" {
			c.file(EvidenceFile{Name: "outputs", Kind: "outputs", Digest: b.OutputsDigest})
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
	case KindTaskOutput:
		b := BodyOf[TaskBrought](e).Output
		c.file(EvidenceFile{Name: cmp.Or(b.Path, b.Kind), Kind: b.Kind, Digest: b.SHA256, Path: e.Path})
	}
}

func (c *collector) file(f EvidenceFile) {
	if !slices.Contains(c.files, f) {
		c.files = append(c.files, f)
	}
}

func (c *collector) bound(name string) *EvidenceBound {
	if c.bounds[name] == nil {
		c.bounds[name] = &EvidenceBound{Name: name, Extensions: []EvidenceExtension{}}
	}
	return c.bounds[name]
}

// report selects what was asked for.
func (c *collector) report(req EvidenceRequest, doc *programDocument) RunEvidence {
	got := RunEvidence{Run: c.run.ID, HeadSeq: c.run.HeadSeq}
	for _, slice := range EvidenceSlices() {
		if req.Slice != SliceAll && req.Slice != slice {
			continue
		}
		switch slice {
		case SlicePlan:
			got.Plan = doc.evidence(c.run)
		case SliceSteps:
			got.Steps = page(req, c.order, func(s *EvidenceStep) (EvidenceStep, bool) { return *s, req.in(s.Path) })
		case SliceFindings:
			c.judge()
			got.Findings = page(req, c.findings, func(f EvidenceFinding) (EvidenceFinding, bool) {
				at := severity(f.Severity)
				return f, req.in(visitOf(f.Stage, f.Visit)) && (req.SeverityMin == "" || at >= 0 && at <= severity(req.SeverityMin))
			})
		case SliceCommands:
			got.Commands = page(req, c.commands, func(d EvidenceCommand) (EvidenceCommand, bool) { return d, req.in(d.Path) })
		case SliceArtifacts:
			got.Artifacts = page(req, c.files, func(f EvidenceFile) (EvidenceFile, bool) { return f, req.in(f.Path) })
		case SliceErrors:
			got.Errors = page(req, c.errors, func(w EvidenceError) (EvidenceError, bool) { return w, req.in(w.Path) })
		case SliceDecisions:
			got.Decisions = &EvidenceDecisions{Waivers: append([]WaiverRecorded{}, c.waivers...), Overridden: append([]HandoffOverridden{}, c.overrides...)}
			got.Decisions.EvidenceList = *page(req, c.gates, func(g EvidenceDecision) (EvidenceDecision, bool) { return g.waited(c.now), req.in(g.Key) })
		case SliceBounds:
			got.Bounds = page(req, c.everyBound(), func(b EvidenceBound) (EvidenceBound, bool) { return b, true })
		case SliceDelivery:
			got.Delivery = &c.delivery
		case SliceVerification:
			got.Verification = &EvidenceVerification{HeadSeq: c.run.HeadSeq, HeadHash: c.run.Head, Envelopes: c.envelopes, KeyID: c.key}
			got.Verification.Checks = *page(req, c.checks, func(k EvidenceCheck) (EvidenceCheck, bool) {
				k.Current = c.delivery.Diff != nil && k.Tree == c.delivery.Diff.Tree
				return k, true
			})
		}
	}
	return got
}

func visitOf(stage string, visit int64) string { return stage + "#" + strconv.FormatInt(visit, 10) }

// page is what a request selects of a list.
func page[T, U any](req EvidenceRequest, all []T, take func(T) (U, bool)) *EvidenceList[U] {
	list := &EvidenceList[U]{Items: []U{}}
	for _, item := range all {
		shown, ok := take(item)
		if !ok {
			continue
		}
		if list.Total >= req.Offset && len(list.Items) < req.Limit {
			list.Items = append(list.Items, shown)
		}
		list.Total++
	}
	return list
}

// judge says of each finding what became of it: a later visit that does not have it has
// fixed it.
func (c *collector) judge() {
	last := map[string]bool{} // what the last visits have found
	for _, f := range c.findings {
		if f.Visit >= c.visits[f.Stage] {
			last[FindingID(f.FindingRecorded)] = true
		}
	}
	for i := range c.findings {
		f := &c.findings[i]
		f.Latest = f.Visit >= c.visits[f.Stage]
		switch {
		case c.waived[f.ID]:
			f.Status = FindingWaived
		case last[FindingID(f.FindingRecorded)]:
			f.Status = FindingOpen
		default:
			f.Status = FindingFixed
		}
	}
}

// waited is the gate at a moment: one past its expiry is closed, whether or not somebody has
// recorded that.
func (g EvidenceDecision) waited(now time.Time) EvidenceDecision {
	if g.ClosedAt.IsZero() && !g.expires.IsZero() && !now.Before(g.expires) {
		g.ClosedAt, g.Closed = g.expires, ViaExpiry
	}
	end := now
	if !g.ClosedAt.IsZero() {
		end = g.ClosedAt
	}
	g.WaitedS = seconds(max(0, end.Sub(g.OpenedAt).Milliseconds()))
	return g
}

// everyBound are the bounds of the run's status, with when they were warned of and raised.
func (c *collector) everyBound() (all []EvidenceBound) {
	for _, name := range slices.Sorted(maps.Keys(c.run.Bounds)) {
		b := *c.bound(name)
		b.boundText = c.run.Bounds[name].text(name)
		all = append(all, b)
	}
	return all
}

// programDocument is what a projection needs to know of the document of a program, which is
// kept as JSON, whatever its kind.
type programDocument struct {
	Root   *documentNode `json:"root"`
	Agents []struct {
		Name string `json:"name"`
	} `json:"agents"`
	Tools   []string        `json:"tools"`
	Deliver json.RawMessage `json:"deliver"`
}

type documentNode struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Tool     string          `json:"tool"`
	Agent    string          `json:"agent"`
	Question string          `json:"question"`
	Skill    string          `json:"skill"`
	Children []*documentNode `json:"children"`
}

// documentOf reads the program in force. A run that has none yet, or whose program is gone,
// has an empty one.
func documentOf(ctx context.Context, r DiffReader, run Run) (*programDocument, error) {
	doc := new(programDocument)
	if run.Program.Digest == "" {
		return doc, nil
	}
	text, err := r.Artifact(ctx, run.ID, run.Program.Digest)
	if CodeOf(err) == ArtifactNotFound {
		return doc, nil
	}
	_ = json.Unmarshal(text, doc) // it was checked when the run was made
	return doc, err
}

// walk visits the nodes of a plan with their paths.
func (d *programDocument) walk(visit func(n *documentNode, path string)) {
	if d.Root != nil {
		d.Root.walk("root", visit)
	}
}

func (n *documentNode) walk(path string, visit func(*documentNode, string)) {
	visit(n, path)
	for i, c := range n.Children {
		c.walk(path+"/"+cmp.Or(c.ID, strconv.Itoa(i)), visit)
	}
}

// evidence is what is told of the program.
func (d *programDocument) evidence(run Run) *EvidencePlan {
	p := &EvidencePlan{Program: run.Program, Tools: append([]string{}, d.Tools...), Gates: []string{}, Bounds: Bounds{}, Deliver: d.Deliver}
	kinds := map[string]int{}
	d.walk(func(n *documentNode, path string) {
		kinds[n.Kind]++
		p.Nodes = append(p.Nodes, EvidenceNode{Path: path, Kind: n.Kind, Label: cmp.Or(n.Tool, n.Question, n.Skill, n.Agent)})
		if n.Tool != "" && !slices.Contains(p.Tools, n.Tool) {
			p.Tools = append(p.Tools, n.Tool)
		}
		if n.Question != "" {
			p.Gates = append(p.Gates, n.Question)
		}
	})
	for _, a := range d.Agents {
		p.Stages = append(p.Stages, a.Name)
	}
	var counted []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		counted = append(counted, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	if len(p.Stages) > 0 {
		counted = append(counted, Plural(len(p.Stages), "stage"))
	}
	p.Summary = Joined(": ", run.Title, strings.Join(counted, ", "))
	for name, b := range run.Bounds {
		if b.Limited {
			p.Bounds[name] = b.Limit
		}
	}
	return p
}

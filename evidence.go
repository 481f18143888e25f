package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"math"
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
	return evidence(ctx, r, req, now, present)
}

// EvidenceName is the file of a run's folder that holds its evidence.
const EvidenceName = "evidence.json"

// EvidenceBundle is all that is recorded of a run, without an end to its lists. It follows
// from the records alone.
func EvidenceBundle(ctx context.Context, r RunReader, id ID) (RunEvidence, error) {
	run, err := r.Get(ctx, id)
	if err != nil {
		return RunEvidence{}, err
	}
	return evidence(ctx, r, EvidenceRequest{Run: id, Slice: SliceAll, Limit: math.MaxInt}, run.UpdatedAt, nil)
}

func evidence(ctx context.Context, r RunReader, req EvidenceRequest, now time.Time, present func(path string) bool) (RunEvidence, error) {
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
	if c.delivery.present(present); present != nil { // else it is what the records say
		c.delivery.offer(run.OpenGates)
	}
	return c.report(req, doc), nil
}

// check refuses what cannot be meant: nothing is clamped.
func (r *EvidenceRequest) check() error {
	r.Slice, r.Limit = cmp.Or(r.Slice, SliceAll), cmp.Or(r.Limit, defaultEvidence)
	if r.Slice != SliceAll && !slices.Contains(EvidenceSlices(), r.Slice) {
		return Errorf(InvalidArgument, "unknown slice %q: the slices of the evidence are all, %s", r.Slice, strings.Join(EvidenceSlices(), ", "))
	}
	if r.SeverityMin != "" && severity(r.SeverityMin) < 0 {
		return Errorf(InvalidArgument, "unknown severity %q: it is P0, P1, P2 or P3", r.SeverityMin)
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

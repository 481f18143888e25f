package tipstaff

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
)

// How a drafted plan is accepted.
const (
	AcceptAsk  = "ask"  // by whoever is asked
	AcceptAuto = "auto" // in advance, by whoever asks for it, where the policy lets them
)

// Submission asks a daemon for a run that it drives itself: of exactly one of Program and
// Prose.
type Submission struct {
	// Program is a document: its text, in YAML or JSON, or the document itself.
	Program json.RawMessage            `json:"program,omitempty"`
	Prose   string                     `json:"prose,omitempty"` // what a plan is drafted for
	Skill   string                     `json:"skill,omitempty"` // that it is drafted with; "": the manifest's
	Inputs  map[string]json.RawMessage `json:"inputs,omitempty"`
	Bounds  Bounds                     `json:"bounds,omitempty"` // can only lower those of the program
	Accept  string                     `json:"accept,omitempty"` // of prose: ask or auto; "": ask
	Title   string                     `json:"title,omitempty"`
	Labels  map[string]string          `json:"labels,omitempty"`
	DryRun  bool                       `json:"dry_run,omitempty"` // say what would be run, and make nothing
	Key     string                     `json:"-"`                 // names the request: the same again finds its run
}

// Submitted is a run that a daemon drives, or will when its turn comes.
type Submitted struct {
	Run      ID        `json:"run"`
	State    State     `json:"state"`
	Status   string    `json:"status"`
	Position int       `json:"position"`           // that many starts until its own; 0: it does not wait for one
	Replayed bool      `json:"replayed,omitempty"` // the same request has made it before
	Warnings []Problem `json:"warnings,omitempty"`
}

// Submit makes a run that this process drives.
func (c Control) Submit(ctx context.Context, s Submission) (Submitted, error) {
	start, draft, err := s.requests(ctx)
	if err != nil {
		return Submitted{}, err
	}
	var started Started
	if draft != nil {
		started, err = c.Runs.Draft(ctx, *draft)
	} else {
		started, err = c.Runs.Start(ctx, *start)
	}
	if err != nil {
		return Submitted{}, err
	}
	got, err := c.submitted(ctx, started.Run)
	got.Replayed, got.Warnings = started.Existed, started.Warnings
	return got, err
}

// Check says what Submit would run, and makes nothing.
func (c Control) Check(ctx context.Context, s Submission) (Validated, error) {
	start, draft, err := s.requests(ctx)
	if err != nil {
		return Validated{}, err
	}
	return c.Runs.Validate(ctx, ValidateRequest{Start: start, Draft: draft})
}

// submitted is where a run stands.
func (c Control) submitted(ctx context.Context, id ID) (Submitted, error) {
	run, err := c.Runs.Get(ctx, id)
	got := Submitted{Run: id, State: run.State, Status: run.Status}
	if run.Queued != nil {
		got.Position = run.Queued.Place
	}
	return got, err
}

// requests are what a submission asks the Service for: one of the two.
func (s Submission) requests(ctx context.Context) (*StartRequest, *DraftRequest, error) {
	host := Hosting{Key: s.Key, Labels: s.Labels}
	via := CallerFrom(ctx).Surface
	given := len(s.Program) > 0
	switch {
	case given == (s.Prose != ""):
		return nil, nil, Errorf(InvalidArgument, "give program or prose: one of the two")
	case given && (s.Skill != "" || s.Accept != ""):
		return nil, nil, Errorf(InvalidArgument, "skill and accept are for prose: a program that is handed over is accepted by that")
	case given:
		text, err := documentText(s.Program)
		if err != nil {
			return nil, nil, err
		}
		return &StartRequest{Program: text, Name: "program", Hosting: host, Inputs: s.Inputs, Title: s.Title, Via: via, Bounds: s.Bounds, NoFiles: true}, nil, nil
	}
	present, err := acceptance(s.Accept)
	return nil, &DraftRequest{Prose: s.Prose, Skill: s.Skill, Inputs: s.Inputs, Title: s.Title, Via: via, Hosting: host, Presence: present, Bounds: s.Bounds}, err
}

// acceptance is who accepts what is drafted.
func acceptance(accept string) (Presence, error) {
	switch accept {
	case "", AcceptAsk:
		return Presence{}, nil
	case AcceptAuto:
		return Presence{Accept: true}, nil
	}
	return Presence{}, Errorf(InvalidArgument, "accept is %s: it is ask or auto", Quote(accept, 100))
}

// documentText is the text of a document that stands in JSON, as a string or as itself.
func documentText(given json.RawMessage) ([]byte, error) {
	given = bytes.TrimSpace(given)
	var text string
	switch {
	case bytes.HasPrefix(given, []byte("{")):
		return given, nil
	case json.Unmarshal(given, &text) == nil && strings.TrimSpace(text) != "":
		return []byte(text), nil
	}
	return nil, Errorf(InvalidArgument, "program is neither the text of a document nor a document")
}

// Continuation has a run go on, with a revised program if there is one.
type Continuation struct {
	Run        ID          `json:"-"`
	Correction *Correction `json:"correction,omitempty"` // nil: its program stays
}

// Correction is a revised program, and why.
type Correction struct {
	Program json.RawMessage `json:"program"` // its text, or the document itself
	Reason  string          `json:"reason"`
}

// Continue drives a run on in this process. One that is driven already takes a correction up
// by itself.
func (c Control) Continue(ctx context.Context, req Continuation) (Submitted, error) {
	if req.Correction != nil {
		text, err := documentText(req.Correction.Program)
		if err != nil {
			return Submitted{}, err
		}
		if _, err := c.Runs.Correct(ctx, CorrectRequest{Run: req.Run, Program: text, Name: "program", Reason: req.Correction.Reason}); err != nil {
			return Submitted{}, err
		}
	}
	_, err := c.Runs.Resume(ctx, ResumeRequest{Run: req.Run})
	if err != nil && !(req.Correction != nil && CodeOf(err) == Busy) {
		return Submitted{}, err
	}
	return c.submitted(ctx, req.Run)
}

// Answer decides a gate and, if that is wanted, has the run go on.
type Answer struct {
	DecideRequest
	Resume bool `json:"resume,omitempty"`
}

// Answer stores a decision; the same again gives the same bytes. A run that the decision has
// ended, or that is driven, is not resumed: there is nothing left to do. Where the decision has
// made a follow-up, that is what goes on.
func (c Control) Answer(ctx context.Context, req Answer) (Decided, error) {
	decided, err := c.Runs.Decide(ctx, req.DecideRequest)
	next := decided.Decision.FollowupRunID
	if err != nil || !req.Resume || next.IsZero() && decided.Run.State.Terminal() {
		return decided, err
	}
	if next.IsZero() {
		next = req.Run
	}
	_, err = c.Runs.Resume(ctx, ResumeRequest{Run: next})
	if code := CodeOf(err); code == Busy || code == RunEnded {
		err = nil
	}
	return decided, err
}

// Branching makes a run of the beginning of another, beside it or in its place.
type Branching struct {
	Run ID `json:"-"`
	Place
	Rollback bool    `json:"rollback,omitempty"`  // the new run takes the place of the old one
	Thread   string  `json:"thread_id,omitempty"` // of a fork of a pipeline run; "": none
	Edits    Changes `json:"edits,omitzero"`
}

// Branch makes it. Nothing is driven.
func (c Control) Branch(ctx context.Context, req Branching) (Run, error) {
	if !req.Rollback {
		fork, err := c.Runs.Fork(ctx, ForkRequest{Run: req.Run, Place: req.Place, Thread: req.Thread, Changes: req.Edits})
		return fork.Run, err
	}
	if req.Thread != "" {
		return Run{}, Errorf(InvalidArgument, "thread_id: a rollback stays in its thread")
	}
	return c.Runs.Rollback(ctx, RollbackRequest{Run: req.Run, Place: req.Place, Changes: req.Edits})
}

// RecordsRequest asks for the signed records of a run after a cursor.
type RecordsRequest struct {
	Run   ID
	After int64
	Limit int // from 1 to 1000; 0: 100
}

// Records is a page of signed records, each the bytes that are stored.
type Records struct {
	Items []json.RawMessage `json:"items"`
	Next  int64             `json:"next,omitempty"` // the cursor of the next page; 0: no more
}

// SignedRecords is a page of the envelopes of a run.
func (c Control) SignedRecords(ctx context.Context, req RecordsRequest) (Records, error) {
	got := Records{Items: []json.RawMessage{}}
	limit, err := limitOf(req.Limit, 100, 1000)
	if err != nil {
		return got, err
	}
	last := int64(0)
	for e, err := range c.Runs.Events(ctx, EventsRequest{Run: req.Run, After: req.After}) {
		switch {
		case err != nil:
			return got, err
		case !e.Kind.Envelope():
		case len(got.Items) == limit:
			got.Next = last
			return got, nil
		default:
			got.Items, last = append(got.Items, e.Stored()), e.Seq
		}
	}
	return got, nil
}

// SignedRecord is one envelope of a run, the bytes that are stored.
func (c Control) SignedRecord(ctx context.Context, run ID, seq int64) (json.RawMessage, error) {
	for e, err := range c.Runs.Events(ctx, EventsRequest{Run: run, After: max(seq, 1) - 1, Limit: 1}) {
		if err != nil && CodeOf(err) != CursorBeyondHead {
			return nil, err
		}
		if err == nil && e.Seq == seq && e.Kind.Envelope() {
			return e.Stored(), nil
		}
	}
	return nil, Errorf(ArtifactNotFound, "record %d of run %s is not an envelope", seq, run)
}

// Content is an artifact of a run: by its digest or, of several with one name, the last that
// the evidence lists.
func (c Control) Content(ctx context.Context, run ID, name string) ([]byte, error) {
	if strings.HasPrefix(name, "sha256:") {
		return c.Runs.Artifact(ctx, run, name)
	}
	digest := ""
	for offset := 0; ; offset += mostEvidence {
		found, err := c.Evidence(ctx, EvidenceRequest{Run: run, Slice: SliceArtifacts, Limit: mostEvidence, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, f := range found.Artifacts.Items {
			if f.Name == name {
				digest = f.Digest
			}
		}
		if len(found.Artifacts.Items) < mostEvidence {
			break
		}
	}
	if digest == "" {
		return nil, Errorf(ArtifactNotFound, "run %s has no artifact %s", run, Quote(name, 100)).WithHint("its evidence lists them, in the slice artifacts")
	}
	return c.Runs.Artifact(ctx, run, digest)
}

package tipstaff

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strings"
)

// A resource is a document about runs that clients read, and follow.
const (
	runsURI = "tipstaff://runs"

	// The parts of a run that are documents by themselves.
	ResourceEvidence = "evidence"
	ResourceEvents   = "events"
	ResourceJournal  = "journal"
	ResourceDiff     = "diff"

	mostListed = 50   // runs
	mostLatest = 1000 // records
)

// Resource names a document: the list of runs, a run, or a part of one.
type Resource struct {
	Run  ID     // zero: the list
	Part string // "": the run
}

// ParseResource reads a URI: tipstaff://runs, tipstaff://runs/ID or tipstaff://runs/ID/PART.
func ParseResource(uri string) (Resource, error) {
	unknown := Errorf(InvalidArgument, "there is no resource %s", Quote(uri, 100)).WithHint("there are %s, %s/ID and %s/ID/PART, with the part evidence, events, journal or diff", runsURI, runsURI, runsURI)
	rest, ok := strings.CutPrefix(uri, runsURI)
	if !ok || rest != "" && rest[0] != '/' {
		return Resource{}, unknown
	}
	if rest == "" {
		return Resource{}, nil
	}
	id, part, more := strings.Cut(rest[1:], "/")
	run, err := ParseID(id)
	if err != nil {
		return Resource{}, err
	}
	switch part {
	case ResourceEvidence, ResourceEvents, ResourceJournal, ResourceDiff:
	default:
		if more {
			return Resource{}, unknown
		}
	}
	return Resource{Run: run, Part: part}, nil
}

// Read is the text of a document.
func (c Control) Read(ctx context.Context, r Resource) ([]byte, error) {
	if r.Run.IsZero() {
		return jsonText(c.History(ctx, HistoryRequest{Limit: mostListed}))
	}
	switch r.Part {
	case ResourceEvidence:
		return jsonText(c.Evidence(ctx, EvidenceRequest{Run: r.Run, Limit: mostEvidence}))
	case ResourceEvents:
		return c.latest(ctx, r.Run)
	case ResourceJournal:
		return c.lines(ctx, EventsRequest{Run: r.Run}, func(e *Event) any {
			if !e.Kind.Envelope() {
				return nil
			}
			return json.RawMessage(e.Raw)
		})
	case ResourceDiff:
		d, err := c.Diff(ctx, DiffRequest{Run: r.Run, Mode: DiffFull, Max: largestDiffMax})
		if err == nil && d.Text == "" { // clients reject a document without any text
			d.Text = "No change of run " + r.Run.String() + " is recorded.\n"
		}
		return []byte(d.Text), err
	}
	return jsonText(c.Status(ctx, StatusRequest{Run: r.Run}))
}

func jsonText[T any](v T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// latest are the last records of a run, one a line.
func (c Control) latest(ctx context.Context, run ID) ([]byte, error) {
	now, err := c.Runs.Get(ctx, run)
	if err != nil {
		return nil, err
	}
	return c.lines(ctx, EventsRequest{Run: run, After: max(0, now.HeadSeq-mostLatest)}, func(e *Event) any {
		return TailEvent{Seq: e.Seq, At: e.At, Kind: e.Kind, Path: e.Path, Body: e.Body}
	})
}

// lines are records as JSON, one a line; those for which shown is nil are left out.
func (c Control) lines(ctx context.Context, req EventsRequest, shown func(*Event) any) ([]byte, error) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	for e, err := range c.Runs.Events(ctx, req) {
		if err != nil {
			return nil, err
		}
		if v := shown(&e); v != nil {
			if err := to.Encode(v); err != nil {
				return nil, err
			}
		}
	}
	return text.Bytes(), nil
}

// Changes yields once when it has begun to look, and then whenever a document has changed,
// until ctx ends or it cannot change any more. Nothing is read but what was written since.
func (c Control) Changes(ctx context.Context, r Resource) iter.Seq[error] {
	return func(yield func(error) bool) {
		if r.Run.IsZero() {
			c.listChanges(ctx, yield)
			return
		}
		run, err := c.Runs.Get(ctx, r.Run)
		if !yield(err) || err != nil {
			return
		}
		for e, err := range c.Runs.Events(ctx, EventsRequest{Run: r.Run, After: run.HeadSeq, Follow: true, Stay: true}) {
			if err == nil && (e.Seq == 0 || r.Part == ResourceDiff && e.Kind != KindDiffRecorded || r.Part == ResourceJournal && !e.Kind.Envelope()) {
				continue
			}
			if !yield(err) || err != nil {
				return
			}
		}
	}
}

// listChanges yields whenever a run has come, or stands elsewhere.
func (c Control) listChanges(ctx context.Context, yield func(error) bool) {
	var (
		changed <-chan struct{}
		stop    = func() {}
	)
	if c.Follow != nil {
		changed, stop = c.Follow()
	}
	defer stop()
	_, err := c.Runs.List(ctx, ListRequest{Limit: 1}) // whoever may not read it is not told of it either
	for yield(err) && err == nil {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

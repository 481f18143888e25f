package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Get is one run with its gates and bounds.
func (r *Runner) Get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {
	id, err := r.guard(run)
	if err != nil {
		return tipstaff.Run{}, err
	}
	row, err := r.Store.Run(ctx, id)
	if err != nil {
		return tipstaff.Run{}, explain(err, run)
	}
	got, err := r.status(ctx, row)
	if err != nil {
		return tipstaff.Run{}, explain(err, run)
	}
	r.documents(ctx, &got)
	return got, nil
}

// status derives what surfaces show from the row, the fold kept in it and the
// records since.
func (r *Runner) status(ctx context.Context, row flow.Row) (tipstaff.Run, error) {
	fold, head, err := r.foldAt(ctx, row)
	if err != nil {
		return tipstaff.Run{}, err
	}
	gates, err := r.openGates(ctx, row.ID, fold)
	if err != nil {
		return tipstaff.Run{}, err
	}
	name := r.programName(ctx, cmp.Or(fold.Program.Digest, row.Program))
	facts := tipstaff.Facts{ID: idOf(row.ID), Name: name, State: tipstaff.State(row.State), Head: head, Owner: r.owner(row), Queued: r.queue.has(row.ID)}
	facts.Launching = row.Epoch == 0 && !facts.Queued && r.driving(row.ID) // it takes the lease in a moment
	return tipstaff.Status(facts, fold, gates, r.Now()), nil
}

// foldAt is the fold of all that a run has recorded, and the hash of its last record:
// what is kept in the row, and the records since.
func (r *Runner) foldAt(ctx context.Context, row flow.Row) (fold *tipstaff.Fold, head string, err error) {
	fold, head = new(tipstaff.Fold), row.HeadHash
	if len(row.Fold) > 0 && json.Unmarshal(row.Fold, fold) != nil {
		*fold = tipstaff.Fold{}
	}
	if fold.Seq == row.Head {
		return fold, head, nil
	}
	err = eachRecord(ctx, r.Store, row.ID, fold.Seq, func(s flow.Stored) error {
		e, err := tipstaff.ParseEvent(s.Bytes)
		if err != nil {
			return err
		}
		fold.Apply(&e)
		head = journal.Hash(s.Hash).String()
		return nil
	})
	return fold, head, err
}

// openGates are those of a run. The fold counts as open all that are, and besides
// those that the end of the run has closed.
func (r *Runner) openGates(ctx context.Context, run string, fold *tipstaff.Fold) ([]tipstaff.Gate, error) {
	if len(fold.Gates) == 0 {
		return []tipstaff.Gate{}, nil
	}
	rows, err := r.Store.Gates(ctx, flow.GateQuery{Run: run, Open: true})
	gates := make([]tipstaff.Gate, len(rows))
	for i, g := range rows {
		gates[i] = gateOf(g)
		shown := tipstaff.Subject(gates[i])
		gates[i].Shown = &shown
	}
	return gates, err
}

func (r *Runner) owner(row flow.Row) *tipstaff.Owner {
	if row.Owner == nil {
		return nil
	}
	return &tipstaff.Owner{Kind: row.Owner.Kind, Pid: row.Owner.Pid, HeartbeatAt: row.Heartbeat, Alive: r.alive(row)}
}

func (r *Runner) alive(row flow.Row) bool {
	return row.Owner != nil && r.Alive(*row.Owner, row.Heartbeat, r.Now())
}

// programName is the name of a program. What cannot be read has none.
func (r *Runner) programName(ctx context.Context, digest string) string {
	src, err := r.Store.Blob(ctx, digest)
	if err != nil {
		return ""
	}
	var program struct{ Name string }
	_ = json.Unmarshal(src, &program) // a plan need not have a name
	return program.Name
}

// documents adds what is not in the fold: inputs, and the outputs of a run that
// completed.
func (r *Runner) documents(ctx context.Context, run *tipstaff.Run) {
	if first, err := r.Store.Records(ctx, run.ID.String(), 0, 1); err == nil && len(first) == 1 {
		if e, err := tipstaff.ParseEvent(first[0].Bytes); err == nil {
			var b draftBody
			if json.Unmarshal(e.Body, &b) == nil {
				if raw, err := attached(ctx, r.Store, b.Inputs); err == nil {
					_ = json.Unmarshal(raw, &run.Inputs)
				}
			}
		}
	}
	if run.State != tipstaff.Completed {
		return
	}
	last, err := r.Store.Records(ctx, run.ID.String(), run.HeadSeq-1, 1)
	if err != nil || len(last) == 0 {
		return
	}
	var b struct {
		Body struct {
			OutputsDigest string `json:"outputs_digest"`
		}
	}
	if json.Unmarshal(last[0].Bytes, &b) == nil && b.Body.OutputsDigest != "" {
		if out, err := r.Store.Blob(ctx, b.Body.OutputsDigest); err == nil {
			run.Outputs = out
		}
	}
}

// gateOf is a stored gate in the words of surfaces.
func gateOf(row flow.GateRow) tipstaff.Gate {
	kind := tipstaff.KindPolicyGate
	var b tipstaff.GateOpened
	if _ = json.Unmarshal(row.Body, &b); b.Kind == "" { // it asks before there is a program
		kind = tipstaff.KindIntentClarify
	}
	g, _ := tipstaff.OpenedGate(kind, row.Key, row.Opened, row.OpenedAt, row.Body) // the store has read it before
	return g
}

// List is a page of runs, newest first.
func (r *Runner) List(ctx context.Context, req tipstaff.ListRequest) (tipstaff.RunPage, error) {
	limit := req.Limit
	if limit <= 0 {
		limit = 50
	}
	q := flow.Query{Limit: limit, Prefix: req.Prefix, User: visibleTo(ctx), Envelope: req.Envelope, Thread: req.Thread, Request: req.Request}
	if req.Thread != "" || req.Request != "" { // whose keys are a user's own
		q.User = userOf(ctx)
	}
	if !req.Before.IsZero() {
		row, err := r.Store.Run(ctx, req.Before.String())
		if err != nil {
			return tipstaff.RunPage{}, explain(err, req.Before)
		}
		q.Before = row.N
	}
	page := tipstaff.RunPage{Runs: []tipstaff.Run{}}
	for {
		rows, err := r.Store.Runs(ctx, q)
		if err != nil {
			return page, explain(err, tipstaff.ID{})
		}
		for _, row := range rows {
			q.Before = row.N
			run, err := r.status(ctx, row)
			if err != nil {
				return page, explain(err, idOf(row.ID))
			}
			if len(req.Status) > 0 && !slices.Contains(req.Status, run.Status) {
				continue
			}
			page.Runs = append(page.Runs, run)
			if len(page.Runs) == limit {
				page.Next = run.ID
				return page, nil
			}
		}
		if len(rows) < q.Limit {
			return page, r.countStrays(ctx, &page)
		}
	}
}

// countStrays looks for the files of runs if the store holds none.
func (r *Runner) countStrays(ctx context.Context, page *tipstaff.RunPage) error {
	if len(page.Runs) > 0 || r.Files == "" {
		return nil
	}
	if rows, err := r.Store.Runs(ctx, flow.Query{Limit: 1}); err != nil || len(rows) > 0 {
		return explain(err, tipstaff.ID{})
	}
	entries, err := os.ReadDir(r.Files)
	for _, e := range entries {
		if _, err := tipstaff.ParseID(e.Name()); err == nil && e.IsDir() {
			page.Strays++
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(err, tipstaff.ID{})
	}
	return nil
}

// Artifact is a stored document or payload by its digest, or what the state of a
// pipeline is or was.
func (r *Runner) Artifact(ctx context.Context, run tipstaff.ID, name string) ([]byte, error) {
	if _, err := r.guard(run); err != nil {
		return nil, err
	}
	data, err := r.artifact(ctx, run, name)
	return data, explain(err, run)
}

func (r *Runner) artifact(ctx context.Context, run tipstaff.ID, name string) ([]byte, error) {
	checkpoint, past := strings.CutPrefix(name, tipstaff.EnvelopeAt(""))
	format, drawn := strings.CutPrefix(name, tipstaff.GraphArtifact(""))
	switch {
	case name == tipstaff.EnvelopeArtifact:
		return r.envelope(ctx, run)
	case past:
		return r.envelopeAt(ctx, run, checkpoint)
	case drawn:
		return r.graph(ctx, run, format)
	}
	if _, err := journal.ParseHash(name); err != nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a digest", name)
	}
	return r.Store.Blob(ctx, name)
}

// Events yields records after a cursor.
func (r *Runner) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		if err := r.follow(ctx, req, yield); err != nil && err != errEnough {
			yield(tipstaff.Event{}, explain(err, req.Run))
		}
	}
}

var errEnough = tipstaff.Errorf(tipstaff.Internal, "the reader has enough")

func (r *Runner) follow(ctx context.Context, req tipstaff.EventsRequest, yield func(tipstaff.Event, error) bool) error {
	run, err := r.guard(req.Run)
	if err != nil {
		return err
	}
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return err
	}
	if req.After > row.Head {
		return tipstaff.Errorf(tipstaff.CursorBeyondHead, "run %s has %d records: there is none after %d", run, row.Head, req.After)
	}
	// The signal is there before the store is read, so nothing falls between.
	changed, stop := r.Store.Follow(run)
	defer stop()
	live := &subscription{} // to nothing, unless it is followed
	if req.Follow {
		var unsubscribe func()
		live.told, unsubscribe = r.live.subscribe(run)
		defer unsubscribe()
	}
	after, left := req.After, req.Limit
	give := func(s flow.Stored) error {
		e, err := tipstaff.ParseEvent(s.Bytes)
		if err != nil {
			return err
		}
		// What a call told was told before its end was written: it is here by now.
		if endsCalls(e.Kind) && !live.ended(e.Path, yield) {
			return errEnough
		}
		after = s.Seq
		if !yield(e, nil) {
			return errEnough
		}
		if left--; left == 0 {
			return errEnough
		}
		return nil
	}
	for {
		over, rested := !req.Follow, r.rested(run)
		if !over {
			// Asked before reading: whatever was written until then is still read.
			if over, err = r.quiet(ctx, run); err != nil {
				return err
			}
		}
		live.reading()
		if err := eachRecord(ctx, r.Store, run, after, give); err != nil || over {
			return err
		}
		if !live.read(yield) {
			return errEnough
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-live.told: // what it belongs to was written before, and is read first
			live.queue = append(live.queue, queuedEvent{Event: e})
		case <-changed:
		case <-rested:
		case <-time.After(time.Second):
		}
	}
}

// rested is closed when the drive of a run in this process is over; nil: there is none.
func (r *Runner) rested(run string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.drives[run]; a != nil {
		return a.done
	}
	return nil
}

// quiet reports that nothing more will happen by itself: the run has ended, or
// nobody drives it.
func (r *Runner) quiet(ctx context.Context, run string) (bool, error) {
	if r.driving(run) {
		return false, nil
	}
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return false, err
	}
	return tipstaff.State(row.State).Terminal() || !r.alive(row), nil
}

// parse reads a stored record with its payloads attached.
func parse(ctx context.Context, src source, s flow.Stored) (tipstaff.Event, error) {
	e, err := tipstaff.ParseEvent(s.Bytes)
	if err != nil {
		return e, err
	}
	return e, attach(ctx, src, &e)
}

// attach puts the payloads into a record that names them by digest.
func attach(ctx context.Context, src source, e *tipstaff.Event) error {
	body, err := journal.Attach(string(e.Kind), e.Note, e.Body, func(h journal.Hash) ([]byte, error) { return src.Blob(ctx, h.String()) })
	if err == nil {
		e.Body = body
	}
	return err
}

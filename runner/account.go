package runner

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
)

// evidence is what a terminal envelope says about the run it ends. It follows
// from the program and the records before it, so verify computes it again.
type evidence struct {
	ProgramDigest string         `json:"program_digest"`
	Revision      int            `json:"revision"`
	Counts        map[string]int `json:"counts"`
	Skipped       []string       `json:"skipped"`
	Continued     []string       `json:"continued"`
	InDoubt       []string       `json:"in_doubt"`
	Tools         []toolUse      `json:"tools"`
	Bounds        boundsUse      `json:"bounds"`
	Lifecycle     string         `json:"lifecycle"`
}

type toolUse struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Calls  int    `json:"calls"`
}

type boundsUse struct {
	Used  tipstaff.Bounds `json:"used"`
	Limit tipstaff.Bounds `json:"limit"`
}

// account gathers evidence record by record.
type account struct {
	steps  map[string]string // status by node
	uris   map[string]string // of calls, by path
	calls  map[string]int    // attempts, by URI
	open   map[string]bool   // paths of once calls without an outcome
	events []tipstaff.Event  // envelopes, for the lifecycle
	cancel *cancelBody
}

func newAccount() *account {
	return &account{steps: map[string]string{}, uris: map[string]string{}, calls: map[string]int{}, open: map[string]bool{}}
}

func (a *account) add(e *tipstaff.Event) {
	switch e.Kind {
	case tipstaff.KindPlanStep:
		var b plan.StepBody
		if json.Unmarshal(e.Body, &b) == nil && b.Status != plan.StatusStarted {
			a.steps[b.Node] = b.Status
		}
	case tipstaff.KindEffectIntended:
		a.intended(e)
	case tipstaff.KindEffectFinished:
		delete(a.open, e.Path)
	case tipstaff.KindRunCancelRequested:
		a.cancel = new(cancelBody)
		_ = json.Unmarshal(e.Body, a.cancel)
	default:
		if e.Kind.Envelope() && !e.Kind.Terminal() {
			slim := *e
			slim.Raw = nil
			a.events = append(a.events, slim)
		}
	}
}

func (a *account) intended(e *tipstaff.Event) {
	var b struct {
		Name  string     `json:"name"`
		Class flow.Class `json:"class"`
		Input tool.Input `json:"input"`
	}
	if json.Unmarshal(e.Body, &b) != nil {
		return
	}
	if b.Class == flow.Once {
		a.open[e.Path] = true
	}
	if b.Name == tool.ActivityName {
		if b.Input.URI != "" {
			a.uris[e.Path] = b.Input.URI
		}
		a.calls[a.uris[e.Path]]++
	}
}

// evidence closes the account. end is the envelope that ends the run.
func (a *account) evidence(p *program, used, limit flow.Use, end tipstaff.Kind) evidence {
	ev := evidence{ProgramDigest: p.draft.ProgramDigest, Revision: 1, Counts: map[string]int{}, Skipped: []string{}, Continued: []string{},
		InDoubt: []string{}, Tools: []toolUse{}, Bounds: boundsUse{tipstaff.Bounds(used), tipstaff.Bounds(limit)}}
	for leaf := range p.doc.Root.Leaves {
		status, ended := a.steps[leaf.ID]
		switch {
		case !ended:
			ev.Skipped = append(ev.Skipped, leaf.ID)
		case status == plan.StatusFailed && leaf.Continue:
			ev.Continued = append(ev.Continued, leaf.ID)
		}
		if ended {
			ev.Counts[status]++
		}
	}
	ev.InDoubt = append(ev.InDoubt, slices.Sorted(maps.Keys(a.open))...)
	for _, uri := range slices.Sorted(maps.Keys(a.calls)) {
		use := toolUse{URI: uri, Calls: a.calls[uri]}
		if d, err := p.gate.Tools.Lookup(uri); err == nil {
			use.Digest = d.Digest
		}
		ev.Tools = append(ev.Tools, use)
	}
	ev.Lifecycle = tipstaff.Lifecycle(append(slices.Clone(a.events), tipstaff.Event{Kind: end, Run: idOf(p.run)}))
	return ev
}

func idOf(run string) tipstaff.ID {
	id, _ := tipstaff.ParseID(run)
	return id
}

// accountOf reads the records of a run up to its head, page by page, and of a
// fork what it inherits before them.
func accountOf(ctx context.Context, src source, run string) (*account, int64, error) {
	a := newAccount()
	head := int64(0)
	err := eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		e, err := parse(ctx, src, s)
		if err != nil {
			return err
		}
		if head == 0 {
			if err := a.inherit(ctx, src, &e); err != nil {
				return err
			}
		}
		a.add(&e)
		head = s.Seq
		return nil
	})
	return a, head, err
}

// inherit takes over what a fork's source had done, given the fork's draft.
func (a *account) inherit(ctx context.Context, src source, first *tipstaff.Event) error {
	var draft draftBody
	if json.Unmarshal(first.Body, &draft) != nil || draft.ForkOf == nil {
		return nil
	}
	h, err := segmentOf(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq)
	if err != nil {
		return err
	}
	for _, r := range append(h.Base, h.Records...) {
		if flow.Owned(r.Kind, r.N) {
			a.add(&tipstaff.Event{Kind: tipstaff.Kind(r.Kind), Path: r.Path, N: r.N, Body: r.Body})
		}
	}
	return nil
}

// pageSize is how many records are held at once while reading a whole run.
const pageSize = 1000

// eachRecord gives f the records after a cursor, page by page. While f looks at
// one page the next is read.
func eachRecord(ctx context.Context, src source, run string, after int64, f func(flow.Stored) error) error {
	type page struct {
		records []flow.Stored
		err     error
	}
	read := func(after int64) <-chan page {
		next := make(chan page, 1)
		go func() {
			records, err := src.Records(ctx, run, after, pageSize)
			next <- page{records, err}
		}()
		return next
	}
	for next := read(after); ; {
		p := <-next
		if p.err != nil {
			return p.err
		}
		if len(p.records) == pageSize {
			next = read(p.records[pageSize-1].Seq)
		}
		for _, s := range p.records {
			if err := f(s); err != nil {
				return err
			}
		}
		if len(p.records) < pageSize {
			return nil
		}
	}
}

// cancelRequest is the stored request that a cancelled run answers to.
func (a *account) cancelRequest() cancelBody {
	if a.cancel == nil {
		return cancelBody{Actor: "system:cancel"}
	}
	return *a.cancel
}

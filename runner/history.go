package runner

import (
	"context"
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// pageSize is how many records are asked for at once while a whole run is read.
const pageSize = 1000

// eachRecord gives f the records after a cursor, page by page.
func eachRecord(ctx context.Context, src source, run string, after int64, f func(flow.Stored) error) error {
	for {
		records, err := src.Records(ctx, run, after, pageSize)
		if err != nil {
			return err
		}
		for i := range records {
			if err := f(records[i]); err != nil {
				return err
			}
		}
		if len(records) < pageSize {
			return nil
		}
		after = records[len(records)-1].Seq
	}
}

// eachEvent is eachRecord up to record upTo (0: the head), for whoever needs them parsed.
func eachEvent(ctx context.Context, src source, run string, upTo int64, f func(*tipstaff.Event) error) error {
	err := eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		if upTo > 0 && s.Seq > upTo {
			return errEnough
		}
		e, err := tipstaff.ParseEvent(s.Bytes)
		if err != nil {
			return err
		}
		return f(&e)
	})
	if err == errEnough {
		return nil
	}
	return err
}

// trace is all that is recorded of a run, for replaying and judging it.
type trace struct {
	base    []flow.Record // of a fork: what it inherits
	records []flow.Record
	events  []tipstaff.Event // the same, as surfaces know them
	blob    func(string) ([]byte, error)
	holds   bool // as in a flow.Job
}

// readTrace reads a run up to record upTo (0: its head), and of a fork the part
// of its source that it inherits.
func readTrace(ctx context.Context, src source, run string, upTo int64) (*trace, error) {
	t := &trace{}
	if err := eachEvent(ctx, src, run, upTo, t.add); err != nil {
		return nil, err
	}
	return t, t.complete(ctx, src)
}

func (t *trace) add(e *tipstaff.Event) error {
	t.events = append(t.events, *e)
	t.records = append(t.records, flow.Record{Seq: e.Seq, Epoch: e.Epoch, At: e.At,
		Draft: flow.Draft{Kind: string(e.Kind), Path: e.Path, N: e.N, Note: e.Note, Body: e.Body, From: e.From}})
	return nil
}

// complete adds what does not stand in the run's own records.
func (t *trace) complete(ctx context.Context, src source) error {
	if len(t.events) == 0 {
		return flow.ErrNoRun
	}
	t.blob = func(digest string) ([]byte, error) { return src.Blob(ctx, digest) }
	var draft draftBody
	if json.Unmarshal(t.events[0].Body, &draft) != nil {
		return nil
	}
	if t.holds = draft.Holds(); draft.ForkOf != nil {
		base, err := readTrace(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq)
		if err != nil {
			return err
		}
		last := base.last()
		t.base = append(last.Base, last.Records...)
	}
	return nil
}

// ownedEvents are the records that a program has asked for, as far as the engine knows
// them.
func ownedEvents(records []flow.Record) (events []tipstaff.Event) {
	for _, r := range records {
		if flow.Owned(r.Kind, r.N) {
			events = append(events, tipstaff.Event{Seq: r.Seq, Epoch: r.Epoch, At: r.At, Kind: tipstaff.Kind(r.Kind), Path: r.Path, N: r.N, Note: r.Note, Body: r.Body, From: r.From})
		}
	}
	return events
}

// segments are the histories that drives of this run saw, one after the other. One
// that no correction has cut went on by itself: it is complete, and for it a cancel
// came too late.
func (t *trace) segments() []flow.History {
	var all []flow.History
	h := flow.History{Base: t.base, Blob: t.blob, Holds: t.holds}
	var cancel []flow.Record // still holds in the next segment
	corrected := false
	for _, r := range t.records {
		switch tipstaff.Kind(r.Kind) {
		case tipstaff.KindRunCancelRequested:
			cancel = []flow.Record{r}
		case tipstaff.KindRunCorrectionRequested:
			corrected = true
		case tipstaff.KindRunContinued:
			if !corrected {
				h.Ended = flow.Completed
			}
			all, corrected = append(all, h), false
			h = flow.History{Segment: len(all), Blob: t.blob, Holds: t.holds, Records: append([]flow.Record{r}, cancel...)}
			continue
		}
		h.Records = append(h.Records, r)
	}
	h.Ended = t.ended()
	return append(all, h)
}

// whole is the history of the run with all its segments.
func (t *trace) whole() flow.History {
	return flow.History{Base: t.base, Records: t.records, Blob: t.blob, Holds: t.holds}
}

func (t *trace) last() flow.History {
	all := t.segments()
	return all[len(all)-1]
}

func (t *trace) ended() flow.Status {
	switch t.events[len(t.events)-1].Kind {
	case tipstaff.KindIntentAttest:
		return flow.Completed
	case tipstaff.KindIntentFail:
		return flow.Failed
	case tipstaff.KindIntentCancel:
		return flow.Cancelled
	}
	return ""
}

// segmentOf is the history of a run as it stood after record at.
func segmentOf(ctx context.Context, src source, run string, at int64) (flow.History, error) {
	t, err := readTrace(ctx, src, run, at)
	if err != nil {
		return flow.History{}, err
	}
	return t.last(), nil
}

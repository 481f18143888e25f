package runner

import (
	"context"
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// trace is all that is recorded of a run, for replaying and judging it.
type trace struct {
	base    []flow.Record // of a fork: what it inherits
	records []flow.Record
	events  []tipstaff.Event // the same, as surfaces know them
	blob    func(string) ([]byte, error)
}

// readTrace reads a run up to record upTo (0: its head), and of a fork the part
// of its source that it inherits.
func readTrace(ctx context.Context, src source, run string, upTo int64) (*trace, error) {
	t := &trace{blob: func(digest string) ([]byte, error) { return src.Blob(ctx, digest) }}
	err := eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		if upTo > 0 && s.Seq > upTo {
			return nil
		}
		e, err := tipstaff.ParseEvent(s.Bytes)
		if err != nil {
			return err
		}
		t.events = append(t.events, e)
		t.records = append(t.records, recordOf(&e))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.events) == 0 {
		return nil, flow.ErrNoRun
	}
	var draft draftBody
	if json.Unmarshal(t.events[0].Body, &draft) == nil && draft.ForkOf != nil {
		base, err := readTrace(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq)
		if err != nil {
			return nil, err
		}
		last := base.last()
		t.base = append(last.Base, last.Records...)
	}
	return t, nil
}

func recordOf(e *tipstaff.Event) flow.Record {
	return flow.Record{Seq: e.Seq, Epoch: e.Epoch, At: e.At,
		Draft: flow.Draft{Kind: string(e.Kind), Path: e.Path, N: e.N, Note: e.Note, Body: e.Body, From: e.From}}
}

// segments are the histories that drives of this run saw, one after the other.
func (t *trace) segments() []flow.History {
	var all []flow.History
	h := flow.History{Base: t.base, Blob: t.blob}
	var cancel []flow.Record // still holds in the next segment
	for _, r := range t.records {
		switch tipstaff.Kind(r.Kind) {
		case tipstaff.KindRunCancelRequested:
			cancel = []flow.Record{r}
		case tipstaff.KindRunContinued:
			all = append(all, h)
			h = flow.History{Segment: len(all), Blob: t.blob, Records: append([]flow.Record{r}, cancel...)}
			continue
		}
		h.Records = append(h.Records, r)
	}
	h.Ended = t.ended()
	return append(all, h)
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

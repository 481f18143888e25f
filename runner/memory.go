package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Recollection is what a store remembers from run to run. Events and ends of
// runs it takes from the drafts themselves, in their transactions.
type Recollection interface {
	MemoryItems(context.Context, tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error)
	MemoryItem(context.Context, cortex.URI) (tipstaff.MemoryItem, bool, error)
	// Recollect are all items that can be among the best for a request.
	Recollect(context.Context, tipstaff.RecallRequest) ([]tipstaff.MemoryItem, error)
	MemoryWeights(context.Context) (cortex.Weights, error)
	MemoryLog(ctx context.Context, after int64, limit int) ([]flow.Stored, error)
	Remember(ctx context.Context, typ string, b cortex.Remember) (cortex.URI, error)
	Forget(ctx context.Context, u cortex.URI, by string) (bool, error)
	RebuildMemory(ctx context.Context, check bool) (tipstaff.MemoryReport, error)
}

// Memory is the memory of a runner's workspace.
type Memory struct{ *Runner }

var _ tipstaff.Memory = Memory{}

func (m Memory) store() Recollection { return m.Runner.Memory }

// Items implements [tipstaff.Memory].
func (m Memory) Items(ctx context.Context, q tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error) {
	if err := checkType(q.Type); q.Type != "" && err != nil {
		return nil, err
	}
	items, err := m.store().MemoryItems(ctx, q)
	if err != nil || !q.Scored {
		return items, explain(err, tipstaff.ID{})
	}
	w, err := m.store().MemoryWeights(ctx)
	for i := range items {
		w.Rate(&items[i], m.Now())
	}
	return items, explain(err, tipstaff.ID{})
}

func checkType(typ string) error {
	if slices.Contains(tipstaff.MemoryTypes(), typ) {
		return nil
	}
	return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a type of item", typ).WithHint("the types are %s", strings.Join(tipstaff.MemoryTypes(), ", "))
}

// Item implements [tipstaff.Memory].
func (m Memory) Item(ctx context.Context, item string) (tipstaff.MemoryItem, error) {
	u, err := cortex.ParseURI(item)
	if err != nil {
		return tipstaff.MemoryItem{}, err
	}
	found, ok, err := m.store().MemoryItem(ctx, u)
	if err != nil {
		return tipstaff.MemoryItem{}, explain(err, tipstaff.ID{})
	}
	if !ok {
		return tipstaff.MemoryItem{}, noSuchItem(u)
	}
	w, err := m.store().MemoryWeights(ctx)
	w.Rate(&found, m.Now())
	return found, explain(err, tipstaff.ID{})
}

func noSuchItem(u cortex.URI) error {
	return tipstaff.Errorf(tipstaff.ArtifactNotFound, "nothing is remembered as %s", u).WithCommand("`tipstaff memory list` shows what is")
}

// Recall implements [tipstaff.Memory].
func (m Memory) Recall(ctx context.Context, req tipstaff.RecallRequest) ([]tipstaff.MemoryItem, error) {
	items, err := m.store().Recollect(ctx, req)
	if err != nil {
		return nil, explain(err, tipstaff.ID{})
	}
	w, err := m.store().MemoryWeights(ctx)
	return w.Recall(items, req, m.Now()), explain(err, tipstaff.ID{})
}

// Weights implements [tipstaff.Memory].
func (m Memory) Weights(ctx context.Context) (tipstaff.MemoryWeights, error) {
	w, err := m.store().MemoryWeights(ctx)
	return w.Named(), explain(err, tipstaff.ID{})
}

// Log implements [tipstaff.Memory].
func (m Memory) Log(ctx context.Context, after int64) iter.Seq2[tipstaff.MemoryRecord, error] {
	return func(yield func(tipstaff.MemoryRecord, error) bool) {
		for {
			page, err := m.store().MemoryLog(ctx, after, pageSize)
			if err != nil {
				yield(tipstaff.MemoryRecord{}, explain(err, tipstaff.ID{}))
				return
			}
			for _, s := range page {
				r, err := cortex.ParseRecord(s.Bytes)
				if err != nil {
					err = &tipstaff.Error{Code: tipstaff.StoreUnavailable, Err: err,
						Message: fmt.Sprintf("record %d of the memory cannot be read: %v", s.Seq, err), Command: "`tipstaff verify --memory` tells what is wrong with it"}
					if !yield(tipstaff.MemoryRecord{}, err) {
						return
					}
				} else if !yield(told(&r, s.Bytes), nil) {
					return
				}
				after = s.Seq
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// told is a record of the log for those who read it.
func told(r *cortex.Record, raw []byte) tipstaff.MemoryRecord {
	t := tipstaff.MemoryRecord{Seq: r.Seq, Kind: r.Kind(), At: r.At, Run: idOf(r.Run), Text: r.String(), Raw: raw}
	if learned, ok := r.Body.(*cortex.LearnWeights); ok {
		w := learned.New.Named()
		t.Weights = &w
	}
	return t
}

// Remember implements [tipstaff.Memory].
func (m Memory) Remember(ctx context.Context, req tipstaff.RememberRequest) (tipstaff.MemoryItem, error) {
	switch err := checkType(req.Type); {
	case err != nil:
		return tipstaff.MemoryItem{}, err
	case req.Type == cortex.TypeEvent:
		return tipstaff.MemoryItem{}, tipstaff.Errorf(tipstaff.InvalidArgument, "events are what happened in runs: nobody else can add one").
			WithHint("remember a fact, or another of %s", strings.Join(tipstaff.MemoryTypes(), ", "))
	case strings.TrimSpace(req.Text) == "":
		return tipstaff.MemoryItem{}, tipstaff.Errorf(tipstaff.InvalidArgument, "there is nothing to remember: the text is empty")
	case len(req.Text) > cortex.MaxText:
		return tipstaff.MemoryItem{}, tipstaff.Errorf(tipstaff.InvalidArgument, "the text has %d bytes: at most %d are remembered", len(req.Text), cortex.MaxText)
	case req.Importance < 0 || req.Importance > cortex.MaxImportance:
		return tipstaff.MemoryItem{}, tipstaff.Errorf(tipstaff.InvalidArgument, "the importance goes from 0 to %d", cortex.MaxImportance)
	}
	u, err := m.store().Remember(ctx, req.Type, cortex.Remember{By: actor(ctx), Importance: req.Importance, Pinned: req.Pinned,
		Text: strings.ToValidUTF8(req.Text, "\ufffd"), Skill: req.Skill, Verb: req.Verb, Server: req.Server})
	if err != nil {
		return tipstaff.MemoryItem{}, explain(err, tipstaff.ID{})
	}
	return m.Item(ctx, u.String())
}

// Forget implements [tipstaff.Memory].
func (m Memory) Forget(ctx context.Context, item string) (tipstaff.MemoryItem, error) {
	u, err := cortex.ParseURI(item)
	if err != nil {
		return tipstaff.MemoryItem{}, err
	}
	ok, err := m.store().Forget(ctx, u, actor(ctx))
	if err != nil {
		return tipstaff.MemoryItem{}, explain(err, tipstaff.ID{})
	}
	if !ok {
		return tipstaff.MemoryItem{}, noSuchItem(u)
	}
	return m.Item(ctx, item)
}

// Rebuild implements [tipstaff.Memory].
func (m Memory) Rebuild(ctx context.Context, check bool) (tipstaff.MemoryReport, error) {
	report, err := m.store().RebuildMemory(ctx, check)
	return report, explain(err, tipstaff.ID{})
}

// blank is the memory of a workspace in which nothing was ever run.
type blank struct{}

func (blank) MemoryItems(context.Context, tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error) {
	return nil, nil
}

func (blank) MemoryItem(context.Context, cortex.URI) (m tipstaff.MemoryItem, ok bool, err error) {
	return m, false, nil
}

func (blank) Recollect(context.Context, tipstaff.RecallRequest) ([]tipstaff.MemoryItem, error) {
	return nil, nil
}

func (blank) MemoryWeights(context.Context) (cortex.Weights, error) { return cortex.Cold, nil }

func (blank) MemoryLog(context.Context, int64, int) ([]flow.Stored, error) { return nil, nil }

func (blank) Remember(context.Context, string, cortex.Remember) (cortex.URI, error) {
	return cortex.URI{}, flow.ErrReadOnly
}

func (blank) Forget(context.Context, cortex.URI, string) (bool, error) { return false, nil }

func (blank) RebuildMemory(context.Context, bool) (tipstaff.MemoryReport, error) {
	none := tipstaff.NothingFound()
	return tipstaff.MemoryReport{Head: journal.Hash{}.String(), Weights: cortex.Cold.Named(), Log: none, State: none}, nil
}

// remembering is the log of a drive. On their way to the store it tells, of the
// leaves that end, what the memory is to keep: the record alone does not say
// which tool a node called, and the program does.
type remembering struct {
	flow.Log
	program func() program // the one that is driven now
}

// Append implements [flow.Log].
func (m *remembering) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	drafts = slices.Clone(drafts)
	for i := range drafts {
		switch drafts[i].Kind {
		case string(tipstaff.KindPlanStep):
			drafts[i].Memo = m.memo(drafts[i].Body)
		case string(tipstaff.KindStageFinished):
			drafts[i].Memo = m.stage(drafts[i].Body)
		}
	}
	m.Log.Append(l, drafts, done)
}

// memo is what is kept of a leaf that has ended; nil: it has not.
func (m *remembering) memo(body json.RawMessage) *flow.Memo {
	var b tipstaff.PlanStep
	if json.Unmarshal(body, &b) != nil || b.Status == tipstaff.StepStarted {
		return nil
	}
	memo := m.program().shared().text.memo(b.Node)
	memo.Outcome, memo.Digest = b.Status, b.ResultDigest
	memo.Summary += " " + b.Status
	if b.Error != nil {
		memo.Summary += ": " + b.Error.Code + ": " + b.Error.Message
	}
	return &memo
}

// stage is what is kept of a pipeline's stage that has ended.
func (m *remembering) stage(body json.RawMessage) *flow.Memo {
	var b tipstaff.StageFinished
	stages := m.program().shared().text.stages()
	if stages == nil || json.Unmarshal(body, &b) != nil {
		return nil
	}
	memo := &flow.Memo{Kind: "stage", Outcome: b.Outcome, Summary: b.Stage + " " + b.Outcome}
	for _, a := range stages {
		if a.Name != b.Stage || a.Tool == nil {
			continue
		}
		memo.Tool = a.Tool.URI
		if u, err := tipstaff.ParseToolURI(a.Tool.URI); err == nil {
			memo.Server = u.Server
		}
	}
	if b.Output != nil {
		memo.Digest = flow.Digest(b.Output)
	}
	if b.Code != "" {
		memo.Summary += ": " + b.Code + ": " + b.Error
	}
	return memo
}

// apart is the evidence of a terminal envelope without what the memory has put in
// when it was signed: that follows from the store, not from the run's own records.
// What the memory cannot have put in stays.
func apart(evidence json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	var place cortex.Place
	if json.Unmarshal(evidence, &members) != nil || json.Unmarshal(members["cortex"], &place) != nil ||
		place.AttestSeq < 1 || place.LearnSeq != place.AttestSeq+1 || !sameJSON(members["cortex"], flow.JSON(place)) {
		return evidence
	}
	delete(members, "cortex")
	return flow.JSON(members)
}

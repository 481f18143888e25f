package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
	"github.com/tipstaff/tipstaff/store"
)

// TestFlow runs the suite that every log passes. On a disk it takes minutes, so
// it is asked for, as `make test` does: TIPSTAFF_FLOWTEST=1 go test -run TestFlow,
// with -short for fewer rounds.
func TestFlow(t *testing.T) {
	if os.Getenv("TIPSTAFF_FLOWTEST") == "" {
		t.Skip("TIPSTAFF_FLOWTEST is not set")
	}
	flowtest.Run(t, func(t *testing.T) flowtest.Bed {
		return &bed{newBench(t, &Options{Alive: func(flow.Owner, time.Time) bool { return true }})}
	})
}

// bed is a store with whoever creates runs, decides gates and recovers.
type bed struct{ *bench }

// Every says that short tests try a fifth of the places of a sweep: on a disk all take
// minutes, and flowtest itself tries all, in memory.
func (b *bed) Every() int { return 5 }

func (b *bed) Engine(log flow.Log, opts *flow.Options) flow.Engine { return flow.New(log, opts) }

func (b *bed) Log() flow.Log { return suiteLog{b.Store} }

func (b *bed) Owner() flow.Owner { return me }

func (b *bed) NewRun() (string, error) {
	id := tipstaff.NewID(time.Now()).String()
	return id, b.Create(context.Background(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, b.begun())
}

func (b *bed) Write(run string, d flow.Draft) error { return b.writeErr(run, translate(d, toStore)) }

// Decide is what a runner does: the same decision again is fine.
func (b *bed) Decide(run, gate string, d flow.Decision) error {
	return b.Store.Write(context.Background(), run, func(tx flow.Tx) ([]flow.Draft, error) {
		gates, err := tx.Gates(false)
		if err != nil {
			return nil, err
		}
		for _, g := range gates {
			if g.ID != gate {
				continue
			}
			draft := decisionDraft(g, d)
			if g.Decided == 0 {
				return []flow.Draft{draft}, nil
			}
			if string(g.Decision) == string(draft.Body) {
				return nil, nil
			}
			return nil, fmt.Errorf("gate %s was decided otherwise: %s", gate, g.Decision)
		}
		return nil, fmt.Errorf("no gate %s", gate)
	})
}

func decisionDraft(g flow.GateRow, d flow.Decision) flow.Draft {
	if d.Via == "" {
		d.Via = "command"
	}
	var asked struct{ Digest string }
	_ = json.Unmarshal(g.Body, &asked)
	decision := map[string]any{"gate": g.ID, "action": d.Action, "via": d.Via, "subject_digest": asked.Digest}
	for name, value := range map[string]string{"feedback": d.Feedback, "note": d.Note, "fail_reason": d.FailReason, "on_behalf_of": d.By} {
		if value != "" {
			decision[name] = value
		}
	}
	if len(d.Answer) > 0 {
		decision["answer"] = d.Answer
	}
	from := "user"
	if d.By != "" {
		from = "executor"
	}
	return flow.Draft{Kind: "policy.gate.resolve", Path: g.Key, From: from, Body: flow.JSON(decision)}
}

func (b *bed) Records(run string) (records []flow.Record, err error) {
	stored, err := b.Store.Records(context.Background(), run, 0, 0)
	for _, s := range stored {
		r, parseErr := store.ParseRecord(s.Bytes)
		r.Draft = translate(r.Draft, fromStore)
		records, err = append(records, r), errors.Join(err, parseErr)
	}
	return records, err
}

func (b *bed) Reopen() error {
	b.reopen(&b.db.opts)
	runs, err := b.Runs(context.Background(), flow.Query{Leased: true})
	for _, r := range runs {
		err = errors.Join(err, b.writeErr(r.ID, flow.Draft{Kind: "run.interrupted", Body: body(`{"reason":"killed"}`)}))
	}
	return err
}

// suiteLog stores the suite's invented events under kinds that exist: the list
// of kinds is closed here.
type suiteLog struct{ *Store }

var (
	toStore   = map[string]string{"agent.said": "agent.message", "agent.thought": "agent.finish"}
	fromStore = map[string]string{"agent.message": "agent.said", "agent.finish": "agent.thought"}
)

func translate(d flow.Draft, kinds map[string]string) flow.Draft {
	if kind, ok := kinds[d.Kind]; ok {
		d.Kind = kind
	}
	return d
}

// Acquire does not give up: the suite counts a drive that was stopped before it
// began as one that failed.
func (l suiteLog) Acquire(ctx context.Context, run string, owner flow.Owner) (flow.Lease, error) {
	return l.Store.Acquire(context.WithoutCancel(ctx), run, owner)
}

func (l suiteLog) Append(lease flow.Lease, drafts []flow.Draft, done func(error)) {
	known := make([]flow.Draft, len(drafts))
	for i, d := range drafts {
		known[i] = translate(d, toStore)
	}
	l.Store.Append(lease, known, done)
}

func (l suiteLog) Load(ctx context.Context, run string) (flow.History, error) {
	h, err := l.Store.Load(context.WithoutCancel(ctx), run)
	for i := range h.Records {
		h.Records[i].Draft = translate(h.Records[i].Draft, fromStore)
	}
	return h, err
}

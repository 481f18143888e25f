// Package storetest holds what every store must pass, whatever database it stands on:
// [Rules], and a [Bed] for the suite of package flowtest, which creates runs, decides gates
// and recovers.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// Bed is a flowtest.Bed over a store whose owners all count as alive.
type Bed struct {
	*store.Store
	// Again closes the store and opens what it has kept.
	Again func() *store.Store
	// Real says that programs record events of kinds that exist: none has to be translated.
	Real bool
}

// Engine implements flowtest.Bed.
func (b *Bed) Engine(log flow.Log, opts *flow.Options) flow.Engine { return flow.New(log, opts) }

// Log implements flowtest.Bed.
func (b *Bed) Log() flow.Log {
	if b.Real {
		return b.Store
	}
	return suiteLog{b.Store}
}

// Owner implements flowtest.Bed.
func (b *Bed) Owner() flow.Owner { return flow.Owner{Kind: "foreground", Host: "here", Pid: 42} }

// NewRun implements flowtest.Bed.
func (b *Bed) NewRun() (string, error) {
	id := tipstaff.NewID(time.Now()).String()
	return id, b.Create(context.Background(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, Begun(tipstaff.RunKeys{User: b.Keys().User, Executor: b.Keys().Executor}))
}

// Write implements flowtest.Bed.
func (b *Bed) Write(run string, d flow.Draft) error {
	return b.Store.Write(context.Background(), run, func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{translate(d, toStore)}, nil
	})
}

// Decide is what a runner does: the same decision again is fine.
func (b *Bed) Decide(run, gate string, d flow.Decision) error {
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
			if b, err := flow.ReadResolved(draft.Kind, draft.Body); err != nil || !reflect.DeepEqual(g.Decision, b) {
				return nil, fmt.Errorf("gate %s was decided otherwise: %+v", gate, g.Decision)
			}
			return nil, nil
		}
		return nil, fmt.Errorf("no gate %s", gate)
	})
}

func decisionDraft(g flow.GateRow, d flow.Decision) flow.Draft {
	if d.Via == "" {
		d.Via = "command"
	}
	var asked flow.GateOpened
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
	return flow.Draft{Kind: flow.KindGateResolved, Path: g.Key, From: from, Body: flow.JSON(decision)}
}

// Records implements flowtest.Bed.
func (b *Bed) Records(run string) (records []flow.Record, err error) {
	stored, err := b.Store.Records(context.Background(), run, 0, 0)
	for _, s := range stored {
		r, parseErr := store.ParseRecord(s.Bytes)
		if !b.Real {
			r.Draft = translate(r.Draft, fromStore)
		}
		records, err = append(records, r), errors.Join(err, parseErr)
	}
	return records, err
}

// Reopen implements flowtest.Bed.
func (b *Bed) Reopen() error {
	b.Store = b.Again()
	runs, err := b.Runs(context.Background(), flow.Query{Leased: true})
	for _, r := range runs {
		err = errors.Join(err, b.Write(r.ID, flow.Draft{Kind: flow.KindRunInterrupted, Body: flow.JSON(flow.RunInterrupted{Reason: "killed"})}))
	}
	return err
}

// suiteLog stores the suite's invented events under kinds that exist: the list
// of kinds is closed here.
type suiteLog struct{ *store.Store }

var (
	toStore   = map[string]string{"agent.said": string(tipstaff.KindAgentMessage), "agent.thought": string(tipstaff.KindAgentFinish)}
	fromStore = map[string]string{string(tipstaff.KindAgentMessage): "agent.said", string(tipstaff.KindAgentFinish): "agent.thought"}
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

// Begun are the records of a given program: drafted, compiled, accepted, taking
// effect.
func Begun(keys tipstaff.RunKeys) []flow.Draft {
	terms := tipstaff.Terms{IntentHash: ZeroDigest, ProgramDigest: ZeroDigest}
	return []flow.Draft{
		{Kind: string(tipstaff.KindIntentDraft), From: "executor", Body: flow.JSON(tipstaff.IntentDraft{ProgramKind: "plan", ProgramDigest: ZeroDigest,
			Inputs: json.RawMessage(`{}`), Bounds: tipstaff.Bounds{}, User: "local", Origin: "foreground", Keys: keys, Frozen: map[string]string{}})},
		{Kind: string(tipstaff.KindIntentCompiled), From: "executor", Body: json.RawMessage(`{"attempts":0}`)},
		{Kind: flow.KindIntentAccept, From: "user", Body: flow.JSON(tipstaff.IntentAccept{Terms: terms, Revision: 1, Bounds: tipstaff.Bounds{}, Via: "command"})},
		{Kind: string(tipstaff.KindPlanProposed), From: "executor", Body: flow.JSON(tipstaff.PlanProposed{Terms: terms, Revision: 1, AcceptedBy: "x"})},
	}
}

package flowtest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// tamperedClass alters what a journal says of the classes of calls. The rules of the
// engine are kept, so that only the program can tell.
func tamperedClass(t *testing.T, open opener) {
	r := ledgered(t, open)
	recorded := func(path string, class flow.Class) func(journal) journal {
		return func(j journal) journal {
			i := j.index("effect.intended", path)
			j[i].Body = altered(t, j[i].Body, set("class", class))
			return j
		}
	}
	for name, alter := range map[string]func(journal) journal{
		"once as read":                recorded("root/last", flow.Read),
		"once as idempotent":          recorded("root/last", flow.Idempotent),
		"read as idempotent":          recorded("root/retried", flow.Idempotent), // one of two attempts
		"read as once":                recorded("root/retried", flow.Once),
		"once without an intent":      func(j journal) journal { return j.unintended(t, "root/last") },
		"once twice, said to be read": func(j journal) journal { return recorded("root/last", flow.Read)(j).again(t, "root/last") },
	} {
		t.Run(name, func(t *testing.T) {
			h := r.history()
			h.Records = alter(slices.Clone(h.Records))
			var nd *flow.NonDeterminism
			if out := r.replay(h); !errors.As(out.Err, &nd) {
				t.Errorf("it verifies: %s%v", describe(out), journal(h.Records))
			}
		})
	}
}

// unreserved has a call made that reserves something, as if it did not.
func unreserved(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(reserving(flow.Read, "a", "tool_calls")))
	r.agree(r.want(flow.Completed))
	h := r.history()
	h.Records = journal(slices.Clone(h.Records)).unintended(t, "root/a")
	var nd *flow.NonDeterminism
	if out := r.replay(h); !errors.As(out.Err, &nd) {
		t.Errorf("it verifies: %s%v", describe(out), journal(h.Records))
	}
}

// retriedOnce has a once call fail, and be refused when it is tried again.
func retriedOnce(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(reserving(flow.Once, "a", "tool_calls")))
	r.job.Limits = flow.Use{"tool_calls": 0}
	r.agree(r.want(flow.Failed))
	h := r.history()
	j := journal(slices.Clone(h.Records))
	i := j.index("effect.finished", "root/a")
	failed := j[i]
	failed.Kind = "effect.failed"
	j[i].Body = altered(t, j[i].Body, func(b map[string]any) { b["attempt"] = 2; delete(b, "input") })
	h.Records = slices.Insert(j, i, failed)
	var nd *flow.NonDeterminism
	if out := r.replay(h); !errors.As(out.Err, &nd) {
		t.Errorf("it verifies: %s%v", describe(out), journal(h.Records))
	}
}

// onceAgain makes a once call twice, with records that all say so.
func onceAgain(t *testing.T, open opener) {
	r := ledgered(t, open)
	h := r.history()
	h.Records = journal(slices.Clone(h.Records)).again(t, "root/last")
	if found := flow.Conform(h, r.job.Limits); len(found) != 1 {
		t.Errorf("found %v%v", found, journal(h.Records))
	}
}

// index is the first record of a kind at a path.
func (j journal) index(kind, path string) int {
	return slices.IndexFunc(j, func(r flow.Record) bool { return r.Kind == kind && r.Path == path })
}

// again has the call at a path made a second time.
func (j journal) again(t *testing.T, path string) journal {
	i, end := j.index("effect.intended", path), j.index("effect.finished", path)
	j[end].Body = altered(t, j[end].Body, set("attempt", 2))
	second := j[i]
	second.Body = altered(t, second.Body, func(b map[string]any) { b["attempt"] = 2; delete(b, "input") })
	return slices.Insert(j, i+1, second)
}

// unintended has the call at a path made as if it needed no intent.
func (j journal) unintended(t *testing.T, path string) journal {
	i, end := j.index("effect.intended", path), j.index("effect.finished", path)
	var b struct{ Input json.RawMessage }
	if err := json.Unmarshal(j[i].Body, &b); err != nil {
		t.Fatal(err)
	}
	j[end].Body = altered(t, j[end].Body, set("input", b.Input))
	return slices.Delete(j, i, i+1)
}

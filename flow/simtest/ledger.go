package simtest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// ledger keeps account of what a run uses, by itself: from the attempts that stand in the
// journal and from what the activities of the world have reported. It shares nothing with
// that of the engine but the rules that both follow.
type ledger struct {
	s           *sim
	used, limit flow.Use
	open        map[string]*account // attempts that nothing has settled, by path
	gates       map[string]question // by id
	segment     int
}

// account is that of one attempt.
type account struct {
	holds     flow.Use
	suspended bool
}

// question is a gate with its answer.
type question struct {
	kind, action string
	more         flow.Use
}

// checkLedger holds what the run is said to have used against an account of its own.
func (s *sim) checkLedger(records []flow.Record, said ...flow.Use) {
	l := &ledger{s: s, used: flow.Use{}, limit: plus(nil, s.c.Limits), open: map[string]*account{}, gates: map[string]question{}}
	for i := range records {
		l.take(&records[i])
	}
	l.chargeLeft()
	for _, used := range said {
		if !sameUse(used, l.used) {
			s.fail("the run is said to have used %v, but it has used %v", used, l.used)
		}
	}
}

func (l *ledger) take(r *flow.Record) {
	switch r.Kind {
	case flow.KindEffectIntended, flow.KindEffectFailed, flow.KindEffectSuspended, flow.KindEffectFinished:
		b, _ := flow.ReadEffect(r.Body)
		l.effect(r, &b)
	case flow.KindBoundReserved:
		var b flow.BoundReserved
		_ = json.Unmarshal(r.Body, &b)
		l.hold(r, b.By)
	case flow.KindGateOpened:
		b, _ := flow.ReadOpened(r.Kind, r.Body)
		l.gates[b.Gate] = question{kind: b.Kind}
	case flow.KindGateResolved:
		b, _ := flow.ReadResolved(r.Kind, r.Body)
		q := l.gates[b.Gate]
		q.action = b.Action
		if q.kind == "bound" {
			_ = json.Unmarshal(b.Answer, &q.more)
		}
		l.gates[b.Gate] = q
	case flow.KindGateTaken:
		var b flow.GateTaken
		_ = json.Unmarshal(r.Body, &b)
		l.answered(r.Path, l.gates[b.Gate])
	case flow.KindRunContinued:
		var b flow.RunContinued
		_ = json.Unmarshal(r.Body, &b)
		l.chargeLeft()
		if !sameUse(b.Used, l.used) {
			l.s.fail("record %d says that the run has used %v, but it has used %v", r.Seq, b.Used, l.used)
		}
		l.limit, l.segment = plus(nil, b.Limit), l.segment+1
		clear(l.open)
	}
}

func (l *ledger) effect(r *flow.Record, b *flow.Effect) {
	switch r.Kind {
	case flow.KindEffectIntended:
		l.settle(r.Path, nil) // the attempt before it was lost
		l.hold(r, b.Reserve)
	case flow.KindEffectSuspended:
		l.at(r.Path).suspended = true
	default:
		place := attemptKey(flow.IdempotencyKey(l.s.run, r.Path, l.segment), b.Attempt)
		reported := l.s.world.reported[place]
		if reported != nil && b.By == "" && (b.Error == nil || !b.Error.NotSent) && !slices.ContainsFunc(reported, func(u flow.Use) bool { return sameUse(u, b.Use) }) {
			l.s.fail("record %d says that %s has used %v, but it has reported %v", r.Seq, r.Path, b.Use, reported)
		}
		l.settle(r.Path, b.Use)
	}
}

func (l *ledger) at(path string) *account {
	if l.open[path] == nil {
		l.open[path] = &account{}
	}
	return l.open[path]
}

// hold reserves more for an attempt. All that is granted must fit, whatever was granted
// before it.
func (l *ledger) hold(r *flow.Record, more flow.Use) {
	a := l.at(r.Path)
	a.holds = plus(a.holds, more)
	for name := range more {
		limit, ok := l.limit[name]
		held := int64(0)
		for _, other := range l.open {
			held += other.holds[name]
		}
		if ok && l.used[name]+held > limit {
			l.s.fail("record %d grants %d %s: of %d, %d are used and %d held with it", r.Seq, more[name], name, limit, l.used[name], held)
		}
	}
}

// settle charges what was reported, and what was held where nothing was.
func (l *ledger) settle(path string, reported flow.Use) {
	charge := plus(nil, reported)
	for name, n := range l.at(path).holds {
		if _, ok := reported[name]; !ok {
			charge[name] += n
		}
	}
	l.used = plus(l.used, charge)
	delete(l.open, path)
}

func (l *ledger) answered(path string, q question) {
	switch {
	case q.kind == "in_doubt" && q.action == "retry" && !strings.HasSuffix(path, "#0"):
		l.settle(parent(path), nil)
	case q.kind == "bound" && q.action == "extend":
		for name, n := range q.more {
			if _, ok := l.limit[name]; ok {
				l.limit[name] += n
			}
		}
	}
}

// chargeLeft charges what was under way when a segment or the run ended. What was
// suspended goes on elsewhere.
func (l *ledger) chargeLeft() {
	for path, a := range l.open {
		if !a.suspended {
			l.settle(path, nil)
		}
	}
}

func plus(a, b flow.Use) flow.Use {
	sum := make(flow.Use, len(a)+len(b))
	for name, n := range a {
		sum[name] = n
	}
	for name, n := range b {
		sum[name] += n
	}
	return sum
}

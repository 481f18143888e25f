package simtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// ledger keeps account of what a run uses, by itself: from the attempts that stand in the
// journal and from what the activities of the world have reported. It shares nothing with
// that of the engine but the rules that both follow.
type ledger struct {
	s                 *sim
	used, held, limit flow.Use
	open              map[string]*account // attempts that nothing has settled, by path
	gates             map[string]question // by id
	segment           int
}

// account is that of one attempt.
type account struct {
	attempt   int
	reserved  flow.Use
	known     flow.Use // of what it has used, while it was under way
	suspended bool
}

// question is a gate with its answer.
type question struct {
	kind, action string
	more         flow.Use
}

// checkLedger holds what the run is said to have used against an account of its own.
func (s *sim) checkLedger(records []flow.Record, said ...flow.Tally) {
	l := &ledger{s: s, used: flow.Use{}, held: flow.Use{}, limit: plus(nil, s.c.Limits), open: map[string]*account{}, gates: map[string]question{}}
	for i := range records {
		l.take(&records[i])
	}
	l.chargeLeft()
	for _, t := range said {
		if fault := l.differs(t.Used, t.Held); fault != "" {
			s.fail("the run is said to %s", fault)
		}
	}
}

// differs says how an account differs from this one; "": it does not.
func (l *ledger) differs(used, held flow.Use) string {
	if sameUse(used, l.used) && sameUse(held, l.held) {
		return ""
	}
	return fmt.Sprintf("have used %v and to hold %v, but it has used %v and holds %v", used, held, l.used, l.held)
}

func (l *ledger) take(r *flow.Record) {
	switch r.Kind {
	case flow.KindEffectIntended, flow.KindEffectFailed, flow.KindEffectSuspended, flow.KindEffectFinished:
		b, _ := flow.ReadEffect(r.Body)
		l.effect(r, &b)
	case flow.KindBoundReserved:
		var b flow.BoundReserved
		_ = json.Unmarshal(r.Body, &b)
		l.reserve(r, b.By)
	case flow.KindBoundUsed:
		var b flow.BoundUsed
		_ = json.Unmarshal(r.Body, &b)
		l.at(r.Path).known = b.SoFar
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
		if fault := l.differs(b.Used, b.Held); fault != "" {
			l.s.fail("record %d says the run to %s", r.Seq, fault)
		}
		l.limit, l.segment = plus(nil, b.Limit), l.segment+1
		clear(l.open)
	}
}

func (l *ledger) effect(r *flow.Record, b *flow.Effect) {
	switch r.Kind {
	case flow.KindEffectIntended:
		l.lose(r.Path) // the attempt before it
		l.at(r.Path).attempt = b.Attempt
		l.reserve(r, b.Reserve)
	case flow.KindEffectSuspended:
		l.at(r.Path).suspended = true
	default:
		place := attemptKey(flow.IdempotencyKey(l.s.run, r.Path, l.segment), b.Attempt)
		reported := l.s.world.reported[place]
		if reported != nil && b.By == "" && (b.Error == nil || !b.Error.NotSent) && !slices.ContainsFunc(reported, func(u flow.Use) bool { return sameUse(u, b.Use) }) {
			l.s.fail("record %d says that %s has used %v, but it has reported %v", r.Seq, r.Path, b.Use, reported)
		}
		if a := l.at(r.Path); a.attempt > 0 && b.Attempt > a.attempt {
			l.lose(r.Path) // before another, which was refused
		}
		switch {
		case b.By != "": // nobody but who decided has heard of its end
			if b.Use != nil {
				l.at(r.Path).known = b.Use
			}
			l.lose(r.Path)
		case b.Error != nil && b.Error.NotSent:
			l.settle(r.Path, b.Use, nothing)
		default:
			l.settle(r.Path, b.Use, spent)
		}
	}
}

func (l *ledger) at(path string) *account {
	if l.open[path] == nil {
		l.open[path] = &account{}
	}
	return l.open[path]
}

// reserve reserves more for an attempt. All that is granted must fit, whatever was granted
// before it.
func (l *ledger) reserve(r *flow.Record, more flow.Use) {
	a := l.at(r.Path)
	a.reserved = plus(a.reserved, more)
	for name := range more {
		limit, ok := l.limit[name]
		flying := int64(0)
		for _, other := range l.open {
			flying += other.reserved[name]
		}
		if ok && l.used[name]+l.held[name]+flying > limit {
			l.s.fail("record %d grants %d %s: of %d, %d are used, %d held and %d reserved with it", r.Seq, more[name], name, limit, l.used[name], l.held[name], flying)
		}
	}
}

// What becomes of a reservation of which nothing was reported. Counts of what is done are
// spent in any case; so is everything in a run that holds nothing.
const (
	spent   = iota // the attempt came to an end
	nothing        // it surely did nothing
	held           // nobody knows; what it is known to have used is spent
)

// settle charges what was reported, and does with the rest of the reservation what is due.
func (l *ledger) settle(path string, reported flow.Use, rest int) {
	charge, keep := plus(nil, reported), flow.Use{}
	for name, n := range l.at(path).reserved {
		used, told := reported[name]
		money := l.s.c.Holds && (name == flow.Tokens || name == flow.CostUSD)
		switch {
		case money && rest == held:
			keep[name] = max(0, n-used)
		case !told && (!money || rest == spent):
			charge[name] += n
		}
	}
	l.used, l.held = plus(l.used, charge), plus(l.held, keep)
	delete(l.open, path)
}

// lose settles an attempt that nobody has heard of.
func (l *ledger) lose(path string) { l.settle(path, l.at(path).known, held) }

func (l *ledger) answered(path string, q question) {
	switch {
	case q.kind == "in_doubt" && q.action == "retry" && !strings.HasSuffix(path, "#0"):
		l.lose(parent(path))
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
			l.lose(path)
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

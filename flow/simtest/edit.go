package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// Edit is a program that somebody has changed while a run of it was at rest.
type Edit struct {
	Text string
	Flow flow.Func
	Fits bool // with all that is recorded: the run goes on with it
	// Again changes what it was changed to; nil: that is not changed any more.
	Again func(pick *Choices, recorded map[string]bool) *Edit
}

// edit changes the program between two drives. One that does not fit must be found before
// it does anything; then the run goes on with the one that it had.
func (s *sim) edit() {
	h, err := s.log.Load(noContext, s.run)
	if err != nil {
		s.fail("the run cannot be loaded: %v", err)
		return
	}
	recorded := map[string]bool{}
	for _, r := range h.Records {
		if flow.Owned(r.Kind, r.N) {
			recorded[place(strings.TrimPrefix(r.Path, s.root()+"/"), r.N)] = true
		}
	}
	e := s.edits(s.pick, recorded)
	if e == nil {
		return
	}
	s.note(e.Text)
	was := s.flow
	s.flow = e.Flow
	if e.Fits {
		s.extended, s.edits = true, e.Again
		return
	}
	before, effects, full := len(s.log.Records(s.run)), maps.Clone(s.world.effects), s.hands.fullNow
	s.calm, s.hands.fullNow = true, false
	p := s.takeUp()
	s.calm, s.hands.fullNow, s.flow = false, full, was
	if s.failure != nil {
		return
	}
	after := s.log.Records(s.run)
	var kinds []string
	for _, r := range after[min(before, len(after)):] {
		kinds = append(kinds, r.Kind)
	}
	switch {
	case p.err != nil || p.out.Reason != "replay_mismatch":
		s.fail("%s: the drive ended %s %s, %v %v", e.Text, p.out.Status, p.out.Reason, p.out.Err, p.err)
	case !slices.Equal(kinds, []string{flow.KindRunResumed, flow.KindRunInterrupted}):
		s.fail("%s: it was found, but %v were recorded", e.Text, kinds)
	case !maps.Equal(effects, s.world.effects):
		s.fail("%s: it was found, but something was done", e.Text)
	}
}

// place names where a record stands that the program owns: its path below the root and, of
// what the program emits, its number there.
func place(path string, n int) string {
	if n > 0 {
		return fmt.Sprint(path, " ", n)
	}
	return path
}

// edit changes one step of a program: one of which something is recorded gets another name or
// is left out, or a new one is put somewhere. What numbers itself has no name of its own: all
// of its kind that follow in the sequence are moved or left out with it, for they would take
// its number.
func (p *program) edit(pick *Choices, recorded map[string]bool) *Edit {
	var known, all []*spot
	for i, seq := range p.segments {
		for _, s := range spots(seq, fmt.Sprint("s", i)) {
			if all = append(all, s); s.isIn(recorded) {
				known = append(known, s)
			}
		}
	}
	if len(known) == 0 || pick.One(3) {
		return p.addition(pick, all, recorded)
	}
	s := known[pick.Of(len(known))]
	what, change := "renamed", func(st *step) { st.as = "r" }
	if pick.Of(2) == 1 {
		what, change = "removed", func(st *step) { st.gone = true }
	}
	return &Edit{Text: s.String() + " is " + what, Flow: p.changed(change, s.alike()...).flow}
}

// addition puts a new step before one that there is, or at the end. It fits where nothing is
// recorded that comes after it.
func (p *program) addition(pick *Choices, all []*spot, recorded map[string]bool) *Edit {
	do := []string{"call", "gate"}[pick.Of(2)]
	at := pick.Of(len(all) + 1)
	if at == len(all) || all[at].step().first != "" {
		changed := *p
		changed.segments = slices.Clone(p.segments)
		last := &changed.segments[len(p.segments)-1]
		*last = append(slices.Clone(*last), step{do: do, class: flow.Once})
		return &Edit{Text: "a " + do + " is added at the end", Flow: changed.flow, Fits: true, Again: changed.edit}
	}
	s, fits := all[at], true
	for i := s.i; i < len(s.seq); i++ {
		later := &spot{s.path, i, s.seq}
		fits = fits && !later.isIn(recorded) && !later.hasSaid(recorded) && !later.added().isIn(recorded)
	}
	changed := p.changed(func(st *step) { st.first = do }, s)
	return &Edit{Text: "a " + do + " is put before " + s.String(), Flow: changed.flow, Fits: fits, Again: changed.edit}
}

// changed is the program with a change in some of its steps.
func (p *program) changed(change func(*step), where ...*spot) *program {
	changed := *p
	changed.segments = make([][]step, len(p.segments))
	for i, seq := range p.segments {
		changed.segments[i] = with(seq, fmt.Sprint("s", i), where, change)
	}
	return &changed
}

// with is a sequence in which some steps were changed.
func with(seq []step, at string, where []*spot, change func(*step)) []step {
	seq = slices.Clone(seq)
	for i := range seq {
		st := &seq[i]
		if slices.ContainsFunc(where, func(s *spot) bool { return s.path == at && s.i == i }) {
			change(st)
		}
		st.branches = slices.Clone(st.branches)
		for k, b := range st.branches {
			st.branches[k] = with(b, branchPath(at, i, k), where, change)
		}
	}
	return seq
}

func branchPath(at string, i, k int) string { return fmt.Sprintf("%s/g%d/%d", at, i, k) }

// spot is a step where it stands: in a sequence, whose path is below the root.
type spot struct {
	path string
	i    int
	seq  []step
}

func (s *spot) step() *step { return &s.seq[s.i] }

func (s *spot) String() string { return fmt.Sprintf("%s/%d (%s)", s.path, s.i, s.step().do) }

// added is what was put before the step.
func (s *spot) added() *spot {
	seq := make([]step, s.i+1)
	seq[s.i] = s.step().addition()
	return &spot{s.path, s.i, seq}
}

// addition is the step that was put before this one.
func (st *step) addition() step { return step{do: st.first, as: "a", class: flow.Once} }

// spots are all steps of a sequence, those of branches included.
func spots(seq []step, path string) (all []*spot) {
	for i := range seq {
		all = append(all, &spot{path, i, seq})
		for k, b := range seq[i].branches {
			all = append(all, spots(b, branchPath(path, i, k))...)
		}
	}
	return all
}

// isIn reports whether something is recorded of the step.
func (s *spot) isIn(recorded map[string]bool) bool {
	switch st := s.step(); st.do {
	case "call":
		at := fmt.Sprintf("%s/%d%s", s.path, s.i, st.as)
		return recorded[at] || anyBelow(recorded, at) // a gate of a bound may come before the call
	case "gate":
		return recorded[fmt.Sprintf("%s/q%d%s", s.path, s.i, st.as)]
	case "group":
		return anyBelow(recorded, fmt.Sprintf("%s/g%d", s.path, s.i))
	case "": // there is none
		return false
	case "emit":
		return recorded[place(s.path, s.before((*step).emits)+1)]
	default:
		return recorded[fmt.Sprintf("%s/%s#%d", s.path, st.numbered(), s.before(func(other *step) int {
			if other.numbered() == st.numbered() {
				return 1
			}
			return 0
		})+1)]
	}
}

// anyBelow reports whether anything is recorded below a path.
func anyBelow(recorded map[string]bool, path string) bool {
	for at := range recorded {
		if strings.HasPrefix(at, path+"/") {
			return true
		}
	}
	return false
}

// hasSaid reports whether it is recorded what became of the step, which may have been
// cancelled before it did anything.
func (s *spot) hasSaid(recorded map[string]bool) bool {
	return recorded[place(s.path, s.before((*step).emits)+s.step().emits())]
}

// before counts what the steps before this one do.
func (s *spot) before(count func(*step) int) (n int) {
	for i := range s.i {
		n += count(&s.seq[i])
	}
	return n
}

// alike are the step and, if it numbers itself, those after it that count with it.
func (s *spot) alike() []*spot {
	list := []*spot{s}
	for i := s.i + 1; i < len(s.seq) && s.step().numbered() != ""; i++ {
		if s.seq[i].numbered() == s.step().numbered() {
			list = append(list, &spot{s.path, i, s.seq})
		}
	}
	return list
}

// numbered is the name under which the step numbers itself; "": it has a key.
func (st *step) numbered() string {
	switch st.do {
	case "sleep", "nap":
		return "sleep"
	case "now":
		return "now"
	}
	return ""
}

// emits is how many events a step emits: every one says what became of it.
func (st *step) emits() int {
	if st.do == "emit" {
		return 2
	}
	return 1
}

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
		if strings.HasPrefix(r.Kind, "effect.") && flow.Owned(r.Kind, r.N) {
			recorded[strings.TrimPrefix(r.Path, s.root()+"/")] = true
		}
	}
	e := s.c.Edit(s.pick, recorded)
	if e == nil {
		return
	}
	s.note(e.Text)
	was := s.flow
	s.flow = e.Flow
	if e.Fits {
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

// edit changes one step of a program: one of those of which something is recorded gets
// another name or is left out, or a new one is added at the end.
func (p *program) edit(pick *Choices, recorded map[string]bool) *Edit {
	var known []string
	for i, seq := range p.segments {
		each(seq, fmt.Sprint("s", i), func(path string, _ *step) {
			if recorded[path] {
				known = append(known, path)
			}
		})
	}
	if len(known) == 0 || !p.settled && pick.One(3) {
		if p.settled { // its end is compared
			return nil
		}
		changed := *p
		changed.segments = slices.Clone(p.segments)
		last := &changed.segments[len(p.segments)-1]
		*last = append(slices.Clone(*last), step{do: "call", class: flow.Once})
		return &Edit{Text: "a step is added", Flow: changed.flow, Fits: true}
	}
	path := known[pick.Of(len(known))]
	what, change := "renamed", func(st *step) { st.as = "r" }
	if pick.Of(2) == 1 {
		what, change = "removed", func(st *step) { st.gone = true }
	}
	changed := *p
	changed.segments = make([][]step, len(p.segments))
	for i, seq := range p.segments {
		changed.segments[i] = with(seq, fmt.Sprint("s", i), path, change)
	}
	return &Edit{Text: path + " is " + what, Flow: changed.flow}
}

// with is a sequence in which the step at one path was changed.
func with(seq []step, at, path string, change func(*step)) []step {
	seq = slices.Clone(seq)
	for i := range seq {
		st := &seq[i]
		if fmt.Sprintf("%s/%d", at, i) == path {
			change(st)
		}
		st.branches = slices.Clone(st.branches)
		for k, b := range st.branches {
			st.branches[k] = with(b, fmt.Sprintf("%s/g%d/%d", at, i, k), path, change)
		}
	}
	return seq
}

package simtest

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

var errDead = errors.New("simtest: the process is dead")

// simLog is the log as one process sees it. A commit and the news of it are
// two events: the process may die before, between and after them.
type simLog struct {
	Log
	p *process
}

func (l *simLog) Append(lease flow.Lease, drafts []flow.Draft, done func(error)) {
	go func() {
		growStack()
		err := l.p.pauseUntil(noContext, "commit")
		if err == nil && l.p.s.hands.commitFails(l.p) {
			err = flow.ErrStoreFull
		}
		if err == nil {
			if kind := l.p.s.c.forget; kind != "" {
				drafts = slices.DeleteFunc(slices.Clone(drafts), func(d flow.Draft) bool { return d.Kind == kind })
			}
			l.Log.Append(lease, drafts, func(e error) { err = e })
			if err == nil {
				l.p.s.committed(drafts)
			}
			if l.p.pauseUntil(noContext, "commit is known") != nil {
				err = errDead
			}
		}
		done(err)
	}()
}

func (l *simLog) Park(lease flow.Lease, p flow.Parking) (bool, error) {
	if err := l.p.pauseUntil(noContext, "park"); err != nil {
		return false, err
	}
	parked, err := l.Log.Park(lease, p)
	if parked {
		l.p.s.note("parked")
		l.p.rested(p)
	}
	if l.p.pauseUntil(noContext, "park is known") != nil {
		return false, errDead
	}
	return parked, err
}

// rested checks that a process which parks is at rest, and has lingered as long as it was
// to since anything happened in it.
func (p *process) rested(parking flow.Parking) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.working > 0 {
		s.failLocked("it parked while %d activities were under way", p.working)
	}
	suspendedAlone := len(parking.Gates) == 0 && parking.WakeAt.IsZero()
	if since := time.Since(p.stirred); since < s.c.Linger && !suspendedAlone {
		s.failLocked("it parked %v after the last activity, and was to linger for %v", since, s.c.Linger)
	}
}

// committed keeps account of what is in the log: gates, and the end.
func (s *sim) committed(drafts []flow.Draft) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range drafts {
		if s.tracing {
			s.trace = append(s.trace, "  recorded "+d.Kind+" "+d.Path)
		}
		switch d.Kind {
		case "effect.intended":
			s.world.intended(d)
		case "policy.gate":
			b, _ := flow.ReadOpened(d.Kind, d.Body)
			s.gates = append(s.gates, &gate{id: b.Gate, key: d.Path, kind: b.Kind, actions: b.Actions})
		case "policy.gate.resolve":
			b, _ := flow.ReadResolved(d.Kind, d.Body)
			s.closeGate(b.Gate)
		case revised:
			s.revision++
		case "run.continued":
			root := s.c.Root
			if s.revision > 1 {
				root += "@" + strconv.Itoa(s.revision)
			}
			s.roots, s.flows = append(s.roots, root), append(s.flows, s.flow)
		case "intent.attest":
			s.status = flow.Completed
		case "intent.fail":
			s.status = flow.Failed
		case "intent.cancel":
			s.status = flow.Cancelled
		}
	}
}

// gate is one that is open.
type gate struct {
	id, key, kind string
	actions       []string
}

func (s *sim) closeGate(id string) {
	for i, g := range s.gates {
		if g.id == id {
			s.gates = append(s.gates[:i], s.gates[i+1:]...)
			return
		}
	}
}

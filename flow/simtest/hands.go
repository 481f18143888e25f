package simtest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

var noContext = context.Background()

// hands are those of people and of fate: what happens to a run from outside.
type hands struct {
	s                                          *sim
	kills, stops, cancels, corrections, steals int // how many are left
	fulls                                      int
	fullNow                                    bool
}

func newHands(s *sim) hands {
	h := hands{s: s, kills: s.pick.Of(4), stops: s.pick.Of(2), steals: s.pick.Of(2), fulls: s.pick.Of(2)}
	if s.c.Cancels {
		h.cancels = s.pick.Of(2)
	}
	if s.c.Revise != nil {
		h.corrections = s.pick.Of(2)
	}
	return h
}

// act does something to a run that is being driven; false: there is nothing to do.
func (h *hands) act(p *process) bool {
	var can []func()
	if h.s.openGates() > 0 {
		can = append(can, h.decide)
	}
	if h.waitingChild() != "" {
		can = append(can, h.answerChild)
	}
	add := func(left *int, f func()) {
		if *left > 0 {
			can = append(can, func() { *left--; f() })
		}
	}
	add(&h.kills, h.s.kill)
	if !p.stopped {
		add(&h.stops, func() { h.stop(p) })
	}
	add(&h.cancels, h.cancel)
	add(&h.corrections, h.correct)
	add(&h.steals, h.s.takeOver)
	add(&h.fulls, func() { h.fullNow = true })
	if len(can) == 0 {
		return false
	}
	can[h.s.pick.Of(len(can))]()
	return true
}

// answer gives a run what it waits for, as a last resort while it lingers.
func (h *hands) answer() bool {
	if h.s.c.Linger == 0 || h.s.openGates() == 0 {
		return false
	}
	h.decide()
	return true
}

// idle does something to a run that nobody drives; false: enough was done.
func (h *hands) idle() bool {
	s := h.s
	switch {
	case s.openGates() > 0:
		h.decide()
	case h.waitingChild() != "":
		h.answerChild()
	case s.wakeAt.After(time.Now()):
		time.Sleep(time.Until(s.wakeAt))
	case h.cancels > 0 && s.pick.One(8):
		h.cancels--
		h.cancel()
	case h.corrections > 0 && s.pick.One(8):
		h.corrections--
		h.correct()
	default:
		return false
	}
	return s.pick.Of(3) == 0
}

func (s *sim) openGates() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.gates)
}

// decide answers one open gate.
func (h *hands) decide() {
	s := h.s
	s.mu.Lock()
	g := s.gates[s.pick.Of(len(s.gates))]
	s.mu.Unlock()
	d := flow.Decision{Action: g.actions[0]}
	switch g.kind {
	case "in_doubt":
		can := []string{"use_result", "retry", "fail"}
		if strings.HasSuffix(g.key, "#3") { // somebody must lose patience
			can = can[:1]
		} else if s.c.Settled {
			can = can[:2]
		}
		if d.Action = can[s.pick.Of(len(can))]; d.Action == "use_result" {
			d.Answer = s.c.valueOf(parent(g.key))
		}
	case "bound":
		if s.c.Answer != nil {
			if !s.c.Settled {
				d.Action = g.actions[s.pick.Of(len(g.actions))]
			}
			break
		}
		if d.Action = g.actions[s.pick.Of(len(g.actions))]; strings.HasSuffix(g.key, "#3") {
			d.Action = "stop"
		}
		more := flow.Use{}
		for _, name := range slices.Sorted(maps.Keys(s.c.Limits)) {
			if more[name] = int64(1 + s.pick.Of(3)); name == flow.WallTime {
				more[name] *= 10
			}
		}
		d.Answer = flow.JSON(more)
	default:
		if !s.c.Settled {
			d.Action = g.actions[s.pick.Of(len(g.actions))]
		}
	}
	if s.c.Answer != nil && g.kind != "in_doubt" {
		d.Answer, d.Feedback = s.c.Answer(g.kind, d.Action), "Again."
	}
	s.note("decide " + g.key + ": " + d.Action)
	if err := s.log.Decide(s.run, g.id, d); err == nil {
		s.mu.Lock()
		s.closeGate(g.id)
		s.mu.Unlock()
	}
}

func (h *hands) waitingChild() string {
	w := h.s.world
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, place := range slices.Sorted(maps.Keys(w.children)) {
		if !w.children[place] {
			return place
		}
	}
	return ""
}

func (h *hands) answerChild() {
	place := h.waitingChild()
	h.s.note("answer the child of " + place)
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.s.world.children[place] = true
}

func (h *hands) stop(p *process) {
	h.s.note("SIGTERM")
	p.stopped, h.s.disturbed = true, true
	p.cancel(&flow.Stop{Reason: "signal:TERM"})
}

func (h *hands) cancel() {
	h.s.note("cancel")
	h.s.cancelled = true
	body := flow.JSON(flow.RunCancelRequested{Deadline: time.Now().Add(10 * time.Second)})
	_ = h.s.log.Write(h.s.run, flow.Draft{Kind: "run.cancel_requested", Body: body}) // it may have ended
}

func (h *hands) correct() {
	h.s.note("correct")
	_ = h.s.log.Write(h.s.run, flow.Draft{Kind: "run.correction_requested", Body: json.RawMessage("{}")})
}

// commitFails says that the disk is full at this commit.
func (h *hands) commitFails(p *process) bool {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	full := h.fullNow && p == h.s.proc
	if full {
		h.fullNow, p.failed, h.s.disturbed = false, true, true
	}
	return full
}

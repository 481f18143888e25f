package simtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/tipstaff/tipstaff/flow"
)

// judge looks at how a drive ended that nobody killed.
func (s *sim) judge(p *process) {
	out := p.out
	if errors.Is(p.err, flow.ErrEnded) && s.ended() {
		return // taken over at the last moment
	}
	if p.err != nil {
		s.fail("the run could not be driven: %v", p.err)
		return
	}
	s.note(fmt.Sprintf("ended %s %s", out.Status, out.Reason))
	s.wakeAt = out.WakeAt
	switch {
	case out.Status == flow.Interrupted:
		if !s.mayInterrupt(p) {
			s.fail("the drive was interrupted (%s): %v", out.Reason, out.Err)
		}
	case out.Status == flow.Cancelled && !s.cancelled:
		s.fail("the run was cancelled, but nobody asked for that")
	case out.Terminal():
		s.live = &out
		for _, path := range out.InDoubt {
			if !s.disturbed && !s.world.wasStarted(flow.IdempotencyKey(s.run, path, len(s.roots)-1)) {
				s.fail("%s is in doubt, but it was never begun", path)
			}
		}
	}
}

func (s *sim) mayInterrupt(p *process) bool {
	switch p.out.Reason {
	case "signal:TERM":
		return p.stopped
	case "store_full":
		return p.failed
	case "panic":
		s.disturbed = true
		return len(s.world.panicked) > 0
	}
	return false
}

// checkOpen replays what is in the log now: whoever resumes it must be able to.
func (s *sim) checkOpen() {
	h, err := s.log.Load(noContext, s.run)
	if err != nil {
		s.fail("the run cannot be loaded: %v", err)
		return
	}
	if out := s.replay(h, s.root(), s.flow); out.Status == flow.Interrupted {
		s.fail("what was recorded does not replay: %v", out.Err)
	}
}

// replay drives a flow on the records alone.
func (s *sim) replay(h flow.History, root string, f flow.Func) flow.Outcome {
	job := flow.Job{Run: s.run, Root: root, Flow: f, Input: s.c.Input, Limits: s.c.Limits, Holds: s.c.Holds}
	out, err := flow.Replay(h).Drive(noContext, job)
	if err != nil {
		return flow.Outcome{Status: flow.Interrupted, Err: err}
	}
	return out
}

// checkEnd holds the journal of an ended run against the rules, the program and
// the world.
func (s *sim) checkEnd() {
	records := s.log.Records(s.run)
	later := make([]flow.Use, len(s.roots)-1)
	for i := range later {
		later[i] = s.c.Limits
	}
	if s.c.Revise == nil {
		later = nil
	}
	if faults := flow.Conform(flow.History{Records: records, Ended: s.status, Holds: s.c.Holds}, s.c.Limits, later...); len(faults) > 0 {
		s.fail("the journal does not conform: %v", faults)
		return
	}
	s.checkSegments(records)
	h, _ := s.log.Load(noContext, s.run)
	if s.pick.One(16) {
		s.checkPrefixes(h)
	}
	out := s.replay(h, s.root(), s.flow)
	switch {
	case out.Status == flow.Interrupted:
		s.fail("the ended run does not replay: %v", out.Err)
	case out.Status != s.status && (s.status != flow.Cancelled || out.Status != flow.ParkedRun):
		s.fail("the run ended %s, its replay %s", s.status, out.Status)
	case s.live != nil && s.status != flow.Cancelled && (string(out.Value) != string(s.live.Value) || fmt.Sprint(out.Err) != fmt.Sprint(s.live.Err)):
		s.fail("the run ended with %s %v, its replay with %s %v", s.live.Value, s.live.Err, out.Value, out.Err)
	case s.live != nil && (!sameUse(out.Used, s.live.Used) || !sameUse(out.Held, s.live.Held)):
		s.fail("the run has used %+v, its replay %+v", s.live.Tally, out.Tally)
	}
	s.checkEffects(records)
	var said []flow.Tally
	if s.live != nil {
		said = append(said, s.live.Tally)
	}
	if out.Status.Terminal() { // else it could not see how others have settled the run
		said = append(said, out.Tally)
	}
	s.checkLedger(records, said...)
}

// checkPrefixes replays the last segment as it stood after each of its records.
func (s *sim) checkPrefixes(h flow.History) {
	for k := 1; k < len(h.Records); k++ {
		if out := s.replay(flow.History{Segment: h.Segment, Records: h.Records[:k]}, s.root(), s.flow); out.Status == flow.Interrupted {
			s.fail("after record %d the journal did not replay: %v", h.Records[k-1].Seq, out.Err)
			return
		}
	}
}

func sameUse(a, b flow.Use) bool {
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	for name := range b {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

// checkSegments replays the segments that were continued or cut.
func (s *sim) checkSegments(records []flow.Record) {
	start, k := 0, 0
	var cancel []flow.Record // holds in later segments, too
	for i, r := range records {
		if r.Kind == "run.cancel_requested" {
			cancel = []flow.Record{r}
		}
		if r.Kind != "run.continued" {
			continue
		}
		var next struct{ State json.RawMessage }
		_ = json.Unmarshal(r.Body, &next)
		h := flow.History{Segment: k, Records: records[start:i], Ended: flow.Completed}
		if cancel != nil && cancel[0].Seq < records[start].Seq {
			h.Records = slices.Insert(slices.Clone(h.Records), 1, cancel...)
		}
		cut := i > 0 && records[i-1].Kind == revised
		if cut {
			h.Ended = ""
		}
		out := s.replay(h, s.roots[k], s.flows[k])
		switch {
		case out.Status == flow.Interrupted:
			s.fail("segment %d does not replay: %v", k, out.Err)
		case !cut && (out.Status != flow.Completed || string(out.Value) != string(next.State)):
			s.fail("segment %d was continued with %s, its replay ends %s with %s", k, next.State, out.Status, out.Value)
		}
		start, k = i, k+1
	}
}

// checkEffects counts: a once call happens once, and again only for a decision, or in
// another revision after it has failed.
func (s *sim) checkEffects(records []flow.Record) {
	allowed := map[string]int{}
	once := map[string]string{}
	segment := 0
	retry := map[string]bool{}
	about := func(path string) string { return s.c.about(path, flow.IdempotencyKey(s.run, path, segment)) }
	for _, r := range records {
		switch r.Kind {
		case "run.continued":
			segment++
		case "effect.intended":
			if b, _ := flow.ReadEffect(r.Body); b.Class == flow.Once {
				once[about(r.Path)] = r.Path
			}
		case "effect.finished":
			if s.c.Leaf == nil {
				break
			}
			if b, _ := flow.ReadEffect(r.Body); b.Error != nil {
				allowed[about(r.Path)]++
			}
		case "policy.gate.resolve":
			b, _ := flow.ReadResolved(r.Kind, r.Body)
			retry[b.Gate] = b.Action == "retry"
		case "gate.taken":
			var b flow.GateTaken
			if _ = json.Unmarshal(r.Body, &b); retry[b.Gate] {
				allowed[about(parent(r.Path))]++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(once)) {
		if n := s.world.effects[key]; n > 1+allowed[key] {
			s.fail("the once call %s happened %d times, with %d decisions to retry", once[key], n, allowed[key])
		}
	}
}

func parent(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return ""
}

// volatile is what depends on the schedule: how long something took and how often it was
// tried, and which gate was the first.
var volatile = regexp.MustCompile(`,"((latency_ms|duration_ms|attempts)":[0-9]+|gate":"[^"]*")`)

// ending is what every schedule of a settled program must come to.
func (s *sim) ending() Ending {
	e := Ending{Status: s.status, Said: map[string]string{}}
	segment := 0
	for _, r := range s.log.Records(s.run) {
		switch {
		case r.Kind == "run.continued":
			segment++
		case r.Note:
		case r.N > 0:
			e.Said[fmt.Sprint(segment, r.Path, " ", r.Kind, r.N)] = string(volatile.ReplaceAll(r.Body, nil))
		case r.Kind == "effect.finished":
			b, _ := flow.ReadEffect(r.Body)
			said := string(b.Value)
			if b.Error != nil {
				said = "!" + b.Error.Code
			}
			e.Said[fmt.Sprint(segment, r.Path)] = said
		}
	}
	if s.live != nil {
		e.Value = string(s.live.Value)
	}
	return e
}

// differs says where two endings of one program do; "": nowhere. A process that
// died with the end in the log told nobody its value.
func (e Ending) differs(want Ending) string {
	if e.Status != want.Status {
		return fmt.Sprintf("it ended %s, undisturbed %s", e.Status, want.Status)
	}
	if e.Value != "" && want.Value != "" && e.Value != want.Value {
		return fmt.Sprintf("its value is %s, undisturbed %s", e.Value, want.Value)
	}
	for _, place := range slices.Sorted(maps.Keys(want.Said)) {
		if e.Said[place] != want.Said[place] {
			return fmt.Sprintf("at %s stands %q, undisturbed %q", place, e.Said[place], want.Said[place])
		}
	}
	for _, place := range slices.Sorted(maps.Keys(e.Said)) {
		if _, ok := want.Said[place]; !ok {
			return fmt.Sprintf("at %s stands %q, undisturbed nothing", place, e.Said[place])
		}
	}
	return ""
}

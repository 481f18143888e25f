package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// part is one segment of a run as the judge sees it: its records, and the program
// that they must follow from.
type part struct {
	history flow.History
	events  []tipstaff.Event // the run's own
	program program
}

// parts takes the run apart. The program of each part is the one that its first
// record names; whether it may name that is judged apart.
func (j *judge) parts() ([]part, error) {
	segments := j.trace.segments()
	if len(segments) == 1 { // as of nearly every run
		return []part{{segments[0], j.trace.events, j.program}}, nil
	}
	draft, err := readDraft(j.ctx, j.src, j.program.shared().run)
	if err != nil {
		return nil, err
	}
	var parts []part
	from := 0
	for i, h := range segments {
		var c *segment
		first := slices.IndexFunc(j.trace.events[from:], func(e tipstaff.Event) bool { return e.Seq == h.Records[0].Seq })
		if i == 0 {
			c, err = segmentInherited(j.ctx, j.src, draft)
		} else {
			from += first
			c, err = readSegment(j.ctx, j.src, &j.trace.events[from])
		}
		if err != nil {
			return nil, err
		}
		p, err := openSegment(j.ctx, j.src, j.program.shared().run, *draft, c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{history: h, events: j.trace.events[from:], program: p})
	}
	for i := range parts[1:] {
		own := &parts[i]
		own.events = own.events[:len(own.events)-len(parts[i+1].events)]
	}
	return parts, nil
}

// passed checks that the run went on from one part to the next as it had to: the
// same envelopes, the same program, the same results carried over. out is what
// the replay of the part came to.
func (j *judge) passed(was, is *part, out flow.Outcome) {
	end := &is.events[0]
	cut := !was.program.continues()
	if cut == (out.Status == flow.Completed) || cut && out.Status != flow.ParkedRun {
		j.fault("correction_mismatch", end.Seq, "", "the history begins afresh, but the program had %s", out.Status)
		return
	}
	t := &transition{src: j.src, events: append(ownedEvents(was.history.Base), was.events...), put: func(data []byte) (string, error) { return flow.Digest(data), nil }}
	if err := t.follow(j.ctx, was.program, out.Value, cut); err != nil {
		j.fault("correction_mismatch", end.Seq, "", "%v", err)
		return
	}
	j.announced(was, t.before)
	b := tipstaff.BodyOf[tipstaff.RunContinued](end)
	state, err := attached(j.ctx, j.src, b.State)
	if err != nil || !sameJSON(state, flow.JSON(t.to)) {
		j.fault("correction_mismatch", end.Seq, "", "%s", differing(state, flow.JSON(t.to)))
	}
	if !slices.Equal(b.Keep, t.keep) {
		j.fault("correction_mismatch", end.Seq, "", "it keeps %v, but the results that it names are %v", b.Keep, t.keep)
	}
}

// announced checks that a part ends with exactly the envelopes that put the next
// program in force, and has no others of their kind: nil for the last part.
func (j *judge) announced(p *part, want []flow.Draft) {
	var found []tipstaff.Event
	for i := range p.events {
		e := &p.events[i]
		if e.Seq <= j.created() || e.N > 0 { // made with the run, or by the program itself
			continue
		}
		switch e.Kind {
		case tipstaff.KindIntentCompiled, tipstaff.KindIntentCorrect, tipstaff.KindPlanProposed:
			found = append(found, *e)
		}
	}
	if len(found) != len(want) {
		j.fault("correction_mismatch", p.events[len(p.events)-1].Seq, "", "%d envelopes put a program in force where %d must", len(found), len(want))
		return
	}
	for i, d := range want {
		e := &found[i]
		switch {
		case string(e.Kind) != d.Kind || e.From != d.From:
			j.fault("correction_mismatch", e.Seq, "", "%s by %s stands where %s by %s must", e.Kind, e.From, d.Kind, d.From)
		case !sameJSON(e.Body, d.Body):
			j.fault("correction_mismatch", e.Seq, "", "%s: %s", e.Kind, differing(e.Body, d.Body))
		case e.Seq != p.events[len(p.events)-len(want)+i].Seq:
			j.fault("correction_mismatch", e.Seq, "", "%s does not stand right before the history begins afresh", e.Kind)
		}
	}
}

// created is the last record of the transaction that made the run: nobody has
// driven it by then.
func (j *judge) created() int64 {
	for i := range j.trace.events {
		if e := &j.trace.events[i]; e.Kind == tipstaff.KindRunStarted {
			return e.Seq
		}
	}
	return j.trace.events[len(j.trace.events)-1].Seq
}

// differing names the members of two objects that are not equal.
func differing(recorded, want json.RawMessage) string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(recorded, &a) != nil || json.Unmarshal(want, &b) != nil {
		return "it cannot be read"
	}
	var names []string
	for name := range b {
		if !bytes.Equal(canonical(a[name]), canonical(b[name])) {
			names = append(names, name)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "it is not what follows from the records"
	}
	return fmt.Sprintf("%s: %s is recorded, but %s follows from the records", names[0], brief(a[names[0]]), brief(b[names[0]]))
}

func brief(raw json.RawMessage) string {
	const most = 200
	if len(raw) == 0 {
		return "nothing"
	}
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// decidedTo checks the end of a run that a decision has cancelled.
func (j *judge) decidedTo(end *tipstaff.Event, err error) bool {
	var d *declined
	if !errors.As(err, &d) {
		return false
	}
	if b := tipstaff.BodyOf[tipstaff.IntentCancel](end); b.Reason != d.Error() || b.Via != d.decision.Via || b.OnBehalfOf != d.decision.By {
		j.fault("outcome", end.Seq, "", "the run was cancelled by a decision of %s, via %s, and not as the envelope says", d.decision.By, d.decision.Via)
	}
	return true
}

package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Fault is a record that the engine would not have written.
type Fault struct {
	Seq     int64
	Path    string
	Message string
}

func (f Fault) String() string { return fmt.Sprintf("record %d at %q: %s", f.Seq, f.Path, f.Message) }

// Conform checks the rules of the engine that a flow cannot see: how attempts
// count, what precedes what, and that every grant and every refusal was right.
// Whether the flow would have taken these steps is for [Replay] to say. later are
// the limits with which further segments begin, in their order; where none are
// given, those in force go on.
func Conform(h History, limits Use, later ...Use) []Fault {
	c := newConformity(limits, h.Holds)
	c.later = later
	c.history(h)
	return c.faults
}

// Totals is the ledger after the last record of h, as it stands if nothing more
// comes: what is in flight there is charged or held.
func Totals(h History, limits Use) Tally {
	c := newConformity(limits, h.Holds)
	c.history(h)
	c.past.loseOpen()
	return c.past.ledger.tally()
}

type conformity struct {
	past    *past
	limits  Use // of the run's first segment
	blob    func(string) ([]byte, error)
	emitted map[string]int  // by path: the last n
	single  map[string]bool // kind and path of what stands there once
	effects map[string]*effectTrace
	settled map[string]resolution // by gate id
	later   []Use                 // limits of the segments to come
	epoch   int64
	faults  []Fault
}

type effectTrace struct {
	digest   string
	class    Class
	last     int // attempt
	open     bool
	input    bool
	finished bool
}

type resolution struct {
	seq int64
	GateResolved
}

func newConformity(limits Use, holds bool) *conformity {
	c := &conformity{past: newPast(limits, holds), limits: limits, settled: map[string]resolution{}}
	c.begin()
	return c
}

// begin starts a segment: its keys count anew.
func (c *conformity) begin() {
	c.effects, c.emitted, c.single = map[string]*effectTrace{}, map[string]int{}, map[string]bool{}
}

func (c *conformity) fault(r Record, format string, args ...any) {
	c.faults = append(c.faults, Fault{r.Seq, r.Path, fmt.Sprintf(format, args...)})
}

func (c *conformity) history(h History) {
	c.blob = h.Blob
	for _, r := range h.Base {
		if inherited(r.Kind, r.N) {
			c.record(r)
		}
	}
	c.past.leaveBase(c.limits)
	c.faults, c.epoch = nil, 0 // the base is verified as a run of its own
	for _, r := range h.Records {
		c.record(r)
	}
}

func (c *conformity) record(r Record) {
	if r.Epoch > 0 && r.Epoch < c.epoch {
		c.fault(r, "epoch %d follows epoch %d", r.Epoch, c.epoch)
	}
	c.epoch = max(c.epoch, r.Epoch)
	var effect *Effect
	switch {
	case r.Note && r.Kind == KindBoundReserved:
		c.granted(r)
	case r.Note && r.Kind == KindBoundUsed:
		c.spent(r)
	case r.Note:
	case r.N > 0:
		if r.N != c.emitted[r.Path]+1 {
			c.fault(r, "event %d follows event %d", r.N, c.emitted[r.Path])
		}
		c.emitted[r.Path] = r.N
	default:
		effect = c.rules(r)
	}
	if err := c.past.addRead(r, effect); err != nil {
		c.fault(r, "%v", err)
	}
	if r.Kind == KindRunContinued {
		c.begin()
	}
}

// rules looks at a record before the fold takes it. It returns what it has read of an
// effect.
func (c *conformity) rules(r Record) *Effect {
	switch r.Kind {
	case KindEffectIntended, KindEffectFailed, KindEffectSuspended, KindEffectFinished:
		if b, err := ReadEffect(r.Body); err == nil {
			c.effect(r, &b)
			return &b
		}
	case KindGateOpened, KindIntentClarify:
		c.asks(r)
	case KindGateResolved, KindIntentAccept, KindIntentAnswer:
		c.resolved(r)
	case KindGateTaken:
		c.once(r)
		c.taken(r)
	case KindClockRead, KindTimerSet, KindGroupClosed:
		c.once(r)
	case KindTimerFired:
		c.once(r)
		var b TimerFired
		t := c.past.timers[r.Path]
		switch {
		case json.Unmarshal(r.Body, &b) != nil:
		case t == nil:
			c.fault(r, "a timer fired that was never set")
		case b.T.Before(t.until):
			c.fault(r, "the timer fired %v early", t.until.Sub(b.T.Time))
		}
	case KindRunContinued:
		c.continued(r)
	case KindRunForked:
		c.forked(r)
	}
	return nil
}

// once finds a second record of a kind where only one can stand.
func (c *conformity) once(r Record) {
	key := r.Kind + " " + r.Path
	if c.single[key] {
		c.fault(r, "%s stands there twice", r.Kind)
	}
	c.single[key] = true
}

// asks checks that a gate's digest is that of what it shows. Where it is opened
// anew, after it was closed without a decision, it may be taken again.
func (c *conformity) asks(r Record) {
	delete(c.single, "gate.taken "+r.Path)
	if r.Kind == KindIntentClarify { // its digest follows from what it shows
		return
	}
	b, err := ReadOpened(r.Kind, r.Body)
	if err != nil {
		return
	}
	subject, err := payload(b.Subject, c.blob)
	if err != nil {
		return // a missing blob is a matter of integrity
	}
	if sum := GateDigest(Gate{Kind: b.Kind, Question: b.Question, Subject: subject, Actions: b.Actions, Deny: b.Deny}); sum != b.Digest {
		c.fault(r, "what it shows has the digest %s, not %s", sum, b.Digest)
	}
}

func (c *conformity) resolved(r Record) {
	b, err := ReadResolved(r.Kind, r.Body)
	if err != nil || b.Gate == "" {
		return
	}
	if _, twice := c.settled[b.Gate]; twice {
		c.fault(r, "gate %s was already closed", b.Gate)
		return
	}
	c.settled[b.Gate] = resolution{r.Seq, b}
	if g := c.past.byID[b.Gate]; g != nil && b.SubjectDigest != g.digest && r.Kind == KindGateResolved {
		c.fault(r, "it decides about %s, but gate %s asks about %s", b.SubjectDigest, b.Gate, g.digest)
	}
}

func (c *conformity) taken(r Record) {
	var b GateTaken
	if json.Unmarshal(r.Body, &b) != nil {
		return
	}
	switch d, ok := c.settled[b.Gate]; {
	case !ok || d.seq != b.Seq || d.seq >= r.Seq && c.epoch > 0:
		c.fault(r, "it takes record %d, which is no earlier decision of gate %s", b.Seq, b.Gate)
	case !d.Decision():
		c.fault(r, "it takes a closing (%s), which is no decision", d.Via)
	}
}

// continued checks the totals that a segment hands on.
func (c *conformity) continued(r Record) {
	var b RunContinued
	if json.Unmarshal(r.Body, &b) != nil || c.past.records == 0 {
		return // the first record of a segment: its totals are those of the one before
	}
	c.past.loseOpen()
	if diff := differs(b.Used, c.past.ledger.used); diff != "" {
		c.fault(r, "used %s is not the sum of what was recorded", diff)
	}
	if diff := differs(b.Held, c.past.ledger.held); diff != "" {
		c.fault(r, "held %s is not the sum of what was lost", diff)
	}
	want := c.past.ledger.limit
	if len(c.later) > 0 {
		want, c.later = c.later[0], c.later[1:]
	}
	if diff := differs(b.Limit, want); diff != "" {
		c.fault(r, "the limit of %s is not the one that was in force", diff)
	}
}

// forked checks what a fork takes over: it has used no less than its base, for
// going back gives no budget back, and the limits are those it was given.
func (c *conformity) forked(r Record) {
	var b RunForked
	if json.Unmarshal(r.Body, &b) != nil {
		return
	}
	if b.Counters != nil {
		c.past.loseOpen()
		for _, name := range c.past.ledger.used.names() {
			if used := c.past.ledger.used[name]; b.Counters[name] < used {
				c.fault(r, "it begins with %d %s used, but its base had used %d", b.Counters[name], name, used)
			}
		}
		for _, name := range c.past.ledger.held.names() {
			if all := c.past.ledger.used[name] + c.past.ledger.held[name]; b.Counters[name]+b.Held[name] < all {
				c.fault(r, "it begins with %d %s used or held, but its base had %d", b.Counters[name]+b.Held[name], name, all)
			}
		}
	}
	if diff := differs(b.Limit, c.past.ledger.limit); b.Limit != nil && diff != "" {
		c.fault(r, "the limit of %s is not the one that it was given", diff)
	}
}

// granted checks what an attempt was given while it ran.
func (c *conformity) granted(r Record) {
	t := c.effects[r.Path]
	if t == nil || !t.open {
		c.fault(r, "more is reserved, but no attempt is under way")
		return
	}
	by := grantOf(r)
	if err := by.grantable(); err != nil {
		c.fault(r, "%v", err)
	}
	c.fits(r, &c.past.ledger, by)
}

// spent checks what an attempt is said to have used while it ran.
func (c *conformity) spent(r Record) {
	if t := c.effects[r.Path]; t == nil || !t.open {
		c.fault(r, "a use is told, but no attempt is under way")
	}
	for name, n := range spentOf(r) {
		if n < 0 || !Estimated(name) {
			c.fault(r, "%d %s is nothing that an attempt under way can tell", n, name)
		}
	}
}

// fits checks a grant against the ledger as it stood then.
func (c *conformity) fits(r Record, l *ledger, wanted Use) {
	if name := l.refuses(wanted); name != "" {
		c.fault(r, "%s was granted beyond its bound: limit %d, used %d, held %d, reserved %d, wanted %d",
			name, l.limit[name], l.used[name], l.held[name], l.reserved[name], wanted[name])
	}
}

// differs names the first amount that is not equal in a and b.
func differs(a, b Use) string {
	all := a.clone()
	all.add(b)
	for _, name := range all.names() {
		if a[name] != b[name] {
			return name
		}
	}
	return ""
}

func (c *conformity) effect(r Record, b *Effect) {
	t := c.effects[r.Path]
	if t == nil {
		t = &effectTrace{}
		c.effects[r.Path] = t
	}
	if t.finished {
		c.fault(r, "%s after the call was finished", r.Kind)
	}
	if b.Digest != "" {
		if t.digest != "" && t.digest != b.Digest {
			c.fault(r, "its digest %s is not the call's %s", b.Digest, t.digest)
		}
		t.digest = b.Digest
	}
	if b.Input != nil && b.Name != "" && !t.input {
		t.input = true
		if sum, ok := inputDigest(b); ok && sum != b.Digest {
			c.fault(r, "its input has the digest %s, not %s", sum, b.Digest)
		}
	}
	switch r.Kind {
	case KindEffectIntended:
		c.intended(r, b, t)
	case KindEffectFailed:
		c.attempt(r, b, t)
		if t.class == Once {
			c.fault(r, "a once call is never retried")
		}
		t.open = false
	case KindEffectSuspended:
		c.attempt(r, b, t)
		if t.class == Once {
			c.fault(r, "a once call is never suspended")
		}
		t.open = true
	case KindEffectFinished:
		c.finished(r, b, t)
	}
}

// inputDigest is not known where the input is a blob.
func inputDigest(b *Effect) (string, bool) {
	if isReference(b.Input) {
		return "", false
	}
	return CallDigest(b.Name, b.Input), true
}

func (c *conformity) intended(r Record, b *Effect, t *effectTrace) {
	if b.Attempt != t.last+1 {
		c.fault(r, "attempt %d follows attempt %d", b.Attempt, t.last)
	}
	if t.class == Once {
		if g := c.past.gates[doubtKey(r.Path, t.last)]; g == nil || g.taken == nil || g.taken.Action != "retry" {
			c.fault(r, "a once call is made again, and nobody has decided that it is")
		}
	}
	t.last, t.class, t.open = b.Attempt, b.Class, true
	l := c.past.ledger // as it stands when this attempt is granted
	if former := c.past.calls[r.Path]; former != nil {
		l.used, l.held, l.reserved = l.used.clone(), l.held.clone(), l.reserved.clone()
		l.settle(former.reserve, former.known, Lost)
	}
	c.fits(r, &l, b.Reserve)
}

// attempt checks the number of a failed or suspended attempt: the open one, or
// the next if nothing was intended.
func (c *conformity) attempt(r Record, b *Effect, t *effectTrace) {
	want := t.last
	if !t.open {
		want++
	}
	if b.Attempt != want {
		c.fault(r, "attempt %d, but %d was due", b.Attempt, want)
	}
	t.last = max(t.last, b.Attempt)
}

func (c *conformity) finished(r Record, b *Effect, t *effectTrace) {
	t.finished = true
	if !t.input {
		c.fault(r, "the call was finished but never intended")
	}
	refused := b.Error != nil && b.Error.NotSent
	switch {
	case t.open && b.Attempt == t.last:
	case b.Attempt == t.last+1 && (refused || !t.open):
	default:
		c.fault(r, "finished as attempt %d after attempt %d", b.Attempt, t.last)
	}
	if b.Wanted != nil {
		c.refusal(r, b)
	}
	c.given(r, b)
	t.open = false
}

// given checks an outcome that a person decided: it is the answer they gave.
func (c *conformity) given(r Record, b *Effect) {
	g := c.past.gates[doubtKey(r.Path, b.Attempt)]
	if g == nil || g.taken == nil {
		if b.By != "" {
			c.fault(r, "%s is said to have decided the outcome, but no such decision was taken", b.By)
		}
		return
	}
	answer := g.taken.Answer
	if call := c.past.calls[r.Path]; len(answer) == 0 && g.taken.Action == "use_result" && call != nil && call.offer(b.Attempt) != nil {
		c.offered(r, b, call.given)
		return
	}
	if len(answer) == 0 {
		answer = json.RawMessage("null")
	}
	switch {
	case b.By != g.taken.By:
		c.fault(r, "the outcome was decided by %s, not by %q", g.taken.By, b.By)
	case g.taken.Action == "use_result" && !bytes.Equal(answer, b.Value):
		c.fault(r, "its value is not the answer of gate %s", g.id)
	case g.taken.Action == "fail" && (b.Error == nil || b.Error.Code != CodeInDoubt):
		c.fault(r, "gate %s decided that the call failed", g.id)
	case g.taken.Action == "retry":
		c.fault(r, "gate %s decided that the call is tried again", g.id)
	}
}

// offered checks an outcome that was brought for a call in doubt.
func (c *conformity) offered(r Record, b *Effect, given *EffectGiven) {
	if b.By != "" || !bytes.Equal(given.Value, b.Value) || !bytes.Equal(JSON(given.Error), JSON(b.Error)) || differs(given.Use, b.Use) != "" {
		c.fault(r, "it is not what %s brought for the call", given.From)
	}
}

// refusal checks that what was refused would not have fitted, unless somebody who
// was asked has refused it: another may have extended the bound meanwhile.
func (c *conformity) refusal(r Record, b *Effect) {
	if b.Error == nil || b.Error.Bound == WallTime || c.past.stoppedAt(r.Path) {
		return
	}
	l := &c.past.ledger
	name := b.Error.Bound
	left, bounded := l.left(name)
	switch {
	case !bounded || b.Wanted[name] <= left:
		c.fault(r, "%s was refused although it fitted: limit %d, used %d, held %d, reserved %d, wanted %d",
			name, l.limit[name], l.used[name], l.held[name], l.reserved[name], b.Wanted[name])
	case l.held[name] > 0:
		c.fault(r, "%s was refused, and nobody was asked about the %d that are held for attempts that were lost", name, l.held[name])
	}
}

package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// past is the folded history of a segment: what stands recorded at each path.
// The same structure takes what the running drive records, so that a key asked
// for twice is found whoever asked first.
type past struct {
	calls  map[string]*call
	gates  map[string]*gate // by key
	byID   map[string]*gate
	emits  map[emitKey]*mark
	timers map[string]*timer
	clocks map[string]*clock
	groups map[string]*closed

	ledger  ledger
	warned  map[string]bool
	wall    time.Duration // of the drives before this one
	latest  time.Time     // the latest time any record carries or names
	records int           // without notes
	last    int64         // seq
	cancel  *RunCancelRequested
	cut     bool
	state   json.RawMessage // of the run.continued that opens the segment
}

type call struct {
	name, digest string
	class        Class
	attempt      int  // the last one recorded
	open         bool // begun, neither failed nor finished
	intended     bool // of the open attempt: there is an effect.intended
	suspended    bool // until it has an outcome: every drive enters the same attempt
	reserve      Use  // of the open attempt; nil: there is none, or it holds nothing
	known        Use  // what the open attempt is known to have used
	failures     int  // attempts that are recorded as failed
	retryAt      time.Time
	inputKnown   bool        // some record has the input
	sent         time.Time   // when the open attempt was intended
	lost         *EffectLost // what is known of a once attempt that may have taken effect
	given        *EffectGiven
	recall       *attempt // by which the outcome of an earlier drive's attempt is looked for

	done  bool
	value json.RawMessage
	err   *Error
	use   Use
	ms    int64
	by    string

	charged, forfeit int64 // of cost_usd, for all attempts; of that, where nothing was reported. What is held is in neither

	asked     bool
	as        Class // that it was asked for with
	intends   bool  // its first attempt is recorded before it is made
	reclassed bool  // its attempts were recorded with several classes
}

type gate struct {
	id, key, kind, digest string
	deny                  string
	expires               time.Time
	decision              *decision // the stored answer, if it is a decision
	closed                bool      // by superseded or run_ended
	taken                 *decision
	asked                 bool
	waiter                *waiter // who waits for it in this drive
	scope                 *scope  // where
	opening               bool    // its policy.gate is being written
}

type decision struct {
	seq int64
	Decision
}

type emitKey struct {
	path string
	n    int
}

type mark struct {
	kind, digest string
	asked        bool
}

type timer struct {
	until, fired time.Time
	asked        bool
}

type clock struct {
	t     time.Time
	asked bool
}

type closed struct {
	skipped map[string]bool
	asked   bool
}

func newPast(limits Use, holds bool) *past {
	return &past{
		calls: map[string]*call{}, gates: map[string]*gate{}, byID: map[string]*gate{},
		emits: map[emitKey]*mark{}, timers: map[string]*timer{}, clocks: map[string]*clock{},
		groups: map[string]*closed{}, ledger: newLedger(limits, holds), warned: map[string]bool{},
	}
}

// isEmpty reports whether there is nothing that the flow owns.
func (p *past) isEmpty() bool {
	return len(p.calls)+len(p.gates)+len(p.emits)+len(p.timers)+len(p.clocks)+len(p.groups) == 0
}

// foldHistory reads a segment. Of a fork's base it takes what the flow owns, the
// decisions that were taken and what was used; time goes on from there.
func foldHistory(h History, limits Use) (*past, error) {
	p := newPast(limits, h.Holds)
	for _, r := range h.Base {
		if !inherited(r.Kind, r.N) {
			p.reach(r.At)
		} else if err := p.add(r); err != nil {
			return nil, err
		}
	}
	p.leaveBase(limits)
	for _, r := range h.Records {
		if err := p.add(r); err != nil {
			return nil, err
		}
	}
	p.wall = Wall(h)
	return p, nil
}

// leaveBase begins a run's own records. After those of a fork's base their numbers
// count anew, and the limits are those that the fork was given, be they more or less
// than its source had.
func (p *past) leaveBase(limits Use) {
	p.dropUntaken()
	p.last = 0
	p.ledger.limit = limits.clone()
}

// inherited tells what a fork takes over from its source. Of the base's notes it
// is what attempts were granted and used; ownership, cancels and ends stay behind.
func inherited(kind string, n int) bool {
	switch kind {
	case KindRunContinued, KindRunForked, KindBoundReserved, KindBoundUsed, KindEffectGiven:
		return true
	}
	return Closes(kind) || Owned(kind, n)
}

// Owned tells which records follow from the program, so that a replay must ask
// for each of them.
func Owned(kind string, n int) bool {
	switch kind {
	case KindEffectIntended, KindEffectFailed, KindEffectSuspended, KindEffectFinished,
		KindGateOpened, KindIntentClarify, KindGateTaken, KindGroupClosed, KindTimerSet, KindTimerFired, KindClockRead:
		return true
	}
	return n > 0
}

func (p *past) dropUntaken() {
	for key, g := range p.gates {
		if g.taken == nil {
			delete(p.gates, key)
			delete(p.byID, g.id)
		}
	}
}

func (p *past) add(r Record) error { return p.addRead(r, nil) }

// addRead is add for whoever has read the body of an effect already; nil: nobody has.
func (p *past) addRead(r Record, effect *Effect) error {
	p.last = max(p.last, r.Seq)
	p.reach(r.At)
	if r.Note {
		p.addNote(r)
		return nil
	}
	p.records++
	if r.N > 0 {
		p.emits[emitKey{r.Path, r.N}] = &mark{kind: r.Kind, digest: digest(r.Kind, r.Body)}
		return nil
	}
	if err := p.addKind(r, effect); err != nil {
		return fmt.Errorf("record %d (%s at %q) cannot be read: %w", r.Seq, r.Kind, r.Path, err)
	}
	return nil
}

// reach keeps the run's time from falling below t.
func (p *past) reach(t time.Time) {
	if t.After(p.latest) {
		p.latest = t
	}
}

// addNote takes what the engine itself has noted. Of others' notes it knows
// nothing.
func (p *past) addNote(r Record) {
	switch r.Kind {
	case KindBoundWarned:
		var b BoundWarned
		if json.Unmarshal(r.Body, &b) == nil {
			p.warned[b.Bound] = true
		}
	case KindEffectLost:
		if c := p.calls[r.Path]; c != nil {
			c.lost = new(EffectLost)
			_ = json.Unmarshal(r.Body, c.lost) // what cannot be read is not known
		}
	case KindBoundReserved:
		if c := p.calls[r.Path]; c != nil && !c.done {
			p.holdMore(c, grantOf(r))
		}
	case KindBoundUsed:
		if c := p.calls[r.Path]; c != nil && c.open {
			c.known = spentOf(r)
		}
	}
}

// spentOf is what an attempt was known to have used while it ran.
func spentOf(r Record) Use {
	var b BoundUsed
	_ = json.Unmarshal(r.Body, &b) // what cannot be read is not known
	return b.SoFar
}

// grantOf is what an attempt was granted while it ran.
func grantOf(r Record) Use {
	var b BoundReserved
	if json.Unmarshal(r.Body, &b) != nil {
		return nil
	}
	return b.By
}

func (p *past) addKind(r Record, effect *Effect) error {
	switch r.Kind {
	case KindEffectIntended, KindEffectFailed, KindEffectSuspended, KindEffectFinished:
		if effect == nil {
			b, err := ReadEffect(r.Body)
			if err != nil {
				return err
			}
			effect = &b
		}
		p.addEffect(r, effect)
	case KindGateOpened, KindIntentClarify:
		b, err := ReadOpened(r.Kind, r.Body)
		if err != nil {
			return err
		}
		p.openGate(&gate{id: b.Gate, key: r.Path, kind: b.Kind, digest: b.Digest, deny: b.Deny, expires: b.ExpiresAt.Time})
	case KindGateResolved, KindIntentAccept, KindIntentAnswer:
		return p.addDecision(r)
	case KindGateTaken:
		b, err := readAs[GateTaken](r.Body)
		if err != nil {
			return err
		}
		if g := p.byID[b.Gate]; g != nil && g.decision != nil && g.decision.seq == b.Seq {
			p.take(g)
		}
	case KindEffectGiven:
		return p.give(r)
	case KindGroupClosed:
		var b GroupClosed
		if err := json.Unmarshal(r.Body, &b); err != nil {
			return err
		}
		c := &closed{skipped: map[string]bool{}}
		for _, name := range b.Skipped {
			c.skipped[name] = true
		}
		p.groups[r.Path] = c
	case KindTimerSet, KindTimerFired, KindClockRead:
		return p.addTime(r)
	case KindRunCancelRequested:
		p.cancel = new(RunCancelRequested)
		return json.Unmarshal(r.Body, p.cancel)
	case KindRunCorrectionRequested:
		p.cut = true
	case KindRunContinued, KindRunForked:
		return p.carry(r)
	case KindDraftUpdated: // nothing is driven yet: whoever holds the draft says what was used
		var b DraftUsed
		if err := json.Unmarshal(r.Body, &b); err != nil {
			return err
		}
		if b.Used != nil {
			p.ledger.used = b.Used
		}
	}
	return nil
}

func (p *past) addEffect(r Record, b *Effect) {
	c := p.calls[r.Path]
	if c == nil {
		c = &call{}
		p.calls[r.Path] = c
	}
	if b.Name != "" {
		c.name = b.Name
	}
	if b.Digest != "" {
		c.digest = b.Digest
	}
	if b.Input != nil {
		c.inputKnown = true
	}
	if p.ledger.holds && c.open && b.Attempt > c.attempt {
		p.loseCall(c) // which the refusal of the next attempt alone tells
	}
	c.attempt = max(c.attempt, b.Attempt)
	switch r.Kind {
	case KindEffectIntended:
		p.loseCall(c) // of a former attempt
		c.reclassed = c.reclassed || c.class != "" && c.class != b.Class
		c.class, c.open, c.intended, c.suspended, c.reserve, c.known = b.Class, true, true, false, b.Reserve, nil
		c.retryAt, c.sent = time.Time{}, r.At
		p.ledger.reserve(b.Reserve)
	case KindEffectFailed:
		p.settleCall(c, b)
		c.failures++
		c.retryAt = b.RetryAt.Time
	case KindEffectSuspended:
		c.suspended = true
	case KindEffectFinished:
		p.settleCall(c, b)
		c.done, c.value, c.err = true, b.Value, b.Error
		c.use, c.ms, c.by = b.Use, b.Took().Milliseconds(), b.By
	}
}

// give keeps an outcome that was brought for an attempt without one. The first counts.
func (p *past) give(r Record) error {
	b := new(EffectGiven)
	if err := json.Unmarshal(r.Body, b); err != nil {
		return err
	}
	if c := p.calls[r.Path]; c != nil && !c.done && c.offer(b.Attempt) == nil {
		c.given = b
	}
	return nil
}

// offer is the outcome that was brought for an attempt; nil: none was.
func (c *call) offer(attempt int) *EffectGiven {
	if c.given == nil || c.given.Attempt != attempt {
		return nil
	}
	return c.given
}

// settleCall ends the open attempt of a call as the record of its end says.
func (p *past) settleCall(c *call, b *Effect) {
	use, how := b.Use, b.Fate()
	if how == Lost && use == nil {
		use = c.known
	}
	p.ledger.held.add(b.Held)
	p.closeAttempt(c, use, how)
}

// loseCall ends the open attempt of a call that nobody will hear of any more.
func (p *past) loseCall(c *call) { p.closeAttempt(c, c.known, Lost) }

func (p *past) closeAttempt(c *call, reported Use, how Fate) {
	before := p.ledger.used[CostUSD]
	p.ledger.settle(c.reserve, reported, how)
	charged := p.ledger.used[CostUSD] - before
	c.charged += charged
	if _, told := reported[CostUSD]; !told {
		c.forfeit += charged
	}
	c.open, c.intended, c.suspended, c.reserve, c.known = false, false, false, nil, nil
}

// holdMore adds to what the open attempt of a call holds. The map is a new one:
// the old may be the program's.
func (p *past) holdMore(c *call, more Use) {
	sum := c.reserve.clone()
	sum.add(more)
	c.open, c.reserve = true, sum
	p.ledger.reserve(more)
}

// loseOpen settles what is in flight where a segment, a run or a fork's base ends:
// nobody will know what an attempt used. What is suspended goes on elsewhere, and keeps
// accounts of its own there.
func (p *past) loseOpen() {
	for _, c := range p.calls {
		if c.open && !c.suspended {
			p.ledger.settle(c.reserve, c.known, Lost)
			c.reserve, c.known = nil, nil
		}
	}
}

func (p *past) openGate(g *gate) {
	p.gates[g.key] = g
	p.byID[g.id] = g
}

// childrenOf names the segments right below path at which something stands.
func (p *past) childrenOf(path string) map[string]bool {
	below := map[string]bool{}
	if path != "" {
		path += "/"
	}
	note := func(at string) {
		if rest, ok := strings.CutPrefix(at, path); ok {
			segment, _, _ := strings.Cut(rest, "/")
			below[segment] = true
		}
	}
	for at := range p.calls {
		note(at)
	}
	for at := range p.gates {
		note(at)
	}
	for key := range p.emits {
		note(key.path)
	}
	for at := range p.timers {
		note(at)
	}
	for at := range p.clocks {
		note(at)
	}
	for at := range p.groups {
		note(at)
	}
	return below
}

func (p *past) addDecision(r Record) error {
	b, err := ReadResolved(r.Kind, r.Body)
	if err != nil {
		return err
	}
	g := p.byID[b.Gate]
	switch {
	case g == nil || g.decision != nil:
	case !b.Decision():
		g.closed = true
	default:
		by := b.OnBehalfOf
		if by == "" {
			by = "local:cli"
		}
		g.decision = &decision{r.Seq, Decision{Gate: g.id, Action: b.Action, Answer: b.Answer, Feedback: b.Feedback,
			Note: b.Note, FailReason: b.FailReason, By: by, Via: b.Via}}
	}
	return nil
}

// take marks the stored decision as used by the run, and lets it take effect:
// before that a bound is not extended, and an attempt in doubt not settled. One that
// is to be tried again is settled by that: until the next intent the call is as one
// that was never begun.
func (p *past) take(g *gate) {
	g.taken = g.decision
	switch {
	case g.kind == "bound" && g.taken.Action == "extend":
		p.ledger.extend(extension(g.taken.Answer))
	case g.kind == "in_doubt" && g.taken.Action == "retry":
		if c := p.calls[parent(g.key)]; c != nil && c.open {
			p.loseCall(c)
		}
	}
}

// stoppedAt reports whether a bound gate of the call at path was answered with
// anything but an extension.
func (p *past) stoppedAt(path string) bool {
	for k := 1; ; k++ {
		g := p.gates[join(path, numbered("bound", k))]
		if g == nil || g.taken == nil {
			return false
		}
		if g.taken.Action != "extend" {
			return true
		}
	}
}

func extension(answer json.RawMessage) Use {
	var by Use
	if json.Unmarshal(answer, &by) != nil {
		return nil
	}
	return by
}

func (p *past) addTime(r Record) error {
	if r.Kind == KindTimerSet {
		b, err := readAs[TimerSet](r.Body)
		p.timers[r.Path] = &timer{until: b.Until.Time}
		return err
	}
	b, err := readAs[TimerFired](r.Body)
	if err != nil {
		return err
	}
	p.reach(b.T.Time)
	switch r.Kind {
	case KindClockRead:
		p.clocks[r.Path] = &clock{t: b.T.Time}
	case KindTimerFired:
		if t := p.timers[r.Path]; t != nil {
			t.fired = b.T.Time
		}
	}
	return nil
}

// carry takes over the totals of what came before this segment or fork.
func (p *past) carry(r Record) error {
	if r.Kind == KindRunForked {
		var b RunForked
		if err := json.Unmarshal(r.Body, &b); err != nil {
			return err
		}
		if b.Counters != nil {
			p.loseOpen() // it is in the counters, so nobody may charge it again
			p.ledger.used, p.ledger.held = b.Counters.clone(), b.Held.clone()
		}
		return nil
	}
	var b RunContinued
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return err
	}
	p.reach(b.T.Time)
	fresh := newPast(b.Limit, p.ledger.holds)
	fresh.ledger.used.add(b.Used)
	fresh.ledger.held.add(b.Held)
	fresh.state, fresh.last, fresh.latest, fresh.warned = b.State, p.last, p.latest, p.warned
	if fresh.state == nil {
		fresh.state = json.RawMessage("null")
	}
	*p = *fresh
	return nil
}

// payload puts back a value that stands in a record by digest alone. A log
// without blobs keeps everything as it is, whatever it looks like.
func payload(raw json.RawMessage, blob func(string) ([]byte, error)) (json.RawMessage, error) {
	if blob == nil || !isReference(raw) {
		return raw, nil
	}
	var ref struct {
		Blob string `json:"$blob"`
	}
	if err := json.Unmarshal(raw, &ref); err != nil {
		return nil, err
	}
	return blob(ref.Blob)
}

func isReference(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte(`{"$blob":`)) }

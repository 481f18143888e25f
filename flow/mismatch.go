package flow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// NonDeterminism: the program no longer fits its history. Nothing was changed.
type NonDeterminism struct {
	Path            string
	Recorded, Asked string // what stands there and what was asked for; "" is nothing
	// Was and Input are what was recorded and what was asked for: the input of a call, the
	// body of an event, what a gate asks. nil: there is none, or it cannot be read.
	Was, Input json.RawMessage
	// Instead is, of a record that nobody asks for any more, where the program would do
	// what is in Asked; "": it would do nothing new.
	Instead string
	Seq     int64 // of the record; 0: it is one of a fork's source, or there is none
}

func (e *NonDeterminism) Error() string {
	recorded, _, _ := strings.Cut(e.Recorded, " sha256:")
	asked, _, _ := strings.Cut(e.Asked, " sha256:")
	var said string
	switch {
	case e.Instead != "":
		said = fmt.Sprintf("%s is recorded and no longer asked for; %s at %q would be new, with %s",
			recorded, asked, e.Instead, e.difference("the same input"))
	case e.Asked == "":
		said = recorded + " is recorded and no longer asked for"
	case e.Was != nil && e.Input != nil:
		said = fmt.Sprintf("%s was recorded with %s", recorded, e.difference("the same input in another spelling"))
	default:
		said = fmt.Sprintf("recorded %s, asked for %s", cmp.Or(e.Recorded, "nothing"), e.Asked)
	}
	return fmt.Sprintf("the program does not fit its history at %q: %s", e.Path, said)
}

// mostDifferences is how many places a message about a mismatch names.
const mostDifferences = 3

// difference says in what both inputs differ; two digests tell nobody what to look at.
func (e *NonDeterminism) difference(none string) string {
	if e.Was == nil || e.Input == nil {
		return "an input that cannot be compared"
	}
	list := Differences(e.Was, e.Input)
	if len(list) == 0 {
		return none
	}
	var places []string
	for _, d := range list[:min(len(list), mostDifferences)] {
		places = append(places, fmt.Sprintf("%s: recorded %s, asked for %s", cmp.Or(d.Pointer, "all of it"), brief(d.Was), brief(d.Now)))
	}
	if left := len(list) - len(places); left > 0 {
		places = append(places, fmt.Sprintf("and %d more", left))
	}
	return "another input: " + strings.Join(places, "; ")
}

func brief(raw json.RawMessage) string {
	const most = 200
	switch {
	case len(raw) == 0:
		return "nothing"
	case len(raw) > most:
		return strings.ToValidUTF8(string(raw[:most]), "") + "…"
	}
	return string(raw)
}

// Difference is a place at which two JSON values differ: a JSON pointer, and what
// stands there in each. nil is nothing.
type Difference struct {
	Pointer  string
	Was, Now json.RawMessage
}

// Differences lists where two JSON values differ, by pointer, sorted. Objects are
// compared member by member; lists too, if they are equally long.
func Differences(was, now json.RawMessage) []Difference {
	var a, b any
	if json.Unmarshal(was, &a) != nil || json.Unmarshal(now, &b) != nil {
		return nil
	}
	var list []Difference
	compare("", a, b, func(pointer string, was, now json.RawMessage) { list = append(list, Difference{pointer, was, now}) })
	return sortedBy(list, func(d Difference) string { return d.Pointer })
}

// compare calls differs for each place at which a and b differ; a value that is
// absent is nil.
func compare(pointer string, a, b any, differs func(pointer string, was, now json.RawMessage)) {
	x, isObject := a.(map[string]any)
	y, both := b.(map[string]any)
	if isObject && both {
		compareObjects(pointer, x, y, differs)
		return
	}
	l, isList := a.([]any)
	m, both := b.([]any)
	if isList && both && len(l) == len(m) {
		for i := range l {
			compare(pointer+"/"+strconv.Itoa(i), l[i], m[i], differs)
		}
		return
	}
	if was, now := JSON(a), JSON(b); !bytes.Equal(was, now) {
		differs(pointer, was, now)
	}
}

func compareObjects(pointer string, a, b map[string]any, differs func(pointer string, was, now json.RawMessage)) {
	for name, was := range a {
		at := pointer + "/" + pointerEscaper.Replace(name)
		if now, ok := b[name]; ok {
			compare(at, was, now, differs)
		} else {
			differs(at, JSON(was), nil)
		}
	}
	for name, now := range b {
		if _, ok := a[name]; !ok {
			differs(pointer+"/"+pointerEscaper.Replace(name), nil, JSON(now))
		}
	}
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// tell fills in what the record says that the program does not fit.
func (e *NonDeterminism) tell(h History) {
	what, sum, _ := strings.Cut(e.Recorded, " sha256:")
	for i, r := range slices.Concat(h.Base, h.Records) {
		was := h.inputOf(r, what, "sha256:"+sum)
		if r.Path != e.Path || was == nil {
			continue
		}
		e.Was = was
		if i >= len(h.Base) {
			e.Seq = r.Seq
		}
		return
	}
}

// inputOf is what a record holds, if it holds that of which a digest was taken: the input
// of a call, the body of an event, or what a gate asks.
func (h History) inputOf(r Record, what, sum string) json.RawMessage {
	switch {
	case r.N > 0:
		if r.Kind == what && digest(r.Kind, r.Body) == sum {
			return r.Body
		}
	case Opens(r.Kind):
		b, err := ReadOpened(r.Kind, r.Body)
		if err == nil && b.Digest == sum {
			b.Subject, err = payload(b.Subject, h.Blob)
			if err == nil {
				return GateJSON(Gate{Actions: b.Actions, Deny: b.Deny, Question: b.Question, Subject: b.Subject})
			}
		}
	case strings.HasPrefix(r.Kind, "effect."):
		if b, err := ReadEffect(r.Body); err == nil && b.Digest == sum && b.Input != nil {
			if input, err := payload(b.Input, h.Blob); err == nil {
				return input
			}
		}
	}
	return nil
}

// hold keeps a branch of a drive that has found records where nothing that is recorded
// answers it, until all branches have come that far: then it is known whether the program
// fits, and nothing was done yet. Called with mu held.
func (d *drive) hold(s *scope, asks func() NonDeterminism) {
	for d.dry && d.ending == notEnding && !s.isClosed() {
		d.block(&waiter{scope: s, asks: asks, ready: func() bool { return !d.dry }})
	}
}

// fit lets the branches that are held go on, if the flow has asked for all that is
// recorded but what may be asked for later. Called with mu held, when nothing can move on
// without doing something new.
func (d *drive) fit(later map[emitKey]bool) {
	left := d.unasked()
	maps.DeleteFunc(left, func(at emitKey, _ string) bool { return later[at] })
	switch {
	case len(left) == 0:
		d.dry = false
		if len(d.queue) > 0 {
			d.arm()
		}
		d.poke()
	case d.startBegun(left):
	default:
		_ = d.misfit(d.leftBehind(left))
	}
}

// startBegun starts the branches that an earlier drive has begun and the limits of their
// groups, which may have been others then, hold back. It reports whether there are any.
func (d *drive) startBegun(left map[emitKey]string) (any bool) {
	for w := range d.blocked {
		for s := w.scope; s != nil; s = s.parent {
			if s.group != nil && s.group.startBegun(left) {
				any = true
			}
		}
	}
	return any
}

// unasked are the places at which something is recorded that the flow owns and has not
// asked for, with what it is. Called with mu held.
func (d *drive) unasked() map[emitKey]string {
	left := map[emitKey]string{}
	miss := func(asked bool, at emitKey, what ...string) {
		if !asked {
			left[at] = strings.Join(what, " ")
		}
	}
	p := d.past
	for path, c := range p.calls {
		miss(c.asked, emitKey{path: path}, c.name, c.digest)
	}
	for key, g := range p.gates {
		miss(g.asked || p.insideCall(key), emitKey{path: key}, g.kind, "gate", g.digest)
	}
	for key, m := range p.emits {
		miss(m.asked, key, m.kind, m.digest)
	}
	for path, t := range p.timers {
		miss(t.asked, emitKey{path: path}, "a sleep")
	}
	for path, c := range p.clocks {
		miss(c.asked, emitKey{path: path}, "a reading of the clock")
	}
	for path, g := range p.groups {
		miss(g.asked, emitKey{path: path}, "the closing of a group")
	}
	return left
}

// leftBehind is the first record that is left, with what the program would do in its
// stead.
func (d *drive) leftBehind(left map[emitKey]string) *NonDeterminism {
	e := &NonDeterminism{}
	h := d.history()
	for _, r := range slices.Concat(h.Base, h.Records) {
		if what, ok := left[emitKey{r.Path, r.N}]; ok && Owned(r.Kind, r.N) {
			e.Path, e.Recorded = r.Path, what
			break
		}
	}
	var nearest *waiter
	for w := range d.blocked {
		if w.asks != nil && (nearest == nil || nearer(w, nearest, e.Path)) {
			nearest = w
		}
	}
	if nearest != nil {
		asks := nearest.asks()
		e.Instead, e.Asked, e.Input = asks.Instead, asks.Asked, asks.Input
	}
	return e
}

// nearer reports whether a asks nearer to a path than b does: of two that are equally
// near, who was held first.
func nearer(a, b *waiter, path string) bool {
	x, y := shared(a.asks().Instead, path), shared(b.asks().Instead, path)
	return x > y || x == y && a.place < b.place
}

// shared counts the bytes with which both paths begin.
func shared(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// misfit ends the drive because the program does not fit what is recorded. Called with mu
// held.
func (d *drive) misfit(e *NonDeterminism) error {
	e.tell(d.history())
	return d.failLocked(fatal, e)
}

// history is what the drive was given, for whoever is told why it ends.
func (d *drive) history() History {
	if d.mode != performing {
		return d.given
	}
	h, _ := d.log.Load(context.Background(), d.job.Run) // what cannot be read is not told
	return h
}

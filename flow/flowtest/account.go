package flowtest

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/tipstaff/tipstaff/flow"
)

// account adds up what a journal says was used, by rules that are written out
// here: an attempt is charged what it reported and, of what it did not report,
// what it held. One that has no outcome is charged when another follows it, or
// when the segment or the run is over. In a run that holds, tokens and cost of such an
// attempt are put aside instead, but for what it is known to have used.
type account struct {
	used, aside flow.Use
	held        map[string]flow.Use // by path
	known       map[string]flow.Use // of that, by path
	attempt     map[string]int      // that was intended last
	waiting     map[string]bool     // suspended: counted elsewhere
	holds       bool
}

func (j journal) account(holds bool) *account {
	a := &account{used: flow.Use{}, aside: flow.Use{}, held: map[string]flow.Use{}, known: map[string]flow.Use{}, attempt: map[string]int{}, waiting: map[string]bool{}, holds: holds}
	for i, r := range j {
		if i == 0 && r.Kind == "run.continued" { // the base of a fork begins here
			a.used, a.aside = sum(read(r).Used), sum(read(r).Held)
			continue
		}
		a.take(r)
	}
	return a
}

func (a *account) take(r flow.Record) {
	b := read(r)
	switch r.Kind {
	case "effect.intended":
		a.vanish(r.Path)
		a.held[r.Path] = sum(b.Reserve)
		a.attempt[r.Path] = b.Attempt
		delete(a.waiting, r.Path)
	case "bound.reserved":
		a.held[r.Path] = sum(a.held[r.Path], granted(r))
	case "bound.used":
		a.known[r.Path] = b.SoFar
	case "effect.suspended":
		a.waiting[r.Path] = true
	case "effect.failed", "effect.finished":
		a.aside = sum(a.aside, b.Held)
		if b.Attempt > a.attempt[r.Path] {
			a.vanish(r.Path)
		}
		charged := sum(a.held[r.Path])
		maps.Copy(charged, b.Use)
		switch {
		case b.By != "" && b.Use == nil:
			a.vanish(r.Path)
		case a.holds && b.Error != nil && b.Error.NotSent && b.Use == nil:
			delete(charged, "tokens")
			delete(charged, "cost_usd")
			fallthrough
		default:
			a.charge(charged)
		}
		delete(a.held, r.Path)
		delete(a.known, r.Path)
		delete(a.waiting, r.Path)
	case "run.forked":
		a.lose()
		a.used, a.aside = sum(b.Counters), sum(b.Held)
	case "run.continued":
		a.lose()
	}
	if terminal(r.Kind) {
		a.lose()
	}
}

func (a *account) charge(u flow.Use) { a.used = sum(a.used, u) }

// lose charges what was under way.
func (a *account) lose() {
	for path := range a.held {
		if !a.waiting[path] {
			a.vanish(path)
		}
	}
	clear(a.held)
	clear(a.waiting)
}

// vanish ends an attempt of which nothing more is heard.
func (a *account) vanish(path string) {
	for name, n := range a.held[path] {
		if a.holds && (name == "tokens" || name == "cost_usd") {
			a.aside = sum(a.aside, flow.Use{name: max(0, n-a.known[path][name])})
			n = 0
		}
		a.charge(flow.Use{name: n})
	}
	a.charge(a.known[path])
	delete(a.held, path)
	delete(a.known, path)
}

// granted is what an attempt got while it ran.
func granted(r flow.Record) flow.Use {
	var b struct{ By flow.Use }
	_ = json.Unmarshal(r.Body, &b) // nothing, then
	return b.By
}

func sum(all ...flow.Use) flow.Use {
	total := flow.Use{}
	for _, u := range all {
		for name, n := range u {
			total[name] += n
		}
	}
	return total
}

// sameUse compares amounts; what is not there is zero.
func sameUse(a, b flow.Use) bool {
	for name := range sum(a, b) {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

// miscounted says how the account of an ended run differs from its records.
func (r *rig) miscounted(j journal) string {
	if j.ended() == "" {
		return ""
	}
	whole := j
	if r.base != nil {
		whole = append(append(journal{}, r.base.records...), j...)
	}
	account := whole.account(r.job.Holds)
	want := account.used
	for _, rec := range j {
		if b := read(rec); terminal(rec.Kind) && b.Evidence.Bounds.Used != nil && !sameUse(b.Evidence.Bounds.Used, want) {
			return fmt.Sprintf("the records add up to %v, the end says %v", want, b.Evidence.Bounds.Used)
		}
	}
	if t := flow.Totals(r.history(), r.job.Limits); !sameUse(t.Used, want) || !sameUse(t.Held, account.aside) {
		return fmt.Sprintf("the records add up to %v and %v held, flow.Totals says %v and %v", want, account.aside, t.Used, t.Held)
	}
	return ""
}

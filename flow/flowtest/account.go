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
// when the segment or the run is over.
type account struct {
	used    flow.Use
	held    map[string]flow.Use // by path
	waiting map[string]bool     // suspended: counted elsewhere
}

func (j journal) account() *account {
	a := &account{used: flow.Use{}, held: map[string]flow.Use{}, waiting: map[string]bool{}}
	for i, r := range j {
		if i == 0 && r.Kind == "run.continued" { // the base of a fork begins here
			a.used = maps.Clone(read(r).Used)
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
		a.charge(a.held[r.Path])
		a.held[r.Path] = sum(b.Reserve)
		delete(a.waiting, r.Path)
	case "bound.reserved":
		a.held[r.Path] = sum(a.held[r.Path], granted(r))
	case "effect.suspended":
		a.waiting[r.Path] = true
	case "effect.failed", "effect.finished":
		charged := sum(a.held[r.Path])
		maps.Copy(charged, b.Use)
		a.charge(charged)
		delete(a.held, r.Path)
		delete(a.waiting, r.Path)
	case "run.forked":
		a.lose()
		a.used = maps.Clone(b.Counters)
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
	for path, u := range a.held {
		if !a.waiting[path] {
			a.charge(u)
		}
	}
	clear(a.held)
	clear(a.waiting)
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
	want := whole.account().used
	for _, rec := range j {
		if b := read(rec); terminal(rec.Kind) && b.Evidence.Bounds.Used != nil && !sameUse(b.Evidence.Bounds.Used, want) {
			return fmt.Sprintf("the records add up to %v, the end says %v", want, b.Evidence.Bounds.Used)
		}
	}
	if used, _ := flow.Totals(r.history(), r.job.Limits); !sameUse(used, want) {
		return fmt.Sprintf("the records add up to %v, flow.Totals says %v", want, used)
	}
	return ""
}

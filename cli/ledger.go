package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// ledger adds up what a run consumes: reservations of calls in flight, and what
// calls that have ended were charged.
type ledger struct {
	limit map[string]string
	used  map[string]int64
	held  map[string]map[string]int64 // by the path of the call
}

func newLedger() ledger {
	return ledger{limit: map[string]string{}, used: map[string]int64{}, held: map[string]map[string]int64{}}
}

func (l *ledger) fold(ev tipstaff.Event, b recordBody) {
	switch ev.Kind {
	case "intent.draft":
		for name, raw := range b.Bounds {
			l.limit[name] = limitText(name, raw)
		}
	case "effect.intended":
		l.charge(l.held[ev.Path]) // an attempt that was lost in a crash is charged in full
		l.held[ev.Path] = b.Reserve
	case "effect.failed", "effect.finished":
		held := l.held[ev.Path]
		delete(l.held, ev.Path)
		charged := maps.Clone(held)
		if charged == nil {
			charged = map[string]int64{}
		}
		maps.Copy(charged, b.Use)
		l.charge(charged)
	case "run.continued": // what was in flight is settled in its totals, and a correction may have other limits
		maps.Copy(l.used, b.Used)
		clear(l.held)
		for name, n := range b.Limit {
			l.limit[name] = amount(name, n)
		}
	case "bound.reserved":
		l.reserve(ev)
	case "run.forked":
		maps.Copy(l.used, b.Counters)
	}
}

// reserve adds what an attempt was granted while it ran.
func (l *ledger) reserve(ev tipstaff.Event) {
	var b struct{ By map[string]int64 }
	if json.Unmarshal(ev.Body, &b) != nil {
		return
	}
	held := maps.Clone(l.held[ev.Path])
	if held == nil {
		held = map[string]int64{}
	}
	for name, n := range b.By {
		held[name] += n
	}
	l.held[ev.Path] = held
}

func (l *ledger) charge(use map[string]int64) {
	for name, n := range use {
		l.used[name] += n
	}
}

// parts are the bounds in use, as "tool_calls 3/20". Wall time is the view's to
// measure.
func (l *ledger) parts(wall time.Duration) []string {
	now := maps.Clone(l.used)
	for _, held := range l.held {
		for name, n := range held {
			now[name] += n
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] != 0 && name != tipstaff.BoundWallTime {
			parts = append(parts, boundPart(name, amount(name, now[name]), l.limit[name]))
		}
	}
	if wall > 0 {
		parts = append(parts, boundPart(tipstaff.BoundWallTime, human(wall), l.limit[tipstaff.BoundWallTime]))
	}
	return parts
}

func boundPart(name, used, limit string) string {
	if limit == "" {
		return name + " " + used
	}
	return name + " " + used + "/" + limit
}

// limitText is a limit as documents spell it: costs are decimal strings and
// times durations. A bare number counts in the ledger's units.
func limitText(name string, raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n int64
	if json.Unmarshal(raw, &n) == nil {
		return amount(name, n)
	}
	return ""
}

// amount is n of a bound for people: cost is kept in 10⁻⁹ USD, time in ms.
func amount(name string, n int64) string {
	switch name {
	case tipstaff.BoundCostUSD:
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%09d", n/1e9, n%1e9), "0"), ".")
	case tipstaff.BoundWallTime:
		return human(time.Duration(n) * time.Millisecond)
	}
	return fmt.Sprint(n)
}

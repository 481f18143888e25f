package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// view draws a run.
type view struct{ *tipstaff.View }

func newView(run tipstaff.ID, name string, o *tipstaff.Outline) view {
	v := view{tipstaff.NewView(name, o)}
	v.Run = run
	return v
}

// bounds are those in use, as "tool_calls 3/20". Wall time is measured.
func (v view) bounds(wall time.Duration) (parts []string) {
	now := maps.Clone(v.Ledger.Used)
	if now == nil {
		now = map[string]int64{}
	}
	for _, held := range v.Ledger.Open {
		for name, n := range held {
			now[name] += n
		}
	}
	delete(now, tipstaff.BoundWallTime)
	if wall > 0 {
		now[tipstaff.BoundWallTime] = wall.Milliseconds()
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] != 0 {
			limit, limited := v.Ledger.Limit[name]
			parts = append(parts, boundText(name, now[name], tipstaff.BoundStatus{Limit: limit, Limited: limited}))
		}
	}
	return parts
}

// boundText is what is used of a bound, as "tool_calls 3/20".
func boundText(name string, used int64, b tipstaff.BoundStatus) string {
	text := name + " " + amount(name, used)
	if b.Limited {
		text += "/" + tipstaff.FormatBound(name, b.Limit)
	}
	return text
}

// amount is n of a bound for people.
func amount(name string, n int64) string {
	if name == tipstaff.BoundWallTime {
		return human(time.Duration(n) * time.Millisecond)
	}
	return tipstaff.FormatBound(name, n)
}

// loopLines show the loops, as ↺ critic → intent 2/3.
func (v view) loopLines() (lines []line) {
	for _, l := range v.Loops {
		text := fmt.Sprintf("%s → %s %d", l.From, l.To, l.Iteration)
		if limit, ok := v.Ledger.Limit[tipstaff.BoundIterations]; ok {
			text += fmt.Sprintf("/%d", limit)
		}
		shown := line{say(yellow, "↺ "), say(plain, text)}
		if l.Refused != "" {
			shown = append(shown, say(red, "  refused: "+l.Refused))
		}
		lines = append(lines, shown)
	}
	return lines
}

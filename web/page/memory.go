package page

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// memoryPages show what the workspace remembers. They change nothing.
var memoryPages = pages{
	"GET /ui/memory":             (*view).memory,
	"GET /ui/memory/{type}/{id}": (*view).memoryItem,
}

const (
	itemsShown = 100
	itemsMost  = 5000
	logShown   = 50
	logLooked  = 2000 // newest records that the history of weights is drawn from
	pointsMost = 200  // of a line
)

// memoryPage is what is remembered, why it is worth what it is, and the log of it all.
type memoryPage struct {
	Types   []string
	Type    string
	Items   []tipstaff.MemoryItem
	More    int // how many to ask for to see more; 0: these are all
	Weights []weightLine
	Log     []tipstaff.MemoryRecord // newest first
	Earlier bool                    // the log has more
	Trouble string                  // why the log cannot be read further
	Report  *tipstaff.MemoryReport
}

// weightLine is one weight: as it is, and how it came to be that.
type weightLine struct {
	Name, Title string
	Now         tipstaff.Billionths
	Points      string // of a line in a box of 200 × 32; "": nothing was learned
}

func (v *view) memory() error {
	page := memoryPage{Types: tipstaff.MemoryTypes(), Type: v.r.FormValue("type")}
	show, err := v.number("show", itemsShown)
	if err != nil {
		return err
	}
	show = min(show, itemsMost)
	all, err := v.s.o.Memory.Items(v.ctx(), tipstaff.MemoryQuery{Type: page.Type, Limit: show + 1, Scored: true})
	if err != nil {
		return err
	}
	if len(all) > show && show < itemsMost {
		all, page.More = all[:show], min(5*show, itemsMost)
	}
	if page.Items, err = v.visible(all); err != nil {
		return err
	}
	if err := v.learned(&page); err != nil {
		return err
	}
	if v.r.FormValue("rebuild") == "check" {
		done, err := v.s.proving.begin(v.signed)
		if err != nil {
			return err
		}
		defer done()
		report, err := v.s.o.Memory.Rebuild(v.ctx(), true)
		if err != nil {
			return err
		}
		page.Report = &report
	}
	return v.show("memory", "Memory", page)
}

// remembered are items that this person may see.
func (v *view) remembered(q tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error) {
	all, err := v.s.o.Memory.Items(v.ctx(), q)
	if err != nil {
		return nil, err
	}
	return v.visible(all)
}

// visible leaves out what was remembered of runs that this person may not see.
func (v *view) visible(all []tipstaff.MemoryItem) (seen []tipstaff.MemoryItem, err error) {
	may := v.mayRecall()
	for _, m := range all {
		ok, err := may(m.Run)
		if err != nil {
			return nil, err
		}
		if ok {
			seen = append(seen, m)
		}
	}
	return seen, nil
}

// mayRecall tells whether this person may see what was remembered of a run.
func (v *view) mayRecall() func(tipstaff.ID) (bool, error) {
	known := map[tipstaff.ID]bool{}
	return func(run tipstaff.ID) (bool, error) {
		may, had := known[run]
		if run.IsZero() || v.signed.SeesAll() || had {
			return !had || may, nil
		}
		_, err := v.s.control.Runs.Get(v.ctx(), run)
		if code := tipstaff.CodeOf(err); err != nil && code != tipstaff.Forbidden && code != tipstaff.RunNotFound {
			return false, err
		}
		known[run] = err == nil
		return err == nil, nil
	}
}

// learned fills in the weights with their history, and the end of the log.
func (v *view) learned(page *memoryPage) error {
	now, err := v.s.o.Memory.Weights(v.ctx())
	if err != nil {
		return err
	}
	newest, err := v.s.o.Memory.Items(v.ctx(), tipstaff.MemoryQuery{Limit: 1})
	if err != nil {
		return err
	}
	after := int64(0)
	if len(newest) > 0 {
		after = max(0, newest[0].Seq-logLooked)
	}
	page.Earlier = after > 0
	may := v.mayRecall()
	var history []tipstaff.MemoryWeights
	for r, err := range v.s.o.Memory.Log(v.ctx(), after) {
		var known *tipstaff.Error
		if errors.As(err, &known) {
			page.Trouble = known.Message
			break
		}
		if err != nil {
			return err
		}
		if r.Weights != nil {
			history = append(history, *r.Weights)
		}
		ok, err := may(r.Run)
		if err != nil {
			return err
		}
		if ok {
			page.Log = append(page.Log, r)
		}
		if len(page.Log) > logShown {
			page.Log, page.Earlier = page.Log[1:], true
		}
	}
	slices.Reverse(page.Log)
	page.Weights = weightLines(now, history)
	return nil
}

func weightLines(now tipstaff.MemoryWeights, history []tipstaff.MemoryWeights) (lines []weightLine) {
	for _, w := range []struct {
		name, title string
		of          func(tipstaff.MemoryWeights) tipstaff.Billionths
	}{
		{"R", "recency", func(w tipstaff.MemoryWeights) tipstaff.Billionths { return w.R }},
		{"A", "accesses", func(w tipstaff.MemoryWeights) tipstaff.Billionths { return w.A }},
		{"C", "citations", func(w tipstaff.MemoryWeights) tipstaff.Billionths { return w.C }},
		{"D", "declared importance", func(w tipstaff.MemoryWeights) tipstaff.Billionths { return w.D }},
		{"V", "nearness of vectors; not learned", func(w tipstaff.MemoryWeights) tipstaff.Billionths { return w.V }},
	} {
		line := weightLine{Name: w.name, Title: w.title, Now: w.of(now)}
		var b strings.Builder
		step := len(history)/pointsMost + 1
		for i := 0; i < len(history); i += step {
			fmt.Fprintf(&b, "%d,%d ", i*200/max(1, len(history)), 32-int64(w.of(history[i]))*32/1e9)
		}
		if len(history) > 0 {
			fmt.Fprintf(&b, "200,%d", 32-int64(line.Now)*32/1e9)
		}
		line.Points = b.String()
		lines = append(lines, line)
	}
	return lines
}

// memoryItemPage is one item, and what its score is made of.
type memoryItemPage struct {
	tipstaff.MemoryItem
	Weights tipstaff.MemoryWeights
	Factors []itemFactor
}

// itemFactor is a part of a score.
type itemFactor struct {
	Name, Title   string
	Value, Weight tipstaff.Billionths
}

func (v *view) memoryItem() error {
	item, err := v.s.o.Memory.Item(v.ctx(), "cortex://"+v.r.PathValue("type")+"/"+v.r.PathValue("id"))
	if err != nil {
		return err
	}
	if ok, err := v.mayRecall()(item.Run); err != nil || !ok {
		return cmp.Or(err, error(tipstaff.Errorf(tipstaff.Forbidden, "this was remembered of another user's run")))
	}
	w, err := v.s.o.Memory.Weights(v.ctx())
	if err != nil {
		return err
	}
	f := item.Factors
	return v.show("memory_item", item.Item, memoryItemPage{item, w, []itemFactor{
		{"R", "recency", f.R, w.R}, {"A", "accesses", f.A, w.A}, {"C", "citations", f.C, w.C}, {"D", "declared importance", f.D, w.D},
	}})
}

// memoryAddress is that of an item's page.
func memoryAddress(item string) string { return "/ui/memory/" + strings.TrimPrefix(item, "cortex://") }

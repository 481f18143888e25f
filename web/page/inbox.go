package page

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// inboxPage is what waits for a person.
type inboxPage struct {
	Gates    []tipstaff.InboxGate
	Next     tipstaff.ID
	Kinds    []inboxFilter
	Programs []inboxFilter
	Chosen   *gatePage      // that stands beside the list; nil: none
	Resume   []tipstaff.Run // that only need to be resumed
	Newest   []tipstaff.Run // when nothing waits
	kept     url.Values     // what the address asks for
}

// inboxFilter is a link that narrows the list.
type inboxFilter struct {
	Title, To string
	Count     int
	Chosen    bool
}

// inbox is the first page: every open gate, those that expire within the hour first.
func (v *view) inbox() error {
	page := &inboxPage{kept: v.r.URL.Query()}
	part := v.r.FormValue("part")
	if part != "gate" {
		if err := v.inboxList(page); err != nil {
			return err
		}
	}
	if id, err := v.id("run"); err != nil {
		return err
	} else if part != "inbox" && !id.IsZero() {
		run, err := v.s.control.Runs.Get(v.ctx(), id)
		if err != nil {
			return err
		}
		if page.Chosen, err = v.gateAt(run, v.r.FormValue("gate")); err != nil {
			return err
		}
	}
	return v.show("inbox", "Inbox", page)
}

// inboxList fills in the gates, how they can be narrowed, and what stands below them.
func (v *view) inboxList(page *inboxPage) error {
	req := tipstaff.InboxRequest{Limit: 100, Program: page.kept.Get("program"), ByProgram: true}
	if kind := page.kept.Get("kind"); kind != "" {
		req.Kinds = []tipstaff.GateKind{tipstaff.GateKind(kind)}
	}
	if after := page.kept.Get("after"); after != "" {
		id, err := tipstaff.ParseID(after)
		if err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "after is not the id of a gate")
		}
		req.After = id
	}
	soon := v.now.Add(time.Hour)
	found, err := v.s.control.Runs.Inbox(v.ctx(), req)
	if err != nil {
		return err
	}
	if req.After.IsZero() { // those that expire soon are all on the first page
		due := req
		due.Due, due.ByProgram = soon, false
		first, err := v.s.control.Runs.Inbox(v.ctx(), due)
		if err != nil {
			return err
		}
		page.Gates = first.Gates
	}
	for _, g := range found.Gates {
		if at := g.Gate.ExpiresAt; at.IsZero() || at.After(soon) {
			page.Gates = append(page.Gates, g)
		}
	}
	page.Next = found.Next
	kinds := found.ByKind
	if req.Kinds != nil { // how many there are of others
		all, err := v.s.control.Runs.Inbox(v.ctx(), tipstaff.InboxRequest{Limit: 1, Program: req.Program})
		if err != nil {
			return err
		}
		kinds = all.ByKind
	}
	of := map[string]int{}
	for kind, n := range kinds {
		of[string(kind)] = n
	}
	page.Kinds, page.Programs = page.filters("kind", of), page.filters("program", found.ByProgram)
	resumable, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Limit: 20, Status: []string{tipstaff.StatusInterrupted, tipstaff.StatusAwaitingResume}})
	if err != nil {
		return err
	}
	page.Resume = resumable.Runs
	if len(page.Gates) == 0 && !page.Filtered() {
		newest, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Limit: 3})
		if err != nil {
			return err
		}
		page.Newest = newest.Runs
	}
	return nil
}

// filters are links to what there is of each; where there is only one, there is no choice.
func (p *inboxPage) filters(name string, of map[string]int) (all []inboxFilter) {
	chosen, total := p.kept.Get(name), 0
	for _, value := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(of[b]-of[a], strings.Compare(a, b)) }) {
		if total += of[value]; value != "" {
			all = append(all, inboxFilter{value, p.With(name, value), of[value], value == chosen})
		}
	}
	if len(all) < 2 && chosen == "" {
		return nil
	}
	return append([]inboxFilter{{"All", p.With(name, ""), total, chosen == ""}}, all...)
}

// Filtered reports whether only some of what waits is shown.
func (p *inboxPage) Filtered() bool { return p.With() != "/ui/" }

// With is the address of the list, narrowed as it is, with some parameters set.
func (p *inboxPage) With(pairs ...string) string {
	q := url.Values{}
	for _, name := range []string{"kind", "program"} {
		q.Set(name, p.kept.Get(name))
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	maps.DeleteFunc(q, func(_ string, values []string) bool { return values[0] == "" })
	if len(q) == 0 {
		return "/ui/"
	}
	return "/ui/?" + q.Encode()
}

// At is the address of the list with a gate beside it.
func (p *inboxPage) At(g tipstaff.InboxGate) string {
	return p.With("after", p.kept.Get("after"), "run", g.Run.String(), "gate", g.Gate.ID.String()) + "#card-" + g.Gate.ID.String()
}

// Is reports whether a gate is the one beside the list.
func (p *inboxPage) Is(g tipstaff.InboxGate) bool { return p.kept.Get("gate") == g.Gate.ID.String() }

// Back is where a decision leads: here, with what became of the gate.
func (p *inboxPage) Back() string {
	return p.With("run", p.kept.Get("run"), "gate", p.kept.Get("gate"))
}

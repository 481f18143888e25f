package policy

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// The rules by which a change of terms is material, in the order in which they
// are reported.
const (
	RuleBudgetDelta            = "budget_delta"
	RuleNewSubAgent            = "new_sub_agent"
	RuleScopeExpansion         = "scope_expansion"
	RuleNewToolNamespace       = "new_tool_namespace"
	RuleHardConstraintRelaxed  = "hard_constraint_relaxed"
	RuleSuccessCriteriaChanged = "success_criteria_changed"
	RuleDeadlineShift          = "deadline_shift"
	RuleAnchorFlip             = "anchor_flip"
)

// change is a pair of terms, and when it is looked at.
type change struct {
	old, new Terms
	now      time.Time
}

// Classify says whether terms have changed so much that they must be accepted
// again, and by which rules. It is pure: all rules are tried, and equal terms
// are never material.
func Classify(old, new Terms, now time.Time) tipstaff.Classification {
	c := change{old, new, now}
	found := tipstaff.Classification{Reasons: []tipstaff.Reason{}}
	for _, rule := range [...]struct {
		name    string
		details func(change) []string
	}{
		{RuleBudgetDelta, change.budgetDelta},
		{RuleNewSubAgent, change.newSubAgent},
		{RuleScopeExpansion, change.scopeExpansion},
		{RuleNewToolNamespace, change.newToolNamespace},
		{RuleHardConstraintRelaxed, change.hardConstraintRelaxed},
		{RuleSuccessCriteriaChanged, change.successCriteriaChanged},
		{RuleDeadlineShift, change.deadlineShift},
		{RuleAnchorFlip, change.anchorFlip},
	} {
		details := rule.details(c)
		slices.Sort(details)
		for _, d := range details {
			found.Reasons = append(found.Reasons, tipstaff.Reason{Rule: rule.name, Detail: d})
		}
	}
	found.Material = len(found.Reasons) > 0
	return found
}

func (c change) anchorFlip() []string {
	switch {
	case c.old.Anchor == c.new.Anchor:
		return nil
	case c.new.Anchor:
		return []string{"the end of the run is anchored now"}
	}
	return []string{"the end of the run is no longer anchored"}
}

// differ is what only one of two lists has. What stands in one of them more often
// than in the other counts as often as that.
func differ[T comparable](old, new []T) (gone, added []T) {
	return beyond(old, new), beyond(new, old)
}

// beyond are the items of a that b does not have, in the order of a.
func beyond[T comparable](a, b []T) []T {
	count := map[T]int{}
	for _, x := range b {
		count[x]++
	}
	var more []T
	for _, x := range a {
		if count[x]--; count[x] < 0 {
			more = append(more, x)
		}
	}
	return more
}

// texts are those of the items of a list.
func texts[T any](list []T, text func(T) string) []string {
	all := make([]string, len(list))
	for i, item := range list {
		all[i] = text(item)
	}
	return all
}

// grouped are the items of a list by a key.
func grouped[T any, K comparable](list []T, key func(T) K) map[K][]T {
	groups := map[K][]T{}
	for _, item := range list {
		groups[key(item)] = append(groups[key(item)], item)
	}
	return groups
}

// briefly keeps what documents say short enough for a line: a detail names what
// has changed, the documents have the rest.
func briefly(s string) string {
	const most = 80
	runes := []rune(s)
	if len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return s
}

// became is a change of one text.
func became(what, old, new string) string {
	return fmt.Sprintf("%s changes from %s to %s", what, orNone(old), orNone(new))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return briefly(s)
}

func listed(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return briefly(strings.Join(words, ", "))
}

// successCriteriaChanged finds that something else is wanted: another verb, other
// objects, another idea of success.
func (c change) successCriteriaChanged() []string {
	var details []string
	if c.old.Verb != c.new.Verb {
		details = append(details, became("the verb", c.old.Verb, c.new.Verb))
	}
	text := func(raw json.RawMessage) string { return string(raw) }
	gone, added := differ(texts(c.old.Criteria, text), texts(c.new.Criteria, text))
	for _, criterion := range gone {
		details = append(details, "the success criterion "+briefly(criterion)+" is gone")
	}
	for _, criterion := range added {
		details = append(details, "the success criterion "+briefly(criterion)+" is new")
	}
	return append(details, c.otherObjects()...)
}

// otherObjects pairs what is gone with what is new by name, to say what became of
// it.
func (c change) otherObjects() []string {
	var details []string
	gone, added := differ(c.old.Objects, c.new.Objects)
	for _, old := range gone {
		i := slices.IndexFunc(added, func(o Object) bool { return o.Name == old.Name })
		if i < 0 {
			details = append(details, "the object "+briefly(old.Name)+" is gone")
			continue
		}
		details = append(details, old.changes(added[i])...)
		added = slices.Delete(added, i, i+1)
	}
	for _, o := range added {
		details = append(details, "the object "+briefly(o.Name)+" is new")
	}
	return details
}

// changes are what became of an object; its name has stayed.
func (o Object) changes(new Object) []string {
	var details []string
	for _, f := range [...]struct{ name, old, new string }{
		{"value", o.Value, new.Value}, {"uri", o.URI, new.URI}, {"type", o.Type, new.Type},
	} {
		if f.old != f.new {
			details = append(details, became("the "+f.name+" of the object "+briefly(o.Name), f.old, f.new))
		}
	}
	return details
}

// parseMoment is a time in nanoseconds since 1970, nil if the text is none. It is
// exact where a time.Duration would run over.
func parseMoment(text string) *big.Rat {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil
		}
		t = day.Add(24*time.Hour - time.Second) // a day ends with its last second
	}
	return moment(t)
}

func moment(t time.Time) *big.Rat {
	seconds := big.NewInt(t.Unix())
	nanos := seconds.Mul(seconds, big.NewInt(int64(time.Second)))
	return new(big.Rat).SetInt(nanos.Add(nanos, big.NewInt(int64(t.Nanosecond()))))
}

// mostShift is the part of the time left by which a deadline may move.
var mostShift = big.NewRat(1, 4)

// deadlineShift finds a deadline that moved so far, in either direction, that it
// is another one.
func (c change) deadlineShift() []string {
	old, new := c.old.Deadline, c.new.Deadline
	switch {
	case old == new:
		return nil
	case old == "":
		return []string{"the deadline " + briefly(new) + " is added"}
	case new == "":
		return []string{"the deadline " + briefly(old) + " is removed"}
	}
	if why := shifted(parseMoment(old), parseMoment(new), moment(c.now)); why != "" {
		return []string{became("the deadline", old, new) + ", " + why}
	}
	return nil
}

// shifted says why a deadline has moved too far; "" if it has not.
func shifted(old, to, now *big.Rat) string {
	switch {
	case old == nil || to == nil:
		return "which cannot be compared"
	case old.Cmp(to) == 0:
		return ""
	}
	left := new(big.Rat).Sub(old, now)
	if left.Sign() <= 0 {
		return "and the old one is past"
	}
	part := new(big.Rat).Sub(to, old)
	part.Quo(part.Abs(part), left)
	if part.Cmp(mostShift) <= 0 {
		return ""
	}
	return "by more than a quarter of the time that was left"
}

// Terms are what somebody agrees to by accepting a program: what it is for, what
// it may spend, with which tools, and what it may not do. How it gets there is
// no part of them, except for what it changes: calls that cannot be taken back, what
// child runs are given, and the gates at which a person can stop either.
//
// The order of a list never matters. Amounts, minima and times are texts, so
// that nothing is rounded on the way; one that cannot be read is never taken for
// equal to another.
type Terms struct {
	Verb        string
	Objects     []Object
	Criteria    []json.RawMessage // of success, in RFC 8785 form
	Budget      []Amount          // of an asset listed twice the least counts
	Deadline    string            // RFC 3339, or a day, which ends with its last second in UTC; "": none
	Anchor      bool
	Constraints []Constraint
	Bounds      tipstaff.Bounds // that the program sets
	Defaults    tipstaff.Bounds // that hold where the program sets none; nil: nothing does
	Tools       []Tool          // that may be called
	Calls       []Effect        // that do more than read
	Dispatches  []Dispatch
	Gates       []Gate // of the program
	// ByID: once calls are compared by the ids of their nodes, and gates not at all.
	// See [Terms.Earlier].
	ByID bool
}

// Earlier are the terms as first versions compared them: a once call had to keep its
// arguments for as long as it kept its id and tool; gates, and what a child run was
// given beside its scope, were left aside. What journals of such runs say about their
// corrections must come out the same for ever.
func (t Terms) Earlier() Terms {
	calls, dispatches := t.Calls, t.Dispatches
	t.Calls, t.Dispatches, t.Gates, t.ByID = nil, nil, nil, true
	for _, c := range calls {
		if c.Agent == "" && known(c.Class) == flow.Once {
			t.Calls = append(t.Calls, c)
		}
	}
	for _, d := range dispatches {
		t.Dispatches = append(t.Dispatches, Dispatch{Agent: d.Agent, Skill: d.Skill, Scope: d.Scope})
	}
	return t
}

// Object is something that the intent is about.
type Object struct{ Name, Value, URI, Type string }

// Amount is a decimal quantity of an asset.
type Amount struct{ Asset, Amount string }

// Constraint is one that must (hard) or should hold. Which fields have a meaning
// depends on Type.
type Constraint struct {
	Type string // budget, deadline, jurisdiction, quality, rule, policy or x:<name>
	Name string // the asset, metric, rule or policy it is about
	Hard bool

	Limit       string          // budget: the most; deadline: the latest; quality: the least
	Allow, Deny []string        // jurisdiction; a nil Allow allows all
	Data        json.RawMessage // x:<name>, in RFC 8785 form
}

// Key names what a constraint is about. Those of one key hold together.
func (c Constraint) Key() string {
	if c.Name == "" {
		return c.Type
	}
	return c.Type + ":" + c.Name
}

// Tool is one pinned tool and its effect class. An unknown class is
// left empty, which counts as once.
type Tool struct {
	Server, Name, Pin string
	Class             flow.Class
}

// Effect is a call that does more than read, made by the program itself or by an agent
// in one of its steps.
type Effect struct {
	ID    string // of the node
	Agent string // who may make it in a step; "": the program makes it
	Tool  string // its URI
	Class flow.Class
	Args  json.RawMessage // as written, in RFC 8785 form; of an agent, what it is told
	Gates []Gate          // that must have been passed when it is made
	Made  bool            // it was made already, and is not made again
}

// Dispatch is a child run that the program starts.
type Dispatch struct {
	Agent, Skill string
	Scope        string          // the folder it is kept to; "": that of its parent
	Auto         bool            // its plan is accepted without asking
	Inputs       json.RawMessage // as written, in RFC 8785 form
	Bounds       tipstaff.Bounds // that it sets
	Continue     bool            // its failure, even if a person stopped it, is ignored
	Gates        []Gate          // that must have been passed when it starts
}

// Gate is a question to a person: what it asks, what it shows and which answers it
// offers, the latter two as JSON in RFC 8785 form. Two that agree in all of it are
// the same to the person who answers.
type Gate struct{ Question, Show, Actions string }

func (g Gate) String() string { return "the gate " + briefly(strconv.Quote(g.Question)) }

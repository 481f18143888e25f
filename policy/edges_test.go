package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func TestGlobsTakeEveryCharacterOfNames(t *testing.T) {
	for _, r := range "azAZ09_.-*?" {
		if _, err := ParsePattern("s" + string(r) + "/t" + string(r)); err != nil {
			t.Error(err)
		}
	}
	for _, r := range "`{@[:; #é" {
		if g, err := ParsePattern("s/t" + string(r)); err == nil {
			t.Errorf("%q was read as %v", r, g)
		}
	}
}

func TestTheLongestIDAndDecimal(t *testing.T) {
	if err := checkID(strings.Repeat("~", 64)); err != nil {
		t.Error(err)
	}
	if checkID(strings.Repeat("a", 65)) == nil || checkID("a\x7f") == nil {
		t.Error("an id too long, or with a control character, is taken")
	}
	if parseDecimal(strings.Repeat("1", 1000)) == nil || parseDecimal(strings.Repeat("1", 1001)) != nil {
		t.Error("decimals have at most 1,000 characters")
	}
	if full := strings.Repeat("é", 80); briefly(full) != full || briefly(full+"é") != strings.Repeat("é", 79)+"…" {
		t.Error("details have at most 80 characters")
	}
}

// anyGuard takes whatever a document says.
var anyGuard = GuardKind{Name: SQLGuard, New: func(GuardConfig) (Guard, error) { return nil, nil }}

// What a policy was made from may change afterwards.
func TestAPolicyKeepsItsOwnCopy(t *testing.T) {
	d := Document{
		Guards: []GuardConfig{{ID: "g", Use: SQLGuard, Tool: "db/*", Arg: "/sql", Dialect: "postgres", Functions: []string{"a"}}},
		Rules:  []Rule{{ID: "r", Tool: "*/*", Effect: []flow.Class{flow.Read}, Do: Deny}},
	}
	p, problems := New(d, anyGuard)
	if problems != nil {
		t.Fatal(problems)
	}
	d.Rules[0].Effect[0], d.Guards[0].Functions[0] = flow.Once, "b"
	given := p.Document()
	if p.Decide(Call{Server: "x", Tool: "y", Class: flow.Read}).Rule != "r" || given.Guards[0].Functions[0] != "a" {
		t.Errorf("the policy followed its document: %+v", given)
	}
	given.Rules[0].Effect[0], given.Guards[0].Functions[0] = flow.Once, "b"
	if again := p.Document(); again.Rules[0].Effect[0] != flow.Read || again.Guards[0].Functions[0] != "a" {
		t.Errorf("the policy followed what it gave away: %+v", again)
	}
}

func TestNoRulesAreAnEmptyList(t *testing.T) {
	sum := sha256.Sum256([]byte(`{"rules":[],"version":1}`))
	want := "sha256:" + hex.EncodeToString(sum[:])
	if a, b := digest(Document{}), digest(Document{Rules: []Rule{}}); a != want || b != want {
		t.Errorf("%s and %s, want %s", a, b, want)
	}
}

func TestNoPolicy(t *testing.T) {
	var p *Policy
	if got := p.Matching(Call{}); got != nil {
		t.Errorf("matching: %v", got)
	}
	if diff := cmp.Diff(Document{}, p.Document()); diff != "" {
		t.Errorf("document: %s", diff)
	}
}

// One report for each guard is enough, however many stand in its way.
func TestOverlapsAreReportedOnce(t *testing.T) {
	var d Document
	for _, id := range []string{"a", "b", "c"} {
		d.Guards = append(d.Guards, GuardConfig{ID: id, Use: SQLGuard, Tool: "*/*", Arg: "/sql", Dialect: "postgres"})
	}
	_, problems := New(d, anyGuard)
	if len(problems) != 2 || problems[0].Index != 1 || problems[1].Index != 2 {
		t.Errorf("%+v", problems)
	}
}

// A condition on one line needs no line to be named.
func TestFaultsOfConditionsNameTheirPlace(t *testing.T) {
	if _, _, err := compileCondition("nobody == 1"); err == nil || !strings.Contains(err.Error(), "(column 1 of the condition)") {
		t.Error(err)
	}
	if _, _, err := compileCondition("true &&\nnobody == 1"); err == nil || !strings.Contains(err.Error(), "(line 2, column 1 of the condition)") {
		t.Error(err)
	}
}

func details(old, new Terms) (all []string) {
	for _, r := range Classify(old, new, time.Unix(0, 0)).Reasons {
		all = append(all, r.Detail)
	}
	return all
}

func TestDetailsOfLimits(t *testing.T) {
	hard := func(limits ...string) (t Terms) {
		for _, l := range limits {
			t.Constraints = append(t.Constraints, Constraint{Type: "budget", Name: "EUR", Hard: true, Limit: l})
		}
		return t
	}
	place := Terms{Constraints: []Constraint{{Type: "jurisdiction", Hard: true, Deny: []string{"x"}}}}
	tokens := func(n int64) tipstaff.Bounds { return tipstaff.Bounds{tipstaff.BoundTokens: n} }
	pins := func(list ...string) (t Terms) {
		for _, pin := range list {
			t.Tools = append(t.Tools, Tool{Server: "s", Name: "t", Pin: pin, Class: flow.Once})
		}
		return t
	}
	for name, c := range map[string]struct {
		old, new Terms
		want     []string
	}{
		"limits are named in order":          {hard("5", "3"), hard("4"), []string{"the hard constraint budget:EUR is looser: it changes from 3, 5 to 4"}},
		"a constraint without a name":        {place, Terms{}, []string{"the hard constraint jurisdiction is missing"}},
		"a default that rises":               {Terms{Defaults: tokens(10)}, Terms{Defaults: tokens(100)}, nil},
		"a default that falls away":          {Terms{Defaults: tokens(10)}, Terms{}, nil},
		"a bound above the default":          {Terms{Defaults: tokens(10)}, Terms{Bounds: tokens(100)}, []string{"tokens rises from 10, the default, to 100"}},
		"a bound above a bound":              {Terms{Bounds: tokens(10)}, Terms{Bounds: tokens(100)}, []string{"tokens rises from 10 to 100"}},
		"pins are named in order":            {pins("2.0.0", "1.0.0"), pins("3.0.0", "1.0.0"), []string{"the pin of s/t (once) changes from 1.0.0, 2.0.0 to 1.0.0, 3.0.0"}},
		"pins in another order are the same": {pins("2.0.0", "1.0.0"), pins("1.0.0", "2.0.0"), nil},
	} {
		if diff := cmp.Diff(c.want, details(c.old, c.new)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := listed(nil); got != "none" {
		t.Errorf("no words are %q", got)
	}
}

// Of amounts that cannot be read, the choice does not depend on their order.
func TestBudgetsThatCannotBeRead(t *testing.T) {
	amounts := []Amount{{"EUR", "many"}, {"EUR", "7"}, {"EUR", "few"}}
	for range 2 {
		if got := (Terms{Budget: amounts}).budget()["EUR"].text; got != "few" {
			t.Errorf("of %v, %s counts", amounts, got)
		}
		slices.Reverse(amounts)
	}
}

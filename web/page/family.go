package page

import (
	"slices"

	"github.com/tipstaff/tipstaff"
)

// kinPages show a run beside others.
var kinPages = pages{
	"GET /ui/runs/{run}/family": (*view).family,
	"GET /ui/compare":           (*view).compare,
}

// familyNested is how many ancestors are drawn one in another; older ones stand in a list.
const familyNested = 6

// familyPage is a run among its relatives.
type familyPage struct {
	*runView
	Older []kin // the oldest first
	Tree  []kin
	Cut   bool
	Alone bool
}

// kin is a run in the drawing, and those that come from it.
type kin struct {
	tipstaff.Relative
	Of    tipstaff.ID // whose family it is
	Below []kin
}

// Self reports whether it is the run that the family is of.
func (k kin) Self() bool { return k.Run == k.Of }

// Name is what people call it.
func (k kin) Name() string {
	return nameOf(tipstaff.Run{ID: k.Run, Title: k.Title, Program: k.Program})
}

// Compare is the address that shows it beside the run.
func (k kin) Compare() string { return "/ui/compare?" + query("a", k.Run.String(), "b", k.Of.String()) }

// family is a run among those that it comes from, and that come from it or from the same.
func (v *view) family() error {
	shown, err := v.runView()
	if err != nil {
		return err
	}
	found, err := tipstaff.FamilyOf(v.ctx(), v.s.control.Runs, v.run.ID)
	if err != nil {
		return err
	}
	page := familyPage{runView: shown, Cut: found.Cut}
	page.Alone = len(found.Ancestors)+len(found.Children)+len(found.Siblings) == 0
	page.Older, page.Tree = familyTree(found)
	return v.show("family", "Family · "+nameOf(v.run), page)
}

// familyTree draws a family: whoever comes from somebody stands below, and what came later lower.
func familyTree(f tipstaff.Family) (older, tree []kin) {
	place := func(r tipstaff.Relative) kin { return kin{Relative: r, Of: f.Run.Run} }
	self := place(f.Run)
	for _, r := range f.Children {
		self.Below = append(self.Below, place(r))
	}
	tree = []kin{self}
	for _, r := range f.Siblings {
		tree = append(tree, place(r))
	}
	earliest(self.Below)
	earliest(tree)
	for i, r := range f.Ancestors {
		if i < familyNested {
			above := place(r)
			above.Below = tree
			tree = []kin{above}
			continue
		}
		older = append(older, place(r))
	}
	slices.Reverse(older)
	return older, tree
}

func earliest(all []kin) {
	slices.SortStableFunc(all, func(a, b kin) int { return a.Created.Compare(b.Created) })
}

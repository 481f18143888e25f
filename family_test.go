package tipstaff

import (
	"context"
	"slices"
	"testing"
	"time"
)

// kin is a service with runs that come from each other.
type kin struct {
	runs   []Run // oldest first
	hidden ID
}

func (k *kin) Get(_ context.Context, id ID) (Run, error) {
	for _, r := range k.runs {
		if r.ID == id && id != k.hidden {
			return r, nil
		}
	}
	return Run{}, Errorf(Forbidden, "not yours")
}

func (k *kin) List(_ context.Context, req ListRequest) (page RunPage, err error) {
	for _, r := range slices.Backward(k.runs) {
		if r.Lineage != nil && r.Lineage.Parent == req.Parent && r.ID != k.hidden && len(page.Runs) < req.Limit {
			page.Runs = append(page.Runs, r)
		}
	}
	return page, nil
}

func (k *kin) make(parent ID, relation string) ID {
	id := NewID(time.Unix(int64(len(k.runs)+1), 0))
	r := Run{ID: id, Status: "completed", Bounds: BoundsStatus{BoundCostUSD: {Used: int64(len(k.runs))}}}
	if !parent.IsZero() {
		r.Lineage = &Lineage{Parent: parent, Relation: relation}
	}
	k.runs = append(k.runs, r)
	return id
}

func ids(list []Relative) (all []ID) {
	for _, r := range list {
		all = append(all, r.Run)
	}
	return all
}

func TestFamily(t *testing.T) {
	k := &kin{}
	root := k.make(ID{}, "")
	mid := k.make(root, "fork")
	self := k.make(mid, "followup")
	child, sibling := k.make(self, "dispatch"), k.make(mid, "rollback")
	k.make(root, "agent") // an uncle is none of it
	f, err := FamilyOf(t.Context(), k, self)
	if err != nil || f.Cut || f.Run.Run != self || f.Run.Relation != "followup" {
		t.Fatalf("%+v %v", f, err)
	}
	if !slices.Equal(ids(f.Ancestors), []ID{mid, root}) || !slices.Equal(ids(f.Children), []ID{child}) || !slices.Equal(ids(f.Siblings), []ID{sibling}) {
		t.Errorf("%+v", f)
	}
	if f.Children[0].Relation != "dispatch" || f.Siblings[0].Relation != "rollback" || f.Children[0].Cost != 3 {
		t.Errorf("%+v", f)
	}
	k.hidden = root
	if f, err := FamilyOf(t.Context(), k, self); err != nil || !f.Cut || len(f.Ancestors) != 1 {
		t.Errorf("with an ancestor that is another's: %+v %v", f, err)
	}
}

func TestLargeFamiliesAreCut(t *testing.T) {
	k := &kin{}
	root := k.make(ID{}, "")
	self := k.make(root, "fork")
	for range FamilyMost - 1 {
		k.make(self, "dispatch")
	}
	if f, err := FamilyOf(t.Context(), k, self); err != nil || f.Cut || len(f.Children) != FamilyMost-1 || len(f.Ancestors) != 1 {
		t.Errorf("just enough: %d children, cut %v, %v", len(f.Children), f.Cut, err)
	}
	k.make(root, "fork") // a sibling too many
	if f, err := FamilyOf(t.Context(), k, self); err != nil || !f.Cut || len(f.Siblings) != 0 {
		t.Errorf("one more: %+v %v", f.Siblings, err)
	}
	deep := root
	for range FamilyMost + 5 {
		deep = k.make(deep, "followup")
	}
	if f, err := FamilyOf(t.Context(), k, deep); err != nil || !f.Cut || len(f.Ancestors) != FamilyMost {
		t.Errorf("a long line: %d, cut %v, %v", len(f.Ancestors), f.Cut, err)
	}
}

package tipstaff

import (
	"context"
	"time"
)

// Family is the runs around one: those it comes from, those that come from it, and those that
// come from the same. Of runs that the caller may not see it tells nothing.
type Family struct {
	Run       Relative   `json:"run"`
	Ancestors []Relative `json:"ancestors"` // the nearest first
	Children  []Relative `json:"children"`  // the newest first, like Siblings
	Siblings  []Relative `json:"siblings"`
	// Cut: there are more relatives than FamilyMost, or an ancestor is not to be seen.
	Cut bool `json:"cut,omitempty"`
}

// FamilyMost is how many relatives a family shows.
const FamilyMost = 200

// Relative is a run in its family.
type Relative struct {
	Run      ID        `json:"run_id"`
	Parent   ID        `json:"parent_run_id,omitzero"`
	Relation string    `json:"relation,omitempty"` // to its parent: fork, rollback, followup, dispatch, agent
	Seq      int64     `json:"seq,omitempty"`      // the record of the parent up to which it inherits
	Title    string    `json:"title,omitempty"`
	Program  Program   `json:"program"`
	Status   string    `json:"status"`
	Outcome  string    `json:"outcome,omitempty"`
	Cost     USD       `json:"cost_usd"` // by its own ledger: that of a fork begins with what it inherits
	Created  time.Time `json:"created_at"`
	Ended    time.Time `json:"ended_at,omitzero"`
}

// FamilyReader is what a family is read from.
type FamilyReader interface {
	Get(context.Context, ID) (Run, error)
	List(context.Context, ListRequest) (RunPage, error)
}

// FamilyOf finds the relatives of a run: ancestors before children, children before siblings,
// until there are FamilyMost.
func FamilyOf(ctx context.Context, svc FamilyReader, id ID) (Family, error) {
	f := Family{Ancestors: []Relative{}, Children: []Relative{}, Siblings: []Relative{}}
	run, err := svc.Get(ctx, id)
	if err != nil {
		return f, err
	}
	f.Run = relativeOf(run)
	left := FamilyMost
	for up := f.Run.Parent; !up.IsZero(); left-- {
		if f.Cut = left == 0; f.Cut {
			return f, nil
		}
		above, err := svc.Get(ctx, up)
		if code := CodeOf(err); code == Forbidden || code == RunNotFound {
			f.Cut = true
			break
		}
		if err != nil {
			return f, err
		}
		r := relativeOf(above)
		f.Ancestors = append(f.Ancestors, r)
		up = r.Parent
	}
	if err := f.add(ctx, svc, id, &f.Children, &left); err != nil || f.Run.Parent.IsZero() {
		return f, err
	}
	return f, f.add(ctx, svc, f.Run.Parent, &f.Siblings, &left)
}

// add lists the runs that come from a parent, but for the one that the family is of.
func (f *Family) add(ctx context.Context, svc FamilyReader, parent ID, to *[]Relative, left *int) error {
	page, err := svc.List(ctx, ListRequest{Parent: parent, Limit: *left + 2}) // that one, and whether there are more
	for _, r := range page.Runs {
		if r.ID == f.Run.Run {
			continue
		}
		if *left == 0 {
			f.Cut = true
			break
		}
		*to = append(*to, relativeOf(r))
		*left--
	}
	return err
}

func relativeOf(r Run) Relative {
	rel := Relative{Run: r.ID, Title: r.Title, Program: r.Program, Status: r.Status, Outcome: r.Outcome, Cost: USD(r.Bounds[BoundCostUSD].Used),
		Created: r.CreatedAt, Ended: r.EndedAt}
	if l := r.Lineage; l != nil {
		rel.Parent, rel.Relation, rel.Seq = l.Parent, l.Relation, l.Seq
	}
	return rel
}

package plan

import (
	"time"

	"github.com/tipstaff/tipstaff/document"
)

// Deliver says what of the worktree is handed over at the end, and after which
// checks.
type Deliver struct {
	Base      string
	Paths     []string
	Release   string
	CorrectAt string // a leaf
	Checks    []DeliveryCheck

	correctAt document.Position
}

// DeliveryCheck is a command that must succeed in the worktree.
type DeliveryCheck struct {
	Name     string
	Run      []string
	Timeout  time.Duration // 0: not said
	Required bool
}

func decodeDeliver(f *document.Fields, ps *document.Problems) *Deliver {
	v := f.Typed("deliver", document.Object)
	if v == nil {
		return nil
	}
	df := document.FieldsOf(ps, v, "deliver")
	d := &Deliver{Base: df.TextOr("base", "HEAD"), Release: df.Text("release"), CorrectAt: df.Text("correct_at")}
	if v := df.Value.Get("correct_at"); v != nil {
		d.correctAt = v.At
	}
	d.Paths, _ = df.Texts("paths")
	df.Each("checks", func(c *document.Fields) {
		c.Need("name")
		c.Need("run")
		check := DeliveryCheck{Name: c.Text("name"), Timeout: c.Duration("timeout"), Required: c.Boolean("required", true)}
		check.Run, _ = c.Texts("run")
		if v := c.Value.Get("run"); v != nil && v.Kind == document.List && len(v.Items) == 0 {
			ps.Add(document.CodeFieldInvalid, v.At, c.Path, "run is empty; it names a program and its arguments")
		}
		d.Checks = append(d.Checks, check)
	})
	df.End()
	return d
}

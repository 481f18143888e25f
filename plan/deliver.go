package plan

import "time"

// Deliver says what of the worktree is handed over at the end, and after which
// checks.
type Deliver struct {
	Base      string
	Paths     []string
	Release   string
	CorrectAt string // a leaf
	Checks    []DeliveryCheck

	correctAt position
}

// DeliveryCheck is a command that must succeed in the worktree.
type DeliveryCheck struct {
	Name     string
	Run      []string
	Timeout  time.Duration // 0: not said
	Required bool
}

func decodeDeliver(f *fields, ps *problems) *Deliver {
	v := f.typed("deliver", object)
	if v == nil {
		return nil
	}
	df := fieldsOf(ps, v, "deliver")
	d := &Deliver{Base: df.textOr("base", "HEAD"), Release: df.text("release"), CorrectAt: df.text("correct_at")}
	if v := df.v.get("correct_at"); v != nil {
		d.correctAt = v.at
	}
	d.Paths, _ = df.texts("paths")
	df.each("checks", func(c *fields) {
		c.need("name")
		c.need("run")
		check := DeliveryCheck{Name: c.text("name"), Timeout: c.duration("timeout"), Required: c.boolean("required", true)}
		check.Run, _ = c.texts("run")
		if v := c.v.get("run"); v != nil && v.kind == list && len(v.items) == 0 {
			ps.add(codeFieldInvalid, v.at, c.path, "run is empty; it names a program and its arguments")
		}
		d.Checks = append(d.Checks, check)
	})
	df.end()
	return d
}

package page

// bundle is many lines of one kind, drawn as one.
type bundle struct{ Class, Width, Lines, Heads string }

// bundled finds the bundle of a kind, or makes it.
func bundled(all *[]bundle, class, width string) *bundle {
	for i := range *all {
		if b := &(*all)[i]; b.Class == class && b.Width == width {
			return b
		}
	}
	*all = append(*all, bundle{Class: class, Width: width})
	return &(*all)[len(*all)-1]
}

// window leaves so many rows of the table as fit on a page, from one on.
func (d *drawnGraph) window(from int) *drawnGraph {
	d.Of, d.From = len(d.Table), min(from, len(d.Table))
	d.Table = d.Table[d.From:min(d.From+graphRows, d.Of)]
	return d
}

// Next is the first row of the table behind those that are shown; 0: there is none.
func (d *drawnGraph) Next() int {
	if next := d.From + len(d.Table); next < d.Of {
		return next
	}
	return 0
}

// overviewSide is the longest side of the overview of a large graph.
const overviewSide = 180

// OverWidth and OverHeight are those of the overview.
func (d *drawnGraph) OverWidth() int  { return max(8, d.Width*overviewSide/max(d.Width, d.Height)) }
func (d *drawnGraph) OverHeight() int { return max(8, d.Height*overviewSide/max(d.Width, d.Height)) }

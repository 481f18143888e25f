package page

import (
	"github.com/tipstaff/tipstaff"
)

// Widths of a life line: in a list, and above the views of a run.
const (
	lifeWidth = 120
	lifeWhole = 480
)

// lifeLine is a life, drawn: what a run has survived at one glance.
type lifeLine struct {
	Name  string // the same in words
	Width int
	Parts []lifePart
}

// lifePart is one piece of the line.
type lifePart struct {
	Kind tipstaff.LifeKind
	X, W int
	Dots []int // of a wait: one for each gate
}

// drawLife places the segments of a life: driven time by its length, everything else by a
// fixed width, so that a wait of days leaves room for the rest.
func drawLife(l *tipstaff.Life, width int) *lifeLine {
	if l == nil || len(l.Segments) == 0 {
		return nil
	}
	const gap, mark, dot = 14, 8, 5
	var driven int64
	fixed := 0
	for _, s := range l.Segments {
		if s.Kind == tipstaff.LifeDriven {
			driven += max(1, s.Ms)
			fixed += 4
		} else {
			fixed += widthOf(s, gap, mark, dot)
		}
	}
	line, room := &lifeLine{Name: l.String(), Width: max(width, fixed)}, max(0, width-fixed)
	if l.Drives == 0 { // a beginning, and no more
		room /= 8
	}
	x := 0
	for _, s := range l.Segments {
		p := lifePart{Kind: s.Kind, X: x}
		if s.Kind == tipstaff.LifeDriven {
			p.W = 4 + int(int64(room)*max(1, s.Ms)/max(1, driven))
		} else {
			p.W = widthOf(s, gap, mark, dot)
		}
		for i := range min(s.Gates, 3) {
			p.Dots = append(p.Dots, x+dot+i*dot)
		}
		line.Parts, x = append(line.Parts, p), x+p.W
	}
	return line
}

func widthOf(s tipstaff.LifeSegment, gap, mark, dot int) int {
	switch s.Kind {
	case tipstaff.LifeParked:
		return gap + dot*max(0, min(s.Gates, 3)-1)
	case tipstaff.LifeQueued:
		return gap
	}
	return mark
}

// End is the x of where the part ends.
func (p lifePart) End() int { return p.X + p.W }

// Mid is its middle.
func (p lifePart) Mid() int { return p.X + p.W/2 }

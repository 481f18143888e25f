package page

import "github.com/tipstaff/tipstaff"

const (
	lifeWidth = 120 // of a line in a list
	lifeWhole = 480 // and above the views of a run
	lifeGap   = 14  // of a wait
	lifeDot   = 5   // of a gate
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
	var driven int64
	fixed := 0
	for _, s := range l.Segments {
		fixed += lifeLeast(s)
		if s.Kind == tipstaff.LifeDriven {
			driven += max(1, s.Ms)
		}
	}
	line, room := &lifeLine{Name: l.String(), Width: max(width, fixed)}, max(0, width-fixed)
	if l.Drives == 0 { // a beginning, and no more
		room /= 8
	}
	x := 0
	for _, s := range l.Segments {
		p := lifePart{Kind: s.Kind, X: x, W: lifeLeast(s)}
		if s.Kind == tipstaff.LifeDriven {
			p.W += int(int64(room) * max(1, s.Ms) / max(1, driven))
		}
		for i := range min(s.Gates, 3) {
			p.Dots = append(p.Dots, x+lifeDot+i*lifeDot)
		}
		line.Parts, x = append(line.Parts, p), x+p.W
	}
	return line
}

// lifeLeast is how wide a segment is at least.
func lifeLeast(s tipstaff.LifeSegment) int {
	switch s.Kind {
	case tipstaff.LifeDriven:
		return 4
	case tipstaff.LifeParked:
		return lifeGap + lifeDot*max(0, min(s.Gates, 3)-1)
	case tipstaff.LifeQueued:
		return lifeGap
	}
	return 8
}

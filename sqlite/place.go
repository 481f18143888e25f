package sqlite

import (
	"fmt"
	"os"

	"github.com/tipstaff/tipstaff/flow"
)

// place is the files that a store was opened with. A process keeps the files it has
// opened, whatever happens to their names: without looking, it would go on writing
// to a store that nobody finds any more.
type place struct {
	names []string
	files []os.FileInfo // nil: not looked at yet
}

func newPlace(dir folder) *place {
	names := []string{dir.database(), dir.database() + "-wal"}
	return &place{names: names, files: make([]os.FileInfo, len(names))}
}

// look is ErrStoreLost unless the names still lead to the files of the first look.
func (p *place) look() error {
	for i, name := range p.names {
		now, err := os.Stat(name)
		switch {
		case p.files[i] == nil:
			p.files[i] = now // nil still, of a log that nobody has needed yet
		case err != nil:
			return fmt.Errorf("%w: %w: it was removed or moved while it was open; nothing is acknowledged any more", flow.ErrStoreLost, err)
		case !os.SameFile(p.files[i], now):
			return fmt.Errorf("%w: %s is another file than the one that was opened; nothing is acknowledged any more", flow.ErrStoreLost, name)
		}
	}
	return nil
}

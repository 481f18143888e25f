package supervisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// lookUp asks the system about a process and those above it. Whoever loses its
// parents is given to a reaper, which stays above it.
func (m *Member) lookUp(pid int) {
	for dir := cgroupOf(strconv.Itoa(pid)); len(dir) > 1; dir = filepath.Dir(dir) {
		if rest, ours := strings.CutPrefix(filepath.Base(dir), cgroupPrefix); ours {
			run, _, _ := strings.Cut(rest, "-")
			m.told(run)
		}
	}
	self, _ := reap.StatOf(pid)
	for pid := self.Parent; pid > 0; {
		s, known := reap.StatOf(pid)
		if !known {
			return
		}
		m.above = append(m.above, ancestor{pid, s.Start})
		args, _ := os.ReadFile(procFile(pid, "cmdline"))
		m.told(reap.RunOf(strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")))
		environ, _ := os.ReadFile(procFile(pid, "environ")) // of a concealed process it cannot be read
		m.add(carried(environ, runMarker))
		pid = s.Parent
	}
}

// told takes the word of a reaper or a cgroup.
func (m *Member) told(run string) {
	m.add(run)
	m.Certain = m.Certain || run != ""
}

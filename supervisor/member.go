package supervisor

import (
	"os"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// Member is what a process has to do with runs.
type Member struct {
	// Runs are those that it is a process of. It may have cleared its environment and
	// left its session: what started it tells.
	Runs []string
	// Certain: a reaper or a cgroup has told a run. Else the process may only claim it.
	Certain bool

	above []ancestor
}

// ancestor is the parent of a process, or that one's, and so on.
type ancestor struct {
	pid   int
	start int64
}

// Membership is that of this process. A process can claim to belong to a run, which
// gives it no right; it cannot hide where the system tells who started it, as Linux does.
func Membership() Member {
	var m Member
	m.add(os.Getenv(strings.TrimSuffix(runMarker, "=")))
	m.lookUp(os.Getpid())
	return m
}

func (m *Member) add(run string) {
	if run != "" && !slices.Contains(m.Runs, run) {
		m.Runs = append(m.Runs, run)
	}
}

// Under reports whether the owner of some run has started this process, and it is not
// known for which of its runs.
func (m Member) Under(o flow.Owner) bool { return !m.Certain && m.below([]flow.Owner{o}) }

// below reports whether one of these owners has started the process.
func (m Member) below(owners []flow.Owner) bool {
	boot, ns := bootID(), pidNamespace()
	return slices.ContainsFunc(owners, func(o flow.Owner) bool {
		return o.Boot == boot && o.PidNS == ns && slices.Contains(m.above, ancestor{o.Pid, o.Start})
	})
}

package supervisor

// Levels of containment: by what everything that a program starts is found.
const (
	levelCgroup    = "cgroup"    // it cannot leave it, but for a cgroup above
	levelSubreaper = "subreaper" // it is a descendant of a process of ours, for as long as that lives
	levelGroup     = "group"     // it is found as long as it stays in the group, and on Linux by its environment
)

// Containment is the level at which programs with a reaper are started here: "cgroup",
// "subreaper" or "group".
func Containment() string {
	switch {
	case !mayReap:
		return levelGroup
	case ownCgroup() != "":
		return levelCgroup
	}
	return levelSubreaper
}

// Containment is the level at which this program was started.
func (p *Process) Containment() string {
	if p.reaper == nil {
		return levelGroup
	}
	return p.reaper.level
}

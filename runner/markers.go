package runner

import "github.com/tipstaff/tipstaff"

// MarkersOf is what to add to the environment of a process that works for a run, so
// that it is known and ended as one of the run's. nil: this process does not drive it.
func (r *Runner) MarkersOf(run tipstaff.ID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.drives[run.String()]
	if a == nil || r.Markers == nil {
		return nil
	}
	return r.Markers(run.String(), a.launch)
}

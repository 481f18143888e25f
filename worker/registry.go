package worker

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Registry holds the workers of a process by their names. The zero value is empty. It is
// filled before it is shared.
type Registry struct{ workers map[string]Worker }

var validName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// Register adds a worker. A name is a letter, then up to 63 of a-z, 0-9, _ and -.
func (r *Registry) Register(name string, w Worker) error {
	if !validName.MatchString(name) {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a name for a worker", tipstaff.Quote(name, 80)).
			WithHint("a name is a lower-case letter, then up to 63 of a-z, 0-9, _ and -")
	}
	if w == nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "worker %q is nil", name)
	}
	if _, ok := r.workers[name]; ok {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "worker %q is registered already", name)
	}
	if r.workers == nil {
		r.workers = map[string]Worker{}
	}
	r.workers[name] = w
	return nil
}

// Get is the worker of a name.
func (r *Registry) Get(name string) (Worker, error) {
	if w, ok := r.workers[name]; ok {
		return w, nil
	}
	known := "there are none"
	if len(r.workers) > 0 {
		known = "known are " + strings.Join(r.List(), ", ")
	}
	return nil, tipstaff.Errorf(tipstaff.WorkerNotFound, "there is no worker %s", tipstaff.Quote(name, 80)).WithHint("%s", known)
}

// List is the names, sorted.
func (r *Registry) List() []string { return slices.Sorted(maps.Keys(r.workers)) }

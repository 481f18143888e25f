package workspace

import (
	"fmt"
	"maps"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/worker"
)

// checkVariable: what Tipstaff sets would not be obeyed.
func (w *Worker) checkVariable(name string) error {
	if worker.SetsVariable(w.Type, name) {
		return fmt.Errorf("%s is set by Tipstaff for workers of type %s", name, w.Type)
	}
	return checkVariable(name)
}

// WorkerEnviron is the environment of a worker's process, out of ours as NAME=value:
// a short list of names, its credentials, and what the manifest adds. What an invocation
// sets, its channel, its markers and its private folders, comes on top. A variable that
// the manifest refers to and that is not set is refused.
func (m *Manifest) WorkerEnviron(name string, environ []string) ([]string, error) {
	w, ok := m.Worker(name)
	if !ok {
		return nil, tipstaff.Errorf(tipstaff.WorkerNotFound, "there is no worker %s%s", tipstaff.Quote(name, 100), tipstaff.Suggest(name, m.WorkerNames()))
	}
	values, refused := secretsOf(w.references(), environ)
	if refused != nil {
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: fmt.Sprintf("worker %s: %s", name, refused.Message), Err: refused,
			Problems: []tipstaff.Problem{{Code: refused.Code, Path: "workers." + name + ".env", Message: refused.Message}}}
	}
	configured := maps.Clone(w.Env)
	for variable, text := range configured {
		configured[variable] = Substitute(text, values)
	}
	return worker.Environ(w.Type, environ, configured), nil
}

// Secrets are the values that may not stand in records of the worker, by the names of
// their variables, as far as they are set: what it refers to, and what its CLI signs in
// with.
func (w Worker) Secrets(environ []string) map[string]string {
	values := worker.Credentials(w.Type, environ)
	for _, name := range w.references() {
		values[name] = Lookup(environ, name)
	}
	maps.DeleteFunc(values, func(_, value string) bool { return len(value) < LeastSecret })
	return values
}

package tool

import (
	"maps"

	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Within is the manifest of a run that may use the files of one folder alone, of
// none if it is not in any declared root any more.
func (m *Manifest) Within(scope string, declared bool) *Manifest {
	narrow := *m
	narrow.Scope = scope
	narrow.Servers = maps.Clone(m.Servers)
	if s, ok := narrow.Servers[builtin.Name]; ok {
		s.Roots = nil
		if declared {
			s.Roots = []string{scope}
		}
		narrow.Servers[builtin.Name] = s
	}
	return &narrow
}

// WithSubDispatch is the manifest of a run whose caller lets it start child runs.
func (m *Manifest) WithSubDispatch() *Manifest {
	allowing := Manifest{MaxTimeout: DefaultMaxTimeout, Policy: new(policy.Policy)}
	if m != nil {
		allowing = *m
	}
	allowing.SubDispatch = true
	return &allowing
}

package pb

import "github.com/tipstaff/tipstaff/canon"

// FieldError is a value that cannot be taken, and where it stands:
// outputs.critic.findings[2].
type FieldError struct {
	Path    string // "": the whole value
	Message string
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// trail leads to the value that is looked at. It is put into words only where one is
// at fault.
type trail canon.Path

func (t *trail) member(name string) { *t = append(*t, name) }
func (t *trail) element(i int)      { *t = append(*t, i) }
func (t *trail) back()              { *t = (*t)[:len(*t)-1] }

func (t trail) fault(message string) error {
	return &FieldError{Path: canon.Path(t).String(), Message: message}
}

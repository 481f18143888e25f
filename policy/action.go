package policy

import "fmt"

// Action is what to do with a call. The zero value denies, so that a verdict
// nobody filled in lets nothing through.
type Action uint8

// Stricter actions are smaller.
const (
	Deny Action = iota
	Ask
	Allow
)

// ParseAction reads allow, ask or deny.
func ParseAction(s string) (Action, error) {
	switch s {
	case "allow":
		return Allow, nil
	case "ask":
		return Ask, nil
	case "deny":
		return Deny, nil
	}
	return Deny, fmt.Errorf("%q is not an action: use allow, ask or deny", s)
}

func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// MarshalText is String.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAction.
func (a *Action) UnmarshalText(b []byte) (err error) {
	*a, err = ParseAction(string(b))
	return err
}

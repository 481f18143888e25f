package pipeline

import (
	"fmt"

	"cel.dev/cel-go/common/types"
)

// matches reports whether the rule applies to what the stage has brought. An error
// means that nobody can say: that is not "no".
func (r *Rule) matches(s *scope) (bool, error) {
	if r.when == nil {
		v, present := s.output()[r.Condition]
		return present && Equal(v, r.Value), nil
	}
	v, err := r.when.eval(s)
	if err != nil {
		return false, fmt.Errorf("when %q: %w", r.When, err)
	}
	yes, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("when %q: it yields a %s, not a boolean", r.When, v.Type().TypeName())
	}
	return bool(yes), nil
}

// label says in one line when the rule applies.
func (r *Rule) label() string {
	if r.when != nil {
		return r.When
	}
	return r.Condition + " = " + string(EncodeValue(r.Value))
}

// interrupts reports whether a target is a question to a person.
func interrupts(target string) bool { return target == Clarification || target == Confirmation }

// reserved reports whether a name cannot be a stage's.
func reserved(name string) bool { return name == End || name == Start || interrupts(name) }

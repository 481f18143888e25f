package tipstaff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// actionExtend and actionAnswer are the actions whose answers people write shorter than
// gates take them.
const (
	actionExtend = "extend"
	actionAnswer = "answer"
)

// BoundOf names the bound that a gate asks to extend; "": it asks about none.
func BoundOf(g Gate) string {
	bound, _ := wantedOf(g)
	return bound
}

// wantedOf is the bound that a gate asks to extend, and how much of it is wanted, which is
// enough in any case; 0: the gate does not say.
func wantedOf(g Gate) (bound string, n int64) {
	var s struct {
		Bound  string           `json:"bound"`
		Wanted map[string]int64 `json:"wanted"`
	}
	if g.Kind != Bound || json.Unmarshal(g.Subject, &s) != nil {
		return "", 0
	}
	return s.Bound, s.Wanted[s.Bound]
}

// FullAnswer is an answer in the form in which it is recorded. A bound is extended by an
// amount, which becomes an object that names the bound; amounts may stand as documents
// write them, "0.50" or "10m"; bounds of a pipeline may be named as it names them, and a number alone is in dollars where money is meant. An
// answer to the only question of a clarification becomes an object, too.
func FullAnswer(g Gate, action string, answer json.RawMessage) (json.RawMessage, error) {
	object := bytes.HasPrefix(bytes.TrimSpace(answer), []byte("{"))
	questions := QuestionsOf(g)
	switch {
	case len(answer) == 0:
	case action == actionExtend && object:
		return amounts(answer)
	case action == actionExtend:
		n, err := amount(BoundOf(g), answer)
		if err != nil {
			return nil, err
		}
		return flow.JSON(map[string]int64{BoundOf(g): n}), nil
	case action == actionAnswer && len(questions) == 1 && !object:
		return flow.JSON(map[string]json.RawMessage{questions[0].ID: answer}), nil
	}
	return answer, nil
}

// amounts reads an object of them by bound: whole numbers are in the units of the ledger,
// and texts as documents write them.
func amounts(answer json.RawMessage) (json.RawMessage, error) {
	var by map[string]json.RawMessage
	if err := json.Unmarshal(answer, &by); err != nil {
		return answer, nil // whoever checks the decision says what is wrong
	}
	for bound, field := range boundFields {
		v, ok := by[field]
		if !ok || bound == BoundStages { // which no ledger knows
			continue
		}
		if _, twice := by[bound]; twice {
			return nil, Errorf(InvalidArgument, "%s and %s are one bound", field, bound)
		}
		n, err := fieldAmount(bound, v)
		if err != nil {
			return nil, err
		}
		delete(by, field)
		by[bound] = flow.JSON(n)
	}
	for name, v := range by {
		if !bytes.HasPrefix(v, []byte(`"`)) {
			continue
		}
		n, err := amount(name, v)
		if err != nil {
			return nil, err
		}
		by[name] = flow.JSON(n)
	}
	return flow.JSON(by), nil
}

// fieldAmount reads an amount of a bound as the field of a pipeline has it.
func fieldAmount(bound string, v json.RawMessage) (int64, error) {
	if bound != BoundWallTime {
		return amount(bound, v)
	}
	n, err := amount("", v)
	if err != nil || n > math.MaxInt64/1000 {
		return 0, Errorf(InvalidArgument, "%s is not by how much max_wall_seconds can be extended: it takes seconds", v)
	}
	return n * 1000, nil
}

// amount reads one amount of a bound.
func amount(bound string, v json.RawMessage) (int64, error) {
	var text string
	if json.Unmarshal(v, &text) != nil {
		text = string(bytes.TrimSpace(v))
	}
	return ParseAmount(bound, text)
}

// ParseAmount reads by how much a bound is extended, as people type it.
func ParseAmount(bound, text string) (int64, error) {
	var n int64
	var err error
	switch bound {
	case BoundCostUSD:
		n, err = ParseBound(bound, strings.TrimPrefix(text, "$"))
	case BoundWallTime:
		n, err = ParseBound(bound, text)
	default: // also bounds that only a turn or a pipeline knows
		n, err = parseCount(json.Number(text))
	}
	if err != nil || n == 0 {
		return 0, Errorf(InvalidArgument, "%q is not by how much %s can be extended: it takes %s", text, cmp.Or(bound, "it"), AmountForm(bound))
	}
	return n, nil
}

// AmountForm says what an amount of a bound looks like.
func AmountForm(bound string) string {
	switch bound {
	case BoundCostUSD:
		return "dollars, like 0.50"
	case BoundWallTime:
		return "a duration, like 10m"
	}
	return "a number, like 5"
}

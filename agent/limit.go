package agent

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Actions at a gate about the limit of steps.
const (
	actionExtend = "extend"
	actionStop   = "stop"
)

// exceed is what happens where the turn needs more steps than it may take: nil
// means that somebody has allowed it more. waiting is how many calls wait for that.
func (t *turn) exceed(waiting int) error {
	failure := &stepsExceeded{&flow.Error{Code: flow.CodeBoundExceeded, Bound: BoundSteps,
		Message: fmt.Sprintf("the turn may take %d steps, and needs more", t.limit)}}
	if t.OnLimit != OnLimitAsk || t.limit >= maxSteps {
		return failure
	}
	d, err := t.fc.Wait(flow.Gate{Key: "limit#" + strconv.Itoa(t.steps), Kind: string(tipstaff.Bound),
		Question: fmt.Sprintf("The turn has taken the %d steps it may take. How many more may it take?", t.limit),
		Subject:  flow.JSON(map[string]any{"bound": BoundSteps, "limit": t.limit, "most": maxSteps, "calls": waiting}),
		Actions:  []string{actionExtend, actionStop}, Deny: actionStop})
	if err != nil {
		return err
	}
	more := extension(d)
	if more <= 0 {
		return failure
	}
	t.limit = min(t.limit+more, maxSteps)
	return nil
}

// extension is by how many steps a decision extends the limit: its answer is a
// number, or {"steps": n} as for other bounds.
func extension(d flow.Decision) int {
	if d.Action != actionExtend {
		return 0
	}
	var n int
	if json.Unmarshal(d.Answer, &n) == nil {
		return min(n, maxSteps)
	}
	var by struct {
		Steps int `json:"steps"`
	}
	if json.Unmarshal(d.Answer, &by) != nil {
		return 0
	}
	return min(by.Steps, maxSteps)
}

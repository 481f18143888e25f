package tipstaff

import (
	"fmt"
	"regexp"
	"strings"
)

// What a task can wait for.
const (
	WaitsReview   = "review"   // actions continue, retry_feedback, halt
	WaitsQuestion = "question" // that its worker asked: answer, deny
	WaitsFailure  = "failure"  // of an invocation: retry, fail
	WaitsApproval = "approval" // of a call
	WaitsDoubt    = "in_doubt" // whether an invocation took place: retry, use_result, fail
	WaitsLimit    = "limit"    // of iterations
)

// taskGateForm is the key of a gate below the path of its task's step or stage.
var taskGateForm = regexp.MustCompile(`^(?:.*/)?(?:worker#\d+/(question|failure|approval|in_doubt)(?:#\d+)?|(review|limit)#(\d+))$`)

// WaitsAt is the open gate that a task waits at, and what for; false: it waits at none.
func (t *Task) WaitsAt(open []Gate) (gate Gate, what string, ok bool) {
	for _, g := range open {
		key, below := g.Key, true
		if t.Path != "" {
			key, below = strings.CutPrefix(g.Key, t.Path+"/")
		}
		m := taskGateForm.FindStringSubmatch(key)
		if !below || m == nil || m[3] != "" && m[3] != fmt.Sprint(t.Iteration) {
			continue
		}
		// A reviewer works below the task that it reviews, and has a task of its own.
		if !ok || strings.Count(g.Key, "/") < strings.Count(gate.Key, "/") {
			gate, what, ok = g, m[1]+m[2], true
		}
	}
	return gate, what, ok
}

package agent_test

import (
	"testing"

	"github.com/tipstaff/tipstaff/agent"
)

// A model is taken to return with its context only if it says so.
func TestOnlyAPromiseMakesAModelCancellable(t *testing.T) {
	if agent.Cancels(&stuck{}, agent.Request{}) {
		t.Error("a model that promises nothing is taken at its word")
	}
	for _, promise := range []bool{false, true} {
		if got := agent.Cancels(&model{forget: promise}, agent.Request{}); got != promise {
			t.Errorf("it promises %v, and is taken to promise %v", promise, got)
		}
	}
}

package runner

import (
	"encoding/json"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// continued: another walk begins. What became of the nodes is what became of them
// in the last one; carried ones say so there again.
func (a *account) continued(e *tipstaff.Event) {
	var b struct {
		State struct {
			Phase string `json:"phase"`
		} `json:"state"`
	}
	if json.Unmarshal(e.Body, &b) == nil && b.State.Phase == phaseWalk {
		clear(a.steps)
	}
}

// asked notes a gate about a call of an earlier revision.
func (a *account) asked(e *tipstaff.Event) {
	if e.Kind != tipstaff.KindPolicyGate || !strings.HasSuffix(e.Path, "/"+flow.EarlierDoubt(flow.Attempt{}, nil).Key) {
		return
	}
	var b struct {
		Gate    string `json:"gate"`
		Subject struct {
			Path string `json:"path"`
		} `json:"subject"`
	}
	if json.Unmarshal(e.Body, &b) == nil {
		a.doubts[b.Gate] = b.Subject.Path
	}
}

// taken settles the call that such a gate was about: somebody has decided.
func (a *account) taken(e *tipstaff.Event) {
	if len(a.doubts) == 0 {
		return
	}
	var b struct {
		Gate string `json:"gate"`
	}
	if json.Unmarshal(e.Body, &b) == nil {
		delete(a.open, a.doubts[b.Gate])
	}
}

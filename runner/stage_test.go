package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// planStages is the frozen form of a pipeline with a stage that walks a plan.
func planStages(t *testing.T) []byte {
	t.Helper()
	pipe, problems := pipeline.Check("p.yaml", []byte(`
name: p
agents:
  - name: walk
    plan:
      document:
        kind: plan
        version: 1
        root: {kind: sequential, children: [{kind: tool_call, id: get, tool: "mcp://builtin/read_file@1.0.0", args: {path: a}}]}
`), pipeline.Resolver{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return pipe.Canonical()
}

// A program whose stage could not be walked is no program: a gate without that plan
// would let the stage call whatever the run may.
func TestAPlanThatCannotBeReadIsFoundWhenTheProgramIsLoaded(t *testing.T) {
	t.Parallel()
	frozen := strings.Replace(string(planStages(t)), `"kind":"sequential"`, `"kind":"sideways"`, 1)
	if _, err := openPipelineText([]byte(frozen)); err == nil || !strings.Contains(err.Error(), "the plan of stage walk cannot be read") {
		t.Errorf("loading it: %v", err)
	}
}

// The plan of a stage is read with the program, not again with every visit.
func TestThePlanOfAStageIsReadOnce(t *testing.T) {
	t.Parallel()
	p, err := openPipelineText(planStages(t))
	if err != nil {
		t.Fatal(err)
	}
	walk := p.Agents[0]
	walk.Plan.Document = json.RawMessage(`{}`) // whoever reads it again finds nothing
	if got := p.allowedIn(walk, nil, agentSet{}); !slices.Equal(got, []string{"mcp://builtin/read_file@1.0.0"}) {
		t.Errorf("the stage may call %q", got)
	}
	if got := p.outline(nil).Children[0].Children; len(got) != 1 || len(got[0].Children) != 1 {
		t.Errorf("the outline of the stage is %+v", got)
	}
}

// A run that has ended can be left at once, although its drive may still be tidying up;
// one that is driven cannot.
func TestWhatMayBeLeft(t *testing.T) {
	r := &Runner{drives: map[string]*active{"x": {}}}
	if err := r.mayLeave(t.Context(), branch{}, flow.Row{ID: "x", State: string(tipstaff.Completed)}); err != nil {
		t.Errorf("an ended run: %v", err)
	}
	if err := r.mayLeave(t.Context(), branch{}, flow.Row{ID: "x", State: string(tipstaff.Executing)}); tipstaff.CodeOf(err) != tipstaff.WrongState {
		t.Errorf("a driven run: %v", err)
	}
}

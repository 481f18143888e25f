package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// A result that the turn cannot read fails nothing for good: the model is paid, and the turn
// goes on once the program is mended.
func TestAResultThatATurnCannotReadIsMisuse(t *testing.T) {
	for name, path := range map[string]string{agent.ModelActivity: "turn/model#1", agent.CatalogActivity: "turn/catalog", agent.RouterActivity: "turn/router"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(steps(say("Done.")), aTool("f/read", "read"))
			b.cfg.Router = agent.PassThrough{}
			b.cfg.Settings.Router = agent.RouterCustom
			b.jobs = func(job *flow.Job) {
				job.Acts[name] = flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
					return flow.Done{Value: json.RawMessage(`"of another version"`)}, nil
				}}
			}
			out := b.drive(t)
			if m := (*flow.Misuse)(nil); out.Status != flow.Interrupted || out.Reason != "misuse" || !errors.As(out.Err, &m) || m.Path != path {
				t.Errorf("%s %s: %v", out.Status, out.Reason, out.Err)
			}
		})
	}
}

package workspace_test

import (
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/workspace"
)

// What a client reports that its person has answered counts where it can do least, unless the
// manifest says more, or nothing.
func TestWhatElicitationDecides(t *testing.T) {
	for doc, want := range map[string]struct{ question, delivery, doubt bool }{
		"version: 1\n":                             {true, false, false},
		"version: 1\nmcp: {}\n":                    {true, false, false},
		"version: 1\nmcp: {elicitation: on}\n":     {true, false, false},
		"version: 1\nmcp: {elicitation: \"on\"}\n": {true, false, false},
		"version: 1\nmcp: {elicitation: all}\n":    {true, true, true},
		"version: 1\nmcp: {elicitation: off}\n":    {false, false, false},
	} {
		m, problems := workspace.Parse("tipstaff.yaml", []byte(doc))
		if len(problems) > 0 {
			t.Errorf("%s: %v", doc, problems)
			continue
		}
		if m.Elicits(tipstaff.Question) != want.question || m.Elicits(tipstaff.Delivery) != want.delivery || m.Elicits(tipstaff.InDoubt) != want.doubt {
			t.Errorf("%s: a question %t, a delivery %t, a call in doubt %t", doc, m.Elicits(tipstaff.Question), m.Elicits(tipstaff.Delivery), m.Elicits(tipstaff.InDoubt))
		}
	}
	if none := (*workspace.Manifest)(nil); !none.Elicits(tipstaff.Question) || none.Elicits(tipstaff.Delivery) {
		t.Error("without a manifest it is not as usual")
	}
	for _, doc := range []string{"mcp: {elicitation: some}\n", "mcp: {elicitation: true}\n", "mcp: {elicit: on}\n", "mcp: on\n"} {
		if _, problems := workspace.Parse("tipstaff.yaml", []byte("version: 1\n"+doc)); len(problems) != 1 || problems[0].Line != 2 {
			t.Errorf("%s: %v", doc, problems)
		}
	}
}

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

func TestTurnIsAPlanOfOneStep(t *testing.T) {
	doc, problems := Check("turn.yaml", []byte("kind: turn\nagent: helper\nsession: 01M7G3EYJYXZX0RQ2DABT2BB1E\nmessage: What is ${this}?\nmodel: big\nmax_steps: 7\n"), nil)
	if problems != nil {
		t.Fatal(problems)
	}
	if got := *doc.Turn; got != (Turn{Session: "01M7G3EYJYXZX0RQ2DABT2BB1E", Message: "What is ${this}?", Model: "big", MaxSteps: 7}) {
		t.Errorf("%+v", got)
	}
	if n := doc.Root; n.Kind != Step || n.Path != "turn" || n.Agent != "helper" {
		t.Errorf("the step is %s of %s at %s", n.Kind, n.Agent, n.Path)
	}
	again, err := Load(doc.Canonical())
	if err != nil || again.Digest() != doc.Digest() || *again.Turn != *doc.Turn {
		t.Errorf("read back: %v", err)
	}
}

func TestTurnsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"kind: turn", "1:1 field_missing"},
		{"kind: turn\nmessage: ''", "2:10 range"},
		{"kind: turn\nmessage: hello\nroot: {}", "3:1 field_unknown"},
		{"kind: turn\nmessage: [a]", "2:10 field_type"},
		{"kind: turn\nmessage: hello\nmax_steps: 1001", "3:12 range"},
		{"kind: turn\nmessage: hello\nversion: 2", "3:10 range"},
		{"kind: turn\nmessage: hello\ntools: [builtin/read_file]", "3:9 invalid_uri"},
	} {
		_, problems := Check("t", []byte(c.src), nil)
		if len(problems) == 0 {
			t.Errorf("%q was read", c.src)
			continue
		}
		if got := fmt.Sprintf("%d:%d %s", problems[0].Line, problems[0].Column, problems[0].Code); got != c.want {
			t.Errorf("%q: %s, want %s", c.src, got, c.want)
		}
	}
}

func TestUnknownKindOfDocument(t *testing.T) {
	_, problems := Check("t", []byte("kind: conversation\nversion: 1\nroot: {id: a, kind: gate, question: Why?}"), nil)
	if len(problems) != 1 || problems[0].Code != document.CodeKindUnknown || problems[0].Column != 7 {
		t.Errorf("%+v", problems)
	}
}

// A turn carries what somebody pipes in, a plan does not.
func TestLongMessages(t *testing.T) {
	long := strings.Repeat("\x01", MaxMessage) // six bytes each in JSON
	if _, problems := Check("t", flow.JSON(map[string]any{"kind": "turn", "message": long}), nil); problems != nil {
		t.Errorf("a message of %d bytes: %v", len(long), problems)
	}
	if _, problems := Check("t", flow.JSON(map[string]any{"kind": "turn", "message": long + "x"}), nil); len(problems) != 1 || problems[0].Code != "range" {
		t.Errorf("one more: %v", problems)
	}
	if _, problems := Check("t", flow.JSON(map[string]any{"kind": "plan", "name": strings.Repeat("a", MaxSize)}), nil); len(problems) != 1 || problems[0].Code != "limit" {
		t.Errorf("a plan as large: %v", problems)
	}
}

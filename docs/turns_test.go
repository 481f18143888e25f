package docs_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/agent"
)

func TestEventsOfTurnsAreListed(t *testing.T) {
	text := section(t, "turns.md", "## Events")
	var real []string
	for _, body := range []agent.Body{new(agent.StepStarted), new(agent.TextDelta), new(agent.MessageDone), new(agent.RouterDecided), new(agent.ToolCallRequest),
		new(agent.ApprovalRequested), new(agent.ApprovalDecided), new(agent.ToolCallResult), new(agent.Finish), new(agent.Failed)} {
		name := string(agent.Event{Body: body}.Type())
		real = append(real, name)
		_, row, _ := strings.Cut(text, "| `"+name+"` |")
		row, _, _ = strings.Cut(row, "\n")
		for _, member := range members(reflect.TypeOf(body).Elem()) {
			if !strings.Contains(row, "`"+member+"`") {
				t.Errorf("turns.md: %s has a field %s", body.Kind(), member)
			}
		}
	}
	if listed := firstColumn(text); !slices.Equal(listed, real) {
		t.Errorf("turns.md lists\n%v, there are\n%v", listed, real)
	}
	for _, name := range members(reflect.TypeFor[agent.Usage]()) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("turns.md: usage has a member %s", name)
		}
	}
}

func TestCodesOfTurnsAreListed(t *testing.T) {
	page := readPage(t, "turns.md")
	for _, code := range append(constants(t, "../agent", regexp.MustCompile(`^(Code|Class)[A-Z]`)), string(agent.ConfigInvalid), string(agent.SessionInvalid)) {
		if !strings.Contains(page, "| `"+code+"` |") {
			t.Errorf("turns.md does not list %s", code)
		}
	}
	for _, name := range members(reflect.TypeFor[agent.Message]()) {
		if !strings.Contains(section(t, "turns.md", "## Sessions in files"), "`"+name+"`") {
			t.Errorf("turns.md: a message has a member %s", name)
		}
	}
}

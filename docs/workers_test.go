package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/worker"
	"github.com/tipstaff/tipstaff/workspace"
)

var (
	quotedCommand = regexp.MustCompile("`tipstaff((?: [^`]*)?)`")
	commandWord   = regexp.MustCompile(`^[a-z][a-z-]*$`)
	usage         = regexp.MustCompile(`(?m)^Usage:\n\s+(tipstaff(?: [a-z][a-z-]*)*)`)
)

// unknownCommands are what a prompt shows as a command of ours and is none: its help is
// that of another one.
func unknownCommands(t *testing.T, text string) (unknown []string) {
	for _, found := range quotedCommand.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(found[1])
		if i := slices.IndexFunc(words, func(w string) bool { return !commandWord.MatchString(w) }); i >= 0 {
			words = words[:i]
		}
		path := strings.Join(append([]string{"tipstaff"}, words...), " ")
		text := help(t, words...)
		shown := usage.FindStringSubmatch(text)
		if shown == nil || path != shown[1] && (!strings.HasPrefix(path, shown[1]+" ") || strings.Contains(text, "Available Commands:")) {
			unknown = append(unknown, path)
		}
	}
	return unknown
}

// TestRolesNameCommandsThatExist: a worker does as it is told.
func TestRolesNameCommandsThatExist(t *testing.T) {
	for _, r := range append(worker.Roles(), worker.Role{Name: "protocol", Prompt: worker.Protocol()}) {
		if unknown := unknownCommands(t, r.Prompt); unknown != nil {
			t.Errorf("the role %s tells of %v", r.Name, unknown)
		}
	}
	planted := "Call `tipstaff show abc`, `tipstaff memory list`, `tipstaff tools frobnicate` and `tipstaff frobnicate`."
	if got := unknownCommands(t, planted); !slices.Equal(got, []string{"tipstaff tools frobnicate", "tipstaff frobnicate"}) {
		t.Errorf("of planted wrong ones are found: %v", got)
	}
}

func TestFieldsOfWorkersAreListed(t *testing.T) {
	for heading, v := range map[string]any{"## Configuration": workspace.Worker{}, "## Limits": workspace.WorkerLimits{}} {
		listed, real := firstColumn(section(t, "workers.md", heading)), fieldNames(v)
		if heading == "## Configuration" {
			real = append(real, "yolo") // which is a posture
		}
		slices.Sort(listed)
		slices.Sort(real)
		if !slices.Equal(listed, real) {
			t.Errorf("workers.md lists under %q\n%v, there are\n%v", heading, listed, real)
		}
	}
}

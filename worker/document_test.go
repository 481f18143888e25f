package worker_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/worker"
)

func exampleTask() tipstaff.Task {
	at := time.Date(2026, 11, 15, 2, 30, 0, 123456789, time.UTC)
	return tipstaff.Task{ID: "010", Name: "parser: \"quoted\" #1", Description: "Write a parser.\n\n  indented: |\nWith tests.\n", Role: "implementer",
		Worker: "careful", Review: "person", Status: tipstaff.TaskPaused, Iteration: 2, MaxIterations: 5, SessionID: "5a9c", RunID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3",
		Pause: &tipstaff.TaskPause{Reason: "question", Question: "Which\none?", Options: []string{"a", "b"}}, LastOutcome: "paused",
		Inputs:    []tipstaff.TaskInput{{Path: "spec/a.md"}, {Text: "two\nlines"}},
		Outputs:   []tipstaff.TaskOutput{{Kind: "file", Path: "a.go", SHA256: "sha256:" + strings.Repeat("0a", 32), Note: "n", Iteration: 1, At: at}},
		Feedback:  []tipstaff.TaskFeedback{{Iteration: 1, Verdict: tipstaff.VerdictRejected, Text: "no\ttests", By: "local:cli", At: at}},
		CreatedAt: at, UpdatedAt: at, StartedAt: at, Revision: 12, Metadata: map[string]string{"ticket": "X-1", "": "y: [", "empty": ""}}
}

func TestATaskSurvivesItsDocument(t *testing.T) {
	task := exampleTask()
	asJSON, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"", "one line", "ends\nwell\n", "two\n\nblank", " leads\nwith a space", "tab\tand\nline", "trailing \nspace", "\n", "a\n\n", "crlf\r\nline",
		"back\\slash\nand \"quotes\"", "- list\n- like", "key: value\nother: {", "# comment\n---\n...\n", "ümlaut\nand \u2028 and \u0085", strings.Repeat("x\n\n\n", 300), strings.Repeat("\n", 200) + "x"}
	for _, src := range [][]byte{task.YAML(), asJSON} {
		checkRead(t, task, src)
	}
	for _, text := range texts {
		task.Description = text
		checkRead(t, task, task.YAML())
	}
}

func checkRead(t *testing.T, want tipstaff.Task, src []byte) {
	t.Helper()
	got, problems := worker.ParseTask("task.yaml", src)
	if len(problems) > 0 {
		t.Errorf("%v\n%s", problems, src)
		return
	}
	was, _ := json.Marshal(want)
	is, _ := json.Marshal(got)
	if string(was) != string(is) {
		t.Errorf("\n got %s\nwant %s\n%s", is, was, src)
	}
}

func TestADocumentWithoutASessionLoads(t *testing.T) {
	task := exampleTask()
	task.SessionID = ""
	checkRead(t, task, task.YAML())
}

func TestProblemsOfATaskHaveTheirPlace(t *testing.T) {
	lines := strings.Split(string(exampleTask().YAML()), "\n")
	number := func(prefix string) int {
		return slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) }) + 1
	}
	for name, c := range map[string]struct {
		old, new string
		line     int
		path     string
	}{
		"unknown field":         {"role: ", "rule: 1\nrole: ", number("role:"), "rule"},
		"unknown status":        {`status: "paused"`, `status: "done"`, number("status:"), "status"},
		"a time with an offset": {`:00.123456789Z"` + "\nupdated", `:00+01:00"` + "\nupdated", number("created_at:"), "created_at"},
		"empty optional":        {`session_id: "5a9c"`, `session_id: ""`, number("session_id:"), "session_id"},
		"a fraction":            {"revision: 12", "revision: 12.0", number("revision:"), "revision"},
		"inside a list":         {`"verdict":"rejected"`, `"verdict":"maybe"`, number("  - {\"iteration\""), "feedback[0].verdict"},
		"of another status":     {`status: "paused"`, `status: "completed"`, number("session_id:"), "session_id"},
		"too many":              {"max_iterations: 5", "max_iterations: 101", number("max_iterations:"), "max_iterations"},
	} {
		src := strings.Join(lines, "\n")
		if !strings.Contains(src, c.old) {
			t.Fatalf("%s: %q is not in\n%s", name, c.old, src)
		}
		_, problems := worker.ParseTask("t.yaml", []byte(strings.Replace(src, c.old, c.new, 1)))
		if !slices.ContainsFunc(problems, func(p tipstaff.Problem) bool {
			return p.Path == c.path && p.Line == c.line && p.Column > 0 && p.File == "t.yaml"
		}) {
			t.Errorf("%s: %+v, want %s at line %d", name, problems, c.path, c.line)
		}
	}
}

// The root package has the list of outcomes once more: it cannot know this one.
func TestEveryOutcomeFitsATask(t *testing.T) {
	for _, o := range []worker.Outcome{worker.StartFailed, worker.ChannelFailed, worker.Orphan, worker.Cancelled, worker.Limit, worker.Approval, worker.Paused,
		worker.SessionConflict, worker.SessionLost, worker.Empty, worker.Failed, worker.Exited, worker.Truncated, worker.Denied, worker.NoReport, worker.Reported} {
		task := exampleTask()
		task.LastOutcome, task.Pause.Reason = string(o), string(o)
		if ps := tipstaff.ValidateTask(task); len(ps) > 0 {
			t.Error(fmt.Sprint(o, ": ", ps))
		}
	}
}

package tipstaff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// YAML is the task as a document that people edit: fields in the order of [Task], long
// texts as blocks.
func (t Task) YAML() []byte {
	var members []member
	text := func(name, value string, always bool) {
		if value != "" || always {
			members = append(members, member{name, yamlText(value, "  ")})
		}
	}
	whole := func(name string, n int64) { members = append(members, member{name, fmt.Sprint(n)}) }
	moment := func(name string, at time.Time) {
		if !at.IsZero() {
			members = append(members, member{name, string(quoted(flow.Time{Time: at}))})
		}
	}
	text("id", t.ID, true)
	text("name", t.Name, true)
	text("description", t.Description, true)
	text("role", t.Role, true)
	text("worker", t.Worker, false)
	text("review", t.Review, true)
	text("status", string(t.Status), true)
	whole("iteration", int64(t.Iteration))
	whole("max_iterations", int64(t.MaxIterations))
	text("session_id", t.SessionID, false)
	text("run_id", t.RunID, false)
	text("parent", t.Parent, false)
	if t.Pause != nil {
		members = append(members, member{"pause", string(quoted(t.Pause))})
	}
	text("last_outcome", t.LastOutcome, false)
	list(&members, "inputs", t.Inputs)
	list(&members, "outputs", t.Outputs)
	list(&members, "feedback", t.Feedback)
	moment("created_at", t.CreatedAt)
	moment("updated_at", t.UpdatedAt)
	moment("started_at", t.StartedAt)
	moment("completed_at", t.CompletedAt)
	whole("revision", t.Revision)
	members = append(members, member{"metadata", yamlMap(t.Metadata)})

	var b strings.Builder
	for _, m := range members {
		sep := " "
		if strings.HasPrefix(m.value, "\n") {
			sep = ""
		}
		fmt.Fprintf(&b, "%s:%s%s\n", m.name, sep, m.value)
	}
	return []byte(b.String())
}

type member struct{ name, value string }

// list writes one item a line, in JSON, which is YAML too.
func list[T any](members *[]member, name string, items []T) {
	value := " []"
	if len(items) > 0 {
		value = ""
		for _, item := range items {
			value += "\n  - " + string(quoted(item))
		}
	}
	*members = append(*members, member{name, strings.TrimPrefix(value, " ")})
}

func yamlMap(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	value := ""
	for _, name := range names {
		value += fmt.Sprintf("\n  %s: %s", quoted(name), quoted(m[name]))
	}
	return value
}

func quoted(v any) json.RawMessage { return flow.JSON(v) }

// manyBlank is more blank lines than a reader of YAML should be asked to count.
var manyBlank = strings.Repeat("\n", 50)

// yamlText is a text of several lines as a block where that has one meaning, else a
// string in quotes.
func yamlText(s, indent string) string {
	body, ended := strings.CutSuffix(s, "\n")
	odd := func(r rune) bool {
		return r < ' ' && r != '\n' || r == 0x7f || r == '\ufeff' || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufffd'
	}
	if !strings.Contains(body, "\n") || strings.HasSuffix(body, "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") ||
		strings.Contains(s, " \n") || strings.HasSuffix(s, " ") || strings.Contains(s, manyBlank) || strings.ContainsFunc(s, odd) {
		return string(quoted(s))
	}
	head := "|-"
	if ended {
		head = "|"
	}
	for line := range strings.SplitSeq(body, "\n") {
		head += "\n"
		if line != "" {
			head += indent + line
		}
	}
	return head
}

// Line is an entry of a log as people read it: the time, the level unless it is info, the
// text. Further lines of it are indented.
func (l TaskLogLine) Line() string {
	level := ""
	if l.Level != "" && l.Level != "info" {
		level = l.Level + ": "
	}
	lines := strings.Split(strings.TrimRight(l.Text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = PrintableProse(line)
	}
	return fmt.Sprintf("%s  %s%s", l.At.UTC().Format(time.RFC3339), level, strings.Join(lines, "\n    "))
}

// TaskFile is the name of a task's document among its files.
const TaskFile = "task.yaml"

// Files are a task as files for people, by name: its document, its description, its log,
// and what reviews have said by iteration.
func (t Task) Files(log []TaskLogLine) map[string][]byte {
	files := map[string][]byte{TaskFile: t.YAML(), "description.md": []byte(t.Description)}
	var lines strings.Builder
	for _, line := range log {
		fmt.Fprintf(&lines, "- %s\n", line.Line())
	}
	files["log.md"] = []byte(lines.String())
	for _, said := range t.Feedback {
		name := fmt.Sprintf("feedback/%03d.md", said.Iteration)
		files[name] = fmt.Appendf(files[name], "# %s by %s at %s\n\n%s\n", said.Verdict, Printable(said.By), said.At.UTC().Format(time.RFC3339), said.Text)
	}
	return files
}

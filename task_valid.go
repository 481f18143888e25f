package tipstaff

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a task's document, the same as in schema/task.cue.
const (
	MaxTaskName        = 120     // runes
	MaxTaskDescription = 262_144 // runes
	MaxTaskIterations  = 100
	MaxTaskMetadata    = 64
	MaxTaskQuestion    = 4_000 // runes; of a reason, too
	MaxTaskOptions     = 10
)

// Defaults of a new task.
const (
	TaskRole       = "implementer"
	TaskIterations = 5
	ReviewNone     = "none"
	ReviewPerson   = "person"
)

var (
	taskIDForm   = regexp.MustCompile(`^[0-9]{3,9}$`)
	taskNameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`) // of roles and workers
)

// lineBreaks are what no name contains.
const lineBreaks = "\n\v\f\r\u0085\u2028\u2029"

// CheckTaskID is invalid_argument unless id has the form of one.
func CheckTaskID(id string) error {
	if taskIDForm.MatchString(id) {
		return nil
	}
	return Errorf(InvalidArgument, "%q is not the id of a task: it has 3 to 9 digits", Printable(id))
}

// taskOutcomes are how an invocation can end; package worker says when.
var taskOutcomes = []string{"start_failed", "channel", "orphan", "cancelled", "limit", "approval", "paused", "session_conflict", "session_lost",
	"empty", "error", "exit", "truncated", "denied", "no_report", "reported"}

// ValidateTask says what is wrong with a task, by the path of each field; nil: nothing.
func ValidateTask(t Task) []Problem {
	c := &taskCheck{}
	c.that(taskIDForm.MatchString(t.ID), "id", "it has 3 to 9 digits")
	c.runes("name", t.Name, 1, MaxTaskName)
	c.that(!strings.ContainsAny(t.Name, lineBreaks), "name", "it is one line")
	c.runes("description", t.Description, 0, MaxTaskDescription)
	c.name("role", t.Role)
	c.that(t.Worker == "" || taskNameForm.MatchString(t.Worker), "worker", nameRule)
	c.name("review", t.Review)
	c.that(slices.Contains(TaskStatuses(), t.Status), "status", "it is one of "+joined(TaskStatuses()))
	c.between("iteration", int64(t.Iteration), 1, maxExact)
	c.between("max_iterations", int64(t.MaxIterations), 1, MaxTaskIterations)
	c.between("revision", t.Revision, 1, maxExact)
	if t.SessionID != "" {
		c.runes("session_id", t.SessionID, 1, 200)
		c.that(!strings.ContainsAny(t.SessionID, lineBreaks), "session_id", "it is one line")
	}
	if _, err := ParseID(t.RunID); t.RunID != "" && err != nil {
		c.that(false, "run_id", "it is the id of a run, a ULID")
	}
	c.that(t.Parent == "" || taskIDForm.MatchString(t.Parent), "parent", "it is the id of a task")
	c.that(t.LastOutcome == "" || slices.Contains(taskOutcomes, t.LastOutcome), "last_outcome", "it is one of "+strings.Join(taskOutcomes, ", "))
	c.that(len(t.Metadata) <= MaxTaskMetadata, "metadata", fmt.Sprintf("there are at most %d", MaxTaskMetadata))
	c.lists(t)
	c.times(t)
	c.status(t)
	return c.found
}

// maxExact is the largest whole number that every reader of JSON has exactly.
const maxExact = 1<<53 - 1

const nameRule = "it is a letter, then up to 63 of a-z, 0-9, _ and -"

// taskCheck gathers problems.
type taskCheck struct{ found []Problem }

// that is a rule of a field.
func (c *taskCheck) that(holds bool, path, rule string) {
	if !holds {
		c.found = append(c.found, Problem{Code: "field_invalid", Path: path, Message: path + ": " + rule})
	}
}

func (c *taskCheck) name(path, name string) { c.that(taskNameForm.MatchString(name), path, nameRule) }

func (c *taskCheck) runes(path, text string, least, most int) {
	n := utf8.RuneCountInString(text)
	c.that(n >= least && n <= most, path, fmt.Sprintf("it has %d to %d characters, not %d", least, most, n))
}

func (c *taskCheck) between(path string, n, least, most int64) {
	c.that(n >= least && n <= most, path, fmt.Sprintf("it is from %d to %d, not %d", least, most, n))
}

// moment is a time that must be there, and not before there were any.
func (c *taskCheck) moment(path string, t time.Time) {
	c.that(t.Year() >= 1970 && t.Year() <= 9999, path, "it is a time in UTC, as in 2026-11-15T02:30:00Z")
}

func (c *taskCheck) lists(t Task) {
	for i, in := range t.Inputs {
		c.that((in.Path == "") != (in.Text == ""), fmt.Sprintf("inputs[%d]", i), "it has a path or a text, one of the two")
	}
	for i, out := range t.Outputs {
		path := fmt.Sprintf("outputs[%d]", i)
		c.that(slices.Contains([]string{"file", "data", "verdict"}, out.Kind), path+".kind", "it is file, data or verdict")
		c.that(out.Kind != "file" || out.Path != "", path, "a file has a path")
		c.that(out.SHA256 == "" || digestForm.MatchString(out.SHA256), path+".sha256", "it is sha256: and 64 hexadecimal digits")
		c.between(path+".iteration", int64(out.Iteration), 1, maxExact)
		c.moment(path+".at", out.At)
	}
	for i, said := range t.Feedback {
		path := fmt.Sprintf("feedback[%d]", i)
		c.that(said.Verdict == VerdictApproved || said.Verdict == VerdictRejected, path+".verdict", "it is approved or rejected")
		c.that(said.Verdict != VerdictRejected || said.Text != "", path+".text", "a rejection says why")
		c.that(said.By != "", path+".by", "it says who")
		c.between(path+".iteration", int64(said.Iteration), 1, maxExact)
		c.moment(path+".at", said.At)
	}
	if p := t.Pause; p != nil {
		known := append([]string{"question", "approval", "in_doubt"}, taskOutcomes...)
		c.that(slices.Contains(known, p.Reason), "pause.reason", "it is question, approval, in_doubt or an outcome")
		c.runes("pause.question", p.Question, 0, MaxTaskQuestion)
		c.that(len(p.Options) <= MaxTaskOptions, "pause.options", fmt.Sprintf("there are at most %d", MaxTaskOptions))
		for i, option := range p.Options {
			c.that(option != "", fmt.Sprintf("pause.options[%d]", i), "it is not empty")
		}
	}
}

func (c *taskCheck) times(t Task) {
	c.moment("created_at", t.CreatedAt)
	c.moment("updated_at", t.UpdatedAt)
	if !t.StartedAt.IsZero() {
		c.moment("started_at", t.StartedAt)
	}
	if !t.CompletedAt.IsZero() {
		c.moment("completed_at", t.CompletedAt)
	}
}

// status is which fields go with a status.
func (c *taskCheck) status(t Task) {
	has := []struct {
		path  string
		there bool
	}{{"session_id", t.SessionID != ""}, {"run_id", t.RunID != ""}, {"started_at", !t.StartedAt.IsZero()},
		{"completed_at", !t.CompletedAt.IsZero()}, {"pause", t.Pause != nil}}
	const never, may, must = -1, 0, 1
	rules := map[TaskStatus][]int{
		TaskPending:     {never, never, never, never, never},
		TaskInProgress:  {may, must, must, never, never},
		TaskPaused:      {may, must, must, never, must},
		TaskNeedsReview: {may, must, must, never, never},
		TaskCompleted:   {never, may, may, must, never},
		TaskAbandoned:   {never, may, may, must, never},
	}[t.Status]
	for i, rule := range rules {
		c.that(rule != must || has[i].there, has[i].path, "a task that is "+string(t.Status)+" has it")
		c.that(rule != never || !has[i].there, has[i].path, "a task that is "+string(t.Status)+" has none")
	}
}

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
)

// Limits of what a worker says through its channel.
const (
	mostLogs    = 1000    // of an invocation
	mostLogText = 8 << 10 // bytes
	mostWords   = 4000    // runes of a question, a reason or a note
	mostOptions = 10      // of a question
	mostOption  = 200     // runes of one
	mostPathLen = 4096    // bytes of a path
	mostValue   = 1 << 20 // bytes of a value that is handed over
)

// ApproveTool is the tool that CLIs ask leave with. It is not for the model.
const ApproveTool = "approve"

// channelTool is a tool of the channel.
type channelTool struct {
	name, description string
	input             string // JSON Schema
	do                func(*mcpChannel, context.Context, json.RawMessage) (string, error)
}

var channelTools = []channelTool{
	{"task_status", "Tells your task: description, inputs, feedback, the last answer to a question, outputs so far, what is left of the limits.",
		`{"type":"object","additionalProperties":false}`, (*mcpChannel).taskStatus},
	{"task_set_status", "Reports that the task is ready for review (needs_review) or that you cannot go on (paused). End your turn after it.",
		`{"type":"object","additionalProperties":false,"required":["status","reason"],"properties":{` +
			`"status":{"type":"string","enum":["needs_review","paused"]},` +
			`"reason":{"type":"string","minLength":1,"maxLength":4000,"description":"What was done, or what stands in the way"}}}`, (*mcpChannel).taskSetStatus},
	{"task_log", "Writes an entry into the log of the task.",
		`{"type":"object","additionalProperties":false,"required":["text"],"properties":{` +
			`"text":{"type":"string","minLength":1,"maxLength":8192},` +
			`"level":{"type":"string","enum":["info","warning","error"]}}}`, (*mcpChannel).taskLog},
	{"task_ask", "Asks a person a question and pauses the task. End your turn after it; you will go on with the answer.",
		`{"type":"object","additionalProperties":false,"required":["question"],"properties":{` +
			`"question":{"type":"string","minLength":1,"maxLength":4000},` +
			`"options":{"type":"array","maxItems":10,"items":{"type":"string","minLength":1,"maxLength":200}}}}`, (*mcpChannel).taskAsk},
	{"task_output", "Hands over a result: a file of your directory (kind file, with path), data (kind data, with value) or, of a review, a verdict (kind verdict, with value).",
		`{"type":"object","additionalProperties":false,"required":["kind"],"properties":{` +
			`"kind":{"type":"string","enum":["file","data","verdict"]},` +
			`"path":{"type":"string","description":"Of a file: relative to your directory"},` +
			`"value":{"description":"Of data: what was asked for. Of a verdict: {verdict: approved or rejected, summary, findings: [], incomplete: []}"},` +
			`"note":{"type":"string","maxLength":4000}}}`, (*mcpChannel).taskOutput},
	{ApproveTool, "For the program that you run in. Do not call it.",
		`{"type":"object","required":["tool_name","input"],"properties":{"tool_name":{"type":"string"},"input":{"type":"object"},"tool_use_id":{"type":"string"}}}`,
		(*mcpChannel).approve},
}

// taskTools are the tools of the channel that a model may call.
func taskTools() []string {
	return []string{"task_status", "task_set_status", "task_log", "task_ask", "task_output"}
}

// call carries out one call of a tool. What it returns is the answer, an error the refusal.
func (c *mcpChannel) call(ctx context.Context, t channelTool, args json.RawMessage) (string, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if t.name != ApproveTool { // what is asked for must stay as it is; only what is kept of it is cleaned
		args = c.clean(args)
	}
	// A name that stands twice means one thing to us and may mean another to whoever shows it.
	if _, err := canon.Form(args); err != nil {
		return "", fmt.Errorf("the arguments of %s: %w", t.name, err)
	}
	c.calls.Lock()
	defer c.calls.Unlock()
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return "", fmt.Errorf("the invocation has ended")
	}
	return t.do(c, ctx, args)
}

// arguments decodes those of a tool, without members that it does not know.
func arguments(args json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the arguments do not fit: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// words checks a text that must be there.
func words(name, text string) error {
	switch n := utf8.RuneCountInString(text); {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s is empty", name)
	case n > mostWords:
		return fmt.Errorf("%s has %d characters: %d are the most", name, n, mostWords)
	}
	return nil
}

func (c *mcpChannel) taskStatus(ctx context.Context, args json.RawMessage) (string, error) {
	if err := arguments(args, &struct{}{}); err != nil {
		return "", err
	}
	status, err := c.to.Status(ctx)
	return string(status), err
}

// workerMoves are the moves of a task that its worker may make, from in_progress.
var workerMoves = []tipstaff.TaskStatus{tipstaff.TaskNeedsReview, tipstaff.TaskPaused}

func (c *mcpChannel) taskSetStatus(ctx context.Context, args json.RawMessage) (string, error) {
	var a struct {
		Status tipstaff.TaskStatus `json:"status"`
		Reason string              `json:"reason"`
	}
	if err := arguments(args, &a); err != nil {
		return "", err
	}
	if err := c.mayMove(); err != nil {
		return "", err
	}
	if !slices.Contains(workerMoves, a.Status) {
		return "", fmt.Errorf("status %s is not one that a worker can set: use needs_review or paused", tipstaff.Quote(string(a.Status), 40))
	}
	if err := words("reason", a.Reason); err != nil {
		return "", err
	}
	if err := c.to.SetStatus(ctx, a.Status, a.Reason); err != nil {
		return "", err
	}
	c.tell(func(r *Report) { r.Status, r.Reason = a.Status, a.Reason })
	return fmt.Sprintf("The task is %s. End your turn now.", a.Status), nil
}

// mayMove: a worker reports or asks once, from in_progress.
func (c *mcpChannel) mayMove() error {
	if s := c.report().Status; s != "" {
		return fmt.Errorf("the task is %s by your own report, and you can move it no further: end your turn now", s)
	}
	return nil
}

// tell changes the report by something that is durable already and ends the turn.
func (c *mcpChannel) tell(change func(*Report)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.told)
	c.speak()
}

func (c *mcpChannel) taskLog(ctx context.Context, args json.RawMessage) (string, error) {
	var a struct{ Text, Level string }
	if err := arguments(args, &a); err != nil {
		return "", err
	}
	if a.Level == "" {
		a.Level = "info"
	}
	c.mu.Lock()
	logged := c.logged
	c.mu.Unlock()
	switch {
	case !slices.Contains([]string{"info", "warning", "error"}, a.Level):
		return "", fmt.Errorf("level %s is not one of info, warning, error", tipstaff.Quote(a.Level, 40))
	case strings.TrimSpace(a.Text) == "":
		return "", fmt.Errorf("text is empty")
	case len(a.Text) > mostLogText:
		return "", fmt.Errorf("text has %d bytes: %d are the most", len(a.Text), mostLogText)
	case logged >= mostLogs:
		return "", fmt.Errorf("%d entries were written: no more are taken from this invocation", mostLogs)
	}
	if err := c.to.Log(ctx, a.Level, a.Text); err != nil {
		return "", err
	}
	c.mu.Lock()
	c.logged++
	c.mu.Unlock()
	return "logged", nil
}

func (c *mcpChannel) taskAsk(ctx context.Context, args json.RawMessage) (string, error) {
	var a struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	if err := arguments(args, &a); err != nil {
		return "", err
	}
	if err := c.mayMove(); err != nil {
		return "", err
	}
	if err := words("question", a.Question); err != nil {
		return "", err
	}
	if len(a.Options) > mostOptions {
		return "", fmt.Errorf("there are %d options: %d are the most", len(a.Options), mostOptions)
	}
	for i, o := range a.Options {
		if strings.TrimSpace(o) == "" || utf8.RuneCountInString(o) > mostOption {
			return "", fmt.Errorf("options[%d] must have 1 to %d characters", i, mostOption)
		}
		if slices.Contains(a.Options[:i], o) {
			return "", fmt.Errorf("options[%d] stands twice", i)
		}
	}
	if err := c.to.Ask(ctx, a.Question, a.Options); err != nil {
		return "", err
	}
	c.tell(func(r *Report) { r.Status, r.Question, r.Options = tipstaff.TaskPaused, a.Question, a.Options })
	return "The question is stored. End your turn now: you will be resumed with the answer.", nil
}

func (c *mcpChannel) taskOutput(ctx context.Context, args json.RawMessage) (string, error) {
	var h Handed
	if err := arguments(args, &h); err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(h.Note); n > mostWords {
		return "", fmt.Errorf("note has %d characters: %d are the most", n, mostWords)
	}
	var verdict *Verdict
	var err error
	switch h.Kind {
	case "file":
		err = checkFile(h)
	case "data":
		err = checkValue(h)
	case "verdict":
		if err = checkValue(h); err == nil {
			verdict, err = parseVerdict(h.Value)
		}
	default:
		err = fmt.Errorf("kind %s is not one of file, data, verdict", tipstaff.Quote(h.Kind, 40))
	}
	if err != nil {
		return "", err
	}
	stored, err := c.to.Output(ctx, h)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told.Outputs = append(c.told.Outputs, stored)
	switch h.Kind {
	case "data":
		c.told.Data = h.Value
	case "verdict":
		c.told.Verdict = verdict
	}
	return "stored", nil
}

func checkFile(h Handed) error {
	switch {
	case h.Path == "" || len(h.Path) > mostPathLen:
		return fmt.Errorf("a file is named by its path, relative to your directory")
	case h.Value != nil:
		return fmt.Errorf("a file has a path and no value")
	}
	return nil
}

func checkValue(h Handed) error {
	switch {
	case h.Path != "":
		return fmt.Errorf("%s has a value and no path", h.Kind)
	case h.Value == nil:
		return fmt.Errorf("%s needs a value", h.Kind)
	case len(h.Value) > mostValue:
		return fmt.Errorf("the value has %d bytes: %d are the most", len(h.Value), mostValue)
	}
	return nil
}

func parseVerdict(raw json.RawMessage) (*Verdict, error) {
	var v Verdict
	if err := arguments(raw, &v); err != nil {
		return nil, fmt.Errorf("the value of a verdict is {verdict, summary, findings, incomplete}: %w", err)
	}
	if v.Verdict != tipstaff.VerdictApproved && v.Verdict != tipstaff.VerdictRejected {
		return nil, fmt.Errorf("verdict %s is neither approved nor rejected", tipstaff.Quote(v.Verdict, 40))
	}
	for name, list := range map[string]*json.RawMessage{"findings": &v.Findings, "incomplete": &v.Incomplete} {
		var items []json.RawMessage
		if *list == nil || string(*list) == "null" {
			*list = json.RawMessage("[]")
		} else if json.Unmarshal(*list, &items) != nil {
			return nil, fmt.Errorf("%s is not a list", name)
		}
	}
	return &v, nil
}

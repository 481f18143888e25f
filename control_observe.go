package tipstaff

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// What a status can be asked to tell in full.
const (
	IncludeProgram = "program"
	IncludeInputs  = "inputs"
	IncludeGates   = "gates"
	IncludeErrors  = "errors"
	IncludeAll     = "all"
)

// How much is shown of a text that nobody has asked for in full.
const (
	mostInput  = 280     // characters of an input, and of an error's message
	mostString = 4 << 10 // bytes of a text in a record
)

// Status is where a run stands, and what can be done with it next.
func (c Control) Status(ctx context.Context, req StatusRequest) (RunStatus, error) {
	for _, what := range req.Include {
		if !slices.Contains([]string{IncludeProgram, IncludeInputs, IncludeGates, IncludeErrors, IncludeAll}, what) {
			return RunStatus{}, Errorf(InvalidArgument, "%s cannot be included: choose from program, inputs, gates, errors and all", Quote(what, 100))
		}
	}
	includes := func(what string) bool {
		return slices.Contains(req.Include, what) || slices.Contains(req.Include, IncludeAll)
	}
	run, err := c.Runs.Get(ctx, req.Run)
	if err != nil {
		return RunStatus{}, err
	}
	got := RunStatus{Run: run}
	if d := run.Delivery; d != nil && !d.Followup.IsZero() { // which is no child that a run waits for
		line := Lineage{}
		if run.Lineage != nil {
			line = *run.Lineage
		}
		line.Children = append(slices.Clone(line.Children), d.Followup)
		got.Lineage = &line
	}
	if got.Next, err = c.next(ctx, run); err != nil {
		return got, err
	}
	if includes(IncludeProgram) && run.Program.Digest != "" {
		text, err := c.Runs.Artifact(ctx, run.ID, run.Program.Digest)
		if err != nil {
			return got, err
		}
		if got.Document = text; !json.Valid(text) {
			got.Document = quote(string(text))
		}
	}
	if !includes(IncludeInputs) {
		got.Inputs = cutInputs(run.Inputs)
	}
	if includes(IncludeGates) {
		for i, g := range got.OpenGates {
			shown := WholeSubject(g)
			got.OpenGates[i].Shown = &shown
		}
	}
	if !includes(IncludeErrors) {
		if got.Error = copied(run.Error); got.Error != nil {
			got.Error.Message = cutText(got.Error.Message, mostInput)
		}
		return got, nil
	}
	errors, err := Evidence(ctx, c.Runs, EvidenceRequest{Run: run.ID, Slice: SliceErrors}, c.Now(), c.Present)
	if err == nil {
		got.Errors = errors.Errors
	}
	return got, err
}

// cutInputs shows the beginnings of long inputs, as texts.
func cutInputs(inputs map[string]json.RawMessage) map[string]json.RawMessage {
	if len(inputs) == 0 {
		return nil
	}
	shown := make(map[string]json.RawMessage, len(inputs))
	for name, raw := range inputs {
		text := string(raw)
		_ = json.Unmarshal(raw, &text) // other values are shown as they are written
		if shown[name] = raw; utf8.RuneCountInString(text) > mostInput {
			shown[name] = quote(cutText(text, mostInput))
		}
	}
	return shown
}

// cutText is the beginning of a text of more than so many characters.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for i := range text {
		if most--; most < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// Tail is a page of the records of a run.
func (c Control) Tail(ctx context.Context, req TailRequest) (Tail, error) {
	got := Tail{Events: []TailEvent{}}
	limit, err := limitOf(req.Limit, 25, 1000)
	switch {
	case err != nil:
		return got, err
	case req.After < 0:
		return got, Errorf(InvalidArgument, "after_seq is %d: records are counted from 1", req.After)
	case req.Detail != "" && req.Detail != "summary" && req.Detail != "full":
		return got, Errorf(InvalidArgument, "detail is %s: it is summary or full", Quote(req.Detail, 100))
	}
	for _, kind := range req.Kinds {
		if !KnownKind(Kind(kind)) {
			return got, Errorf(InvalidArgument, "there is no kind %s of records", Quote(kind, 100))
		}
	}
	run, err := c.Runs.Get(ctx, req.Run)
	if err != nil {
		return got, err
	}
	got.Last, got.Head = req.After, run.HeadSeq
	for e, err := range c.Runs.Events(ctx, EventsRequest{Run: req.Run, After: req.After}) {
		if err != nil {
			return got, err
		}
		got.Last, got.Head = e.Seq, max(got.Head, e.Seq)
		if len(req.Kinds) > 0 && !slices.Contains(req.Kinds, string(e.Kind)) {
			continue
		}
		body := e.Body
		if req.Detail != "full" {
			body = cutStrings(body, mostString)
		}
		got.Events = append(got.Events, TailEvent{Seq: e.Seq, At: e.At, Kind: e.Kind, Path: e.Path, Body: body})
		if len(got.Events) == limit {
			break
		}
	}
	got.EOF = got.Last == got.Head
	return got, nil
}

// limitOf is how much is asked for. What is out of range is an error: whoever asked would
// take less for all.
func limitOf(limit, otherwise, most int) (int, error) {
	switch {
	case limit == 0:
		return otherwise, nil
	case limit < 0 || limit > most:
		return 0, Errorf(InvalidArgument, "limit is %d: it is from 1 to %d", limit, most)
	}
	return limit, nil
}

// cutStrings is a value with the beginnings of its texts of more than so many bytes, each
// with how much was left out.
func cutStrings(raw json.RawMessage, most int) json.RawMessage {
	if len(raw) <= most {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	short, err := json.Marshal(cutAny(v, most))
	if err != nil {
		return raw
	}
	return short
}

func cutAny(v any, most int) any {
	switch v := v.(type) {
	case string:
		if len(v) > most {
			kept := head(v, most)
			return fmt.Sprintf("%s… (%d bytes left out)", kept, len(v)-len(kept))
		}
	case []any:
		for i := range v {
			v[i] = cutAny(v[i], most)
		}
	case map[string]any:
		for name := range v {
			v[name] = cutAny(v[name], most)
		}
	}
	return v
}

// History is a page of runs, newest first.
func (c Control) History(ctx context.Context, req HistoryRequest) (RunHistory, error) {
	got := RunHistory{Runs: []HistoryRun{}}
	limit, err := limitOf(req.Limit, 10, 200)
	if err != nil {
		return got, err
	}
	page, err := c.Runs.List(ctx, ListRequest{Limit: limit, Before: req.Before, Project: req.Project, Status: req.Status, Thread: req.Thread,
		Session: req.Session, Count: true})
	if err != nil {
		return got, err
	}
	got.Total, got.Next, got.Truncated = page.Total, page.Next, !page.Next.IsZero()
	for _, r := range page.Runs {
		got.Runs = append(got.Runs, HistoryOf(r))
	}
	return got, nil
}

// HistoryOf is a run as lists show it.
func HistoryOf(r Run) HistoryRun {
	h := HistoryRun{Run: r.ID, Title: r.Title, Status: r.Status, Control: r.Control, Created: r.CreatedAt, Ended: r.EndedAt,
		Tokens: r.Bounds[BoundTokens].Used, CostUSD: USD(r.Bounds[BoundCostUSD].Used)}
	if r.Lineage != nil {
		h.Parent = r.Lineage.Parent
	}
	if r.Pipeline != nil {
		h.Thread = r.Pipeline.Thread
	}
	if r.Turn != nil {
		h.Session = r.Turn.Session
	}
	return h
}

// Pending is a page of what waits for a decision.
func (c Control) Pending(ctx context.Context, req PendingRequest) (PendingDecisions, error) {
	got := PendingDecisions{Decisions: []PendingDecision{}}
	page, err := c.Runs.Inbox(ctx, InboxRequest{Limit: req.Limit, Kinds: req.Kinds, After: req.After})
	if err != nil {
		return got, err
	}
	got.Total, got.Next, got.Truncated, got.ByKind = page.Total, page.Next, !page.Next.IsZero(), page.ByKind
	caller := CallerFrom(ctx)
	for _, g := range page.Gates {
		p := PendingDecision{InboxGate: g}
		if g.Control == InspectAlone {
			got.InspectOnly++
		}
		p.Next = []NextCall{caller.gateCall(AskedGate{g.Run, g.Gate}, g.Control)}
		c.direct(ctx, p.Next)
		got.Decisions = append(got.Decisions, p)
	}
	return got, nil
}

// next is what can be done with a run.
func (c Control) next(ctx context.Context, run Run) ([]NextCall, error) {
	got, err := DiagnoseRun(ctx, c.Runs, run, c.Now(), c.Present)
	c.direct(ctx, got.Next)
	return got.Next, err
}

// direct completes what is left to a person: their command names the workspace, if they sit
// at this machine, and the page where there is one.
func (c Control) direct(ctx context.Context, next []NextCall) {
	for i := range next {
		n := &next[i]
		if n.Kind != PersonCall {
			continue
		}
		if c.Workspace != "" && CallerFrom(ctx).Surface == SurfaceStdio {
			n.Command += " --workspace " + ShellWord(c.Workspace)
		}
		if c.Page != nil {
			if page := c.Page(); page != "" {
				n.URL = page + "/ui/runs/" + n.run.String() + "/gates/" + n.Gate.String()
			}
		}
	}
}

package tipstaff

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Comparison is two runs side by side, aligned by path; the visit of a stage is a part of it.
type Comparison struct {
	A ComparedRun `json:"a"`
	B ComparedRun `json:"b"`
	// Shared is how many records both begin with, because one is a fork of the other or both
	// of a third. No row is made of them.
	Shared int64 `json:"shared"`
	// First is the first row that differs, in the order of the rows; nil: none does.
	First *int         `json:"first,omitempty"`
	Rows  []CompareRow `json:"rows"`
	// Values are what was given to the runs and differs: program, inputs, bounds.
	Values []CompareValue `json:"values"`
}

// ComparedRun is one of the two.
type ComparedRun struct {
	Run    ID     `json:"run_id"`
	Seq    int64  `json:"seq"` // up to which it is compared
	Title  string `json:"title,omitempty"`
	Status string `json:"status"`
}

// CompareRow is one place in the programs.
type CompareRow struct {
	Path string       `json:"path"`
	Kind string       `json:"kind"`        // call, step, stage, gate
	A    *CompareCell `json:"a,omitempty"` // nil: only the other has it
	B    *CompareCell `json:"b,omitempty"`
	// Differs is what does: only_a, only_b, kind, state, attempts, result. How long something
	// took and what it cost make no difference.
	Differs []string `json:"differs,omitempty"`
}

// CompareCell is what happened at a place in one of the runs.
type CompareCell struct {
	State    string        `json:"state"` // running, ok, or why not; of a gate what was decided
	Attempts int64         `json:"attempts,omitempty"`
	Took     time.Duration `json:"took_ns,omitempty"`
	Cost     USD           `json:"cost_usd,omitempty"`
	Result   string        `json:"result,omitempty"` // digest; "": there is none
	Seq      int64         `json:"seq"`              // the record that says so
	Run      ID            `json:"run_id"`           // whose record that is: the run's own, or one that it comes from
	Kind     string        `json:"-"`
}

// CompareValue is something that was given to the runs; nil: it was not.
type CompareValue struct {
	Name string          `json:"name"` // program, input/NAME, bound/NAME
	A    json.RawMessage `json:"a,omitempty"`
	B    json.RawMessage `json:"b,omitempty"`
}

// Kinds of rows.
const (
	RowCall  = "call"
	RowStep  = "step"
	RowStage = "stage"
	RowGate  = "gate"
)

// CompareSide is what happened in one run, by path. It is a pure fold: it can stop at any
// record and go on later.
type CompareSide struct {
	cells map[string]*CompareCell
	order []string // paths, as they began
}

// Apply takes in one record.
func (s *CompareSide) Apply(e *Event) {
	switch e.Kind {
	case KindEffectIntended, KindEffectFailed:
		if b := BodyOf[Effect](e); s.shows(e.Path, b.Name) {
			c := s.at(e, RowCall)
			c.State, c.Attempts = NodeRunning.String(), max(c.Attempts, int64(b.Attempt))
			c.Cost += USD(b.Use[BoundCostUSD])
		}
	case KindEffectFinished:
		if b := BodyOf[Effect](e); s.shows(e.Path, b.Name) {
			c := s.at(e, RowCall)
			c.State, c.Attempts, c.Took, c.Result = "ok", int64(b.Attempt), b.Took(), digestOf(b.Value)
			if c.Cost += USD(b.Use[BoundCostUSD]); b.Error != nil {
				c.State, c.Result = b.Error.Code, ""
			}
		}
	case KindPlanStep:
		s.step(e)
	case KindStageStarted:
		c := s.at(e, RowStage)
		c.State, c.Attempts = NodeRunning.String(), BodyOf[StageStarted](e).Attempt
	case KindStageFinished:
		b := BodyOf[StageFinished](e)
		c := s.at(e, RowStage)
		c.State, c.Attempts, c.Took, c.Cost, c.Result = b.Outcome, b.Attempts, b.Took(), b.Usage.CostUSD, digestOf(b.Output)
		if b.Outcome == "success" {
			c.State = "ok"
		} else if b.Code != "" {
			c.State = b.Code
		}
	case KindStageSkipped:
		s.at(e, RowStage).State = NodeSkipped.String()
	case KindPolicyGate, KindIntentClarify:
		s.at(e, RowGate).State = NodeWaiting.String()
	case KindPolicyGateResolve, KindIntentAnswer:
		c := s.at(e, RowGate)
		b := BodyOf[GateResolved](e)
		if c.State = b.Action; c.State == "" {
			c.State = b.Via
		}
		c.Result = digestOf(b.Answer)
	}
}

// step is the walker's word for a node: it outranks the call's, whose result it keeps.
func (s *CompareSide) step(e *Event) {
	b := BodyOf[PlanStep](e)
	c := s.at(e, RowStep)
	switch {
	case b.Status == StepStarted:
		c.State = NodeRunning.String()
		return
	case b.Status == StepCompleted || b.Status == StepCarried:
		c.State = "ok"
	default:
		c.State = b.Status
	}
	if b.Error != nil && b.Error.Code != "" {
		c.State = b.Error.Code
	}
	if b.LatencyMs > 0 {
		c.Took = time.Duration(b.LatencyMs) * time.Millisecond
	}
}

// shows leaves out the engine's own calls, and those that prepare others.
func (s *CompareSide) shows(path, name string) bool {
	return lastSegment(path) != "begin" && !slices.Contains(agentActivities, name)
}

// at is the cell of a record's path. A node is what its walker says it is.
func (s *CompareSide) at(e *Event, kind string) *CompareCell {
	c := s.cells[e.Path]
	if c == nil {
		c = &CompareCell{Kind: kind}
		put(&s.cells, e.Path, c)
		s.order = append(s.order, e.Path)
	}
	if c.Seq, c.Run = e.Seq, e.Run; kind != RowCall {
		c.Kind = kind
	}
	return c
}

// digestOf is the digest of a value without regard to spaces; "": there is none.
func digestOf(value json.RawMessage) string {
	if len(value) == 0 || string(value) == "null" {
		return ""
	}
	var plain bytes.Buffer
	if json.Compact(&plain, value) != nil {
		return ""
	}
	sum := sha256.Sum256(plain.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// CompareRows aligns two sides: the rows of a in their order, and those that only b has where
// b has them.
func CompareRows(a, b *CompareSide) []CompareRow {
	rows := make([]CompareRow, 0, max(len(a.order), len(b.order)))
	add := func(path string) {
		r := CompareRow{Path: path, A: a.cells[path], B: b.cells[path]}
		r.judge()
		rows = append(rows, r)
	}
	place := make(map[string]int, len(a.order))
	for i, path := range a.order {
		place[path] = i
	}
	next := 0
	for _, path := range b.order {
		at, both := place[path]
		if !both {
			add(path)
		}
		for ; both && next <= at; next++ {
			add(a.order[next])
		}
	}
	for _, path := range a.order[next:] {
		add(path)
	}
	return rows
}

// judge says what differs.
func (r *CompareRow) judge() {
	switch {
	case r.A == nil:
		r.Kind, r.Differs = r.B.Kind, []string{"only_b"}
		return
	case r.B == nil:
		r.Kind, r.Differs = r.A.Kind, []string{"only_a"}
		return
	}
	r.Kind = r.A.Kind
	for name, differs := range map[string]bool{"kind": r.A.Kind != r.B.Kind, "state": r.A.State != r.B.State,
		"attempts": r.A.Attempts != r.B.Attempts, "result": r.A.Result != r.B.Result} {
		if differs {
			r.Differs = append(r.Differs, name)
		}
	}
	slices.Sort(r.Differs)
}

// CompareRequest names two runs, each as of a record of it; 0: its head.
type CompareRequest struct {
	A, B     ID
	AtA, AtB int64
}

// CompareRuns compares two runs.
func CompareRuns(ctx context.Context, svc Reader, req CompareRequest) (Comparison, error) {
	got := Comparison{}
	a, lineA, err := comparedRun(ctx, svc, req.A, req.AtA)
	if err != nil {
		return got, err
	}
	b, lineB, err := comparedRun(ctx, svc, req.B, req.AtB)
	if err != nil {
		return got, err
	}
	// What both inherit of the same run is the same.
	skip := map[ID]int64{}
	for i := range min(len(lineA), len(lineB)) {
		if lineA[i].run.ID != lineB[i].run.ID {
			break
		}
		n := min(lineA[i].upTo, lineB[i].upTo)
		skip[lineA[i].run.ID] = n
		if got.Shared += n; lineA[i].upTo != lineB[i].upTo {
			break
		}
	}
	sideA, errA := compareSide(ctx, svc, lineA, skip)
	sideB, errB := compareSide(ctx, svc, lineB, skip)
	for _, err := range []error{errA, errB} {
		if err != nil {
			return got, err
		}
	}
	got.A = ComparedRun{Run: a.ID, Seq: lineA[len(lineA)-1].upTo, Title: a.Title, Status: a.Status}
	got.B = ComparedRun{Run: b.ID, Seq: lineB[len(lineB)-1].upTo, Title: b.Title, Status: b.Status}
	got.Rows, got.Values = CompareRows(sideA, sideB), compareValues(a, b)
	if i := slices.IndexFunc(got.Rows, func(r CompareRow) bool { return len(r.Differs) > 0 }); i >= 0 {
		got.First = &i
	}
	return got, nil
}

// comparedRun is a run and those whose records it begins with, the first first, each with how
// much of it.
func comparedRun(ctx context.Context, svc Reader, id ID, at int64) (Run, []inheritance, error) {
	run, err := svc.Get(ctx, id)
	if err != nil {
		return run, nil, err
	}
	if at < 0 || at > run.HeadSeq {
		return run, nil, Errorf(CursorBeyondHead, "run %s has %d records, and none is number %d", id, run.HeadSeq, at)
	}
	upTo := run.HeadSeq
	if at > 0 {
		upTo = at
	}
	line := []inheritance{{run: run, upTo: upTo}}
	for of := run; of.Lineage != nil && of.Lineage.Seq > 0; {
		seq := of.Lineage.Seq
		if of, err = svc.Get(ctx, of.Lineage.Parent); err != nil {
			return run, nil, err
		}
		line = append(line, inheritance{run: of, upTo: min(seq, of.HeadSeq)})
	}
	slices.Reverse(line)
	return run, line, nil
}

func compareSide(ctx context.Context, svc Reader, line []inheritance, skip map[ID]int64) (*CompareSide, error) {
	s := new(CompareSide)
	for _, p := range line {
		from := skip[p.run.ID]
		if from >= p.upTo {
			continue
		}
		for e, err := range svc.Events(ctx, EventsRequest{Run: p.run.ID, After: from, Limit: int(min(p.upTo-from, math.MaxInt32))}) {
			if err != nil {
				return nil, err
			}
			s.Apply(&e)
		}
	}
	return s, nil
}

// compareValues are what was given to the runs and differs.
func compareValues(a, b Run) []CompareValue {
	values := []CompareValue{}
	add := func(name string, x, y json.RawMessage) {
		if digestOf(x) != digestOf(y) {
			values = append(values, CompareValue{name, x, y})
		}
	}
	text := func(p Program) json.RawMessage { t, _ := json.Marshal(p); return t }
	add("program", text(a.Program), text(b.Program))
	for _, name := range namesOf(a.Inputs, b.Inputs) {
		if name == "received_at" && a.Pipeline != nil && b.Pipeline != nil { // which nobody gave
			continue
		}
		add("input/"+name, a.Inputs[name], b.Inputs[name])
	}
	limit := func(s BoundStatus) json.RawMessage {
		if !s.Limited {
			return nil
		}
		t, _ := json.Marshal(s.Limit)
		return t
	}
	for _, name := range namesOf(a.Bounds, b.Bounds) {
		add("bound/"+name, limit(a.Bounds[name]), limit(b.Bounds[name]))
	}
	return values
}

func namesOf[M ~map[string]V, V any](a, b M) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}

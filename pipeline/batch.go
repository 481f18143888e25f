package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// What became of a stage, as records say it.
const (
	statusRunning   = "running"
	statusSuccess   = "success"
	statusError     = "error"
	statusSkipped   = "skipped"
	statusCancelled = "cancelled"
)

// visit is one start of a stage. While a batch runs its branch alone has it.
type visit struct {
	agent      *Agent
	n          int64
	path       string
	entry      entry
	releasedBy []string
	started    time.Time

	attempts int
	delay    time.Duration       // before the next attempt, of one that is to be retried
	usage    tipstaff.StageUsage // of all attempts
	calls    int64               // model calls beyond those that were paid for in advance
	records  int                 // it has caused, about

	// How it ended; a status of "" has not, or was cut off.
	status  string
	ended   time.Time
	result  map[string]any
	encoded json.RawMessage // the result
	control Control
	// What is wrong with the output of a visit that asks: it counts if the stage is not
	// run again but counts as completed. nil: nothing.
	unfinished *StageError
	failure    *StageError
	refused    *flow.Error // a bound inside the stage

	output map[string]any // as it is routed by
	gained []string       // goals that it was the first to satisfy
}

// pathOf is the segment of a visit.
func pathOf(stage string, visit int64) string { return stage + "#" + strconv.FormatInt(visit, 10) }

// segment is that of the visit's next attempt.
func (v *visit) segment() string {
	if v.attempts == 0 {
		return v.path
	}
	return v.path + "." + strconv.Itoa(v.attempts+1)
}

// start begins as many of the stages that may run as the bounds permit. If that is
// none, the run ends, or somebody is asked for more.
func (x *executor) start(ready []*Agent) ([]*visit, error) {
	// What was added is only ever added up; the whole is measured again when that has
	// come to much.
	if x.size == 0 || x.size > MaxEnvelope/2 {
		x.size = x.env.Size()
	}
	var batch []*visit
	for len(batch) == 0 {
		admitted, refused := x.cut(ready)
		if len(admitted) == 0 {
			if err := x.refuse(refused); err != nil {
				return nil, err
			}
			continue
		}
		x.readClock()
		for _, a := range admitted {
			v := &visit{agent: a, n: x.env.Visits[a.Name] + 1, started: x.now, releasedBy: x.releasers(a), entry: x.Entries[a.Name]}
			v.path = pathOf(a.Name, v.n)
			granted, err := x.beginVisit(v, len(batch) > 0)
			if err != nil {
				return nil, err
			}
			if granted {
				batch = append(batch, v)
			}
		}
	}
	x.Turn++
	for _, v := range batch {
		x.recordStart(v)
	}
	x.env.Version++
	x.publish()
	return batch, nil
}

// cut leaves out stages that no bound lets start, and says which bound stopped the
// first of them.
func (x *executor) cut(ready []*Agent) (admitted []*Agent, first *refusal) {
	e := x.env
	hops, calls := e.MaxAgentHops-e.AgentHopCount, e.MaxLLMCalls-e.LLMCallCount
	for _, a := range ready {
		var r *refusal
		switch {
		case x.visitsSpent(a) && !x.Entries[a.Name].Granted:
			r = x.visitRefusal(a)
		case hops <= 0:
			r = x.hopRefusal(a)
		case a.Way == WayModel && calls <= 0:
			r = x.callRefusal(a)
		}
		if r != nil {
			if first == nil {
				first = r
			}
			continue
		}
		hops--
		if a.Way == WayModel {
			calls--
		}
		admitted = append(admitted, a)
	}
	return admitted, first
}

// BeginActivity is the call by which a stage starts. It does nothing: the run's
// ledger counts by it what a start costs.
const BeginActivity = "stage.begin"

type beginInput struct {
	Stage   string `json:"stage"`
	Visit   int64  `json:"visit"`
	Attempt int    `json:"attempt"`
}

// beginVisit has the ledger count the start of a stage. The ledger may know of more
// than the Envelope does (an attempt that a crash has cost), and it alone knows the
// time: what it refuses is left to a later turn if others have started, else the
// run ends, or somebody is asked.
func (x *executor) beginVisit(v *visit, others bool) (granted bool, err error) {
	reserve := flow.Use{tipstaff.BoundAgentHops: 1}
	if v.agent.Way == WayModel {
		reserve[tipstaff.BoundModelCalls] = 1
	}
	if x.Owed > 0 {
		reserve[tipstaff.BoundIterations] = x.Owed
	}
	for {
		x.begins[v.path]++ // a key is used once at a path
		key := "begin" + nth(x.begins[v.path])
		_, err := x.fc.At(v.path).Do(flow.Call{Key: key, Name: BeginActivity, Class: flow.Read, Reserve: reserve,
			Input: flow.JSON(beginInput{v.agent.Name, v.n, 1})})
		x.records += 2
		var refusedBy *flow.Error
		switch {
		case err == nil:
			x.Owed = 0
			return true, nil
		case handsUp(err) || !errors.As(err, &refusedBy):
			return false, err
		case others:
			return false, nil
		}
		r := x.ledgerRefusal(v, refusedBy)
		if r == nil {
			return false, x.end(tipstaff.TerminalInternal, fmt.Sprintf("%s cannot begin: %v", v.agent.Name, err), where{visit: v, code: refusedBy.Code})
		}
		if err := x.refuse(r); err != nil {
			return false, err
		}
	}
}

func (x *executor) recordStart(v *visit) {
	e, s := x.env, &x.stages[v.agent.Index]
	e.Visits[v.agent.Name] = v.n
	e.AgentHopCount++
	if v.agent.Way == WayModel {
		e.LLMCallCount++
	}
	s.frontier, s.active = false, true
	delete(x.Entries, v.agent.Name)
	x.addHistory(ProcessingRecord{Agent: v.agent.Name, Visit: v.n, Attempts: 1, StartedAt: v.started, Status: statusRunning})
	x.emitAt(v.path, tipstaff.KindStageStarted, tipstaff.StageStarted{Stage: v.agent.Name, Visit: v.n, Attempt: 1, Turn: x.Turn, ReleasedBy: v.releasedBy})
}

// errFatal closes the group of a batch, where the rest is to be cancelled.
var errFatal = errors.New("pipeline: a stage failed fatally")

// perform runs a batch. An attempt has its own path, and a branch cannot leave its
// own: so second attempts are made when all first ones have ended, and so on.
func (x *executor) perform(batch []*visit) error {
	open := batch
	for len(open) > 0 {
		err := x.wave(open)
		if err != nil && !errors.Is(err, errFatal) {
			return err
		}
		var again []*visit
		for _, v := range open {
			switch {
			case v.status != "":
			case err == nil:
				again = append(again, v)
			default: // cut off, or never begun
				v.status = statusCancelled
			}
		}
		open = again
	}
	return nil
}

// wave makes the next attempt of each.
func (x *executor) wave(open []*visit) error {
	if len(open) == 1 {
		return x.attempt(x.fc.At(open[0].segment()), open[0])
	}
	branches := make([]flow.Branch, len(open))
	for i, v := range open {
		branches[i] = flow.Branch{Name: v.segment(), Run: func(fc flow.Context) error { return x.attempt(fc, v) }}
	}
	return x.fc.Go(flow.Group{Limit: x.p.MaxParallel, KeepGoing: x.p.OnFailure != Cancel}, branches...)
}

// merge takes what a batch has brought into the Envelope, in index order, whoever
// finished first. It returns what one stage of the batch has overwritten of another.
func (x *executor) merge(batch []*visit) (lost []tipstaff.Overwritten) {
	x.merged = batch[0].agent.Name
	wrote := map[string]*visit{}
	for _, v := range batch {
		x.stages[v.agent.Index].active = false
		x.count(v)
		if v.status == statusSuccess && !x.fits(v.encoded) {
			x.fail(v, tooLarge(v.agent))
		}
		switch v.status {
		case statusSuccess:
			lost = append(lost, x.take(v, wrote)...)
		case statusError:
			x.recordFailure(v)
		case statusCancelled:
			x.emitAt(v.path, tipstaff.KindStageFinished, v.finished())
		}
		x.closeHistory(v)
		x.grow(v)
	}
	x.env.Version++
	x.publish()
	return lost
}

// count adds what a visit has used.
func (x *executor) count(v *visit) {
	e, u := x.env, v.usage
	e.LLMCallCount += v.calls
	e.ToolCallCount += u.ToolCalls
	e.AgentHopCount += u.Hops
	e.TokensIn += u.TokensIn
	e.TokensOut += u.TokensOut
	e.CostUSD += u.CostUSD
	x.records += v.records + int(4*u.LLMCalls+3*u.ToolCalls)
	if x.p.OnBound == AskMore { // what somebody has granted inside a stage
		e.MaxLLMCalls = max(e.MaxLLMCalls, e.LLMCallCount)
		e.MaxToolCalls = max(e.MaxToolCalls, e.ToolCallCount)
		e.MaxAgentHops = max(e.MaxAgentHops, e.AgentHopCount)
	}
}

// take merges the result of a stage that succeeded.
func (x *executor) take(v *visit, wrote map[string]*visit) (lost []tipstaff.Overwritten) {
	e := x.env
	if asks := v.control.Interrupt != nil && !x.state.Earlier; !asks || len(v.result) > 0 {
		e.Outputs[v.agent.OutputKey] = v.result
	}
	for _, key := range sortedKeys(v.control.Metadata) {
		if by := wrote[key]; by != nil {
			lost = append(lost, tipstaff.Overwritten{Key: key, Stage: by.agent.Name, Value: EncodeValue(e.Metadata[key])})
		}
		wrote[key] = v
		e.Metadata[key] = v.control.Metadata[key]
	}
	for i := range e.Goals {
		if g := &e.Goals[i]; g.Status == GoalPending && slices.Contains(v.control.SatisfiedGoals, g.Name) {
			g.Status = GoalSatisfied
			v.gained = append(v.gained, g.Name)
		}
	}
	x.stages[v.agent.Index].mark = completed
	return lost
}

// recordFailure keeps a failure in the Envelope.
func (x *executor) recordFailure(v *visit) {
	code, text := v.why()
	x.stages[v.agent.Index].mark = failed
	x.env.FailedStages[v.agent.Name] = code + ": " + text
	x.env.Errors = newest(append(x.env.Errors, ErrorRecord{Stage: v.agent.Name, Visit: v.n, Code: code, Message: text, At: instant(v.ended)}))
}

// kept is how many entries of a list that grows with the run the Envelope holds.
const kept = 50

func newest[T any](list []T) []T { return last(kept, list) }

func last[T any](n int, list []T) []T {
	if over := len(list) - n; over > 0 {
		return slices.Clone(list[over:])
	}
	return list
}

func (x *executor) addHistory(r ProcessingRecord) {
	r.StartedAt = instant(r.StartedAt)
	x.env.ProcessingHistory = newest(append(x.env.ProcessingHistory, r))
	x.env.HistoryTotal++
}

// closeHistory completes the record of a visit, if it is still held.
func (x *executor) closeHistory(v *visit) {
	for i := len(x.env.ProcessingHistory) - 1; i >= 0; i-- {
		r := &x.env.ProcessingHistory[i]
		if r.Agent != v.agent.Name || r.Visit != v.n || r.Status == statusSkipped {
			continue
		}
		r.Attempts, r.Status = int64(v.attempts), v.status
		r.LLMCalls, r.ToolCalls = v.usage.LLMCalls, v.usage.ToolCalls
		r.TokensIn, r.TokensOut, r.CostUSD = v.usage.TokensIn, v.usage.TokensOut, v.usage.CostUSD
		if v.status == statusError {
			code, text := v.why()
			r.Error = code + ": " + text
		}
		if !v.ended.IsZero() {
			at := instant(v.ended)
			r.CompletedAt, r.DurationMs = &at, at.Sub(r.StartedAt).Milliseconds()
		}
		return
	}
}

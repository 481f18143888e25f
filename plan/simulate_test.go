package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/simtest"
)

// Whole plans under every schedule: the walker itself, over calls, steps and child
// runs that the simulator performs.
func TestSimulated(t *testing.T) { simtest.Simulate(t, simtest.Memory, simulated, 2*time.Second) }

// sketch is a plan in the making. Leaves are numbered; what becomes of each is in ends.
type sketch struct {
	pick    *simtest.Choices
	leaves  int
	ends    map[string]simtest.Behaviour
	classes map[string]flow.Class
	settled bool
}

// simulated makes a case of a random plan.
func simulated(pick *simtest.Choices) *simtest.Case {
	s := &sketch{pick: pick, ends: map[string]simtest.Behaviour{}, classes: map[string]flow.Class{}, settled: pick.Of(2) == 1}
	src := flow.JSON(map[string]any{"kind": "plan", "version": 1, "root": s.branch(2), "outputs": map[string]any{}})
	d, problems := Check("p.json", src, workspace{})
	if len(problems) > 0 {
		panic(fmt.Sprintf("%s: %+v", src, problems))
	}
	c := &simtest.Case{Text: string(src), Root: "root", Input: flow.JSON(Carry{}), Acts: []string{"work"}, Settled: s.settled,
		Flow:   s.walk(d, nil),
		Behave: func(path string) simtest.Behaviour { return s.ends[leafID(path)] },
		Answer: func(string, string) json.RawMessage { return nil }}
	if !s.settled {
		c.Cancels = pick.One(3)
		if pick.One(3) {
			c.Leaf, c.Revise = leafID, func(cut flow.History, root string) json.RawMessage { return s.revise(d, cut, root) }
		}
		if pick.One(3) {
			c.Limits = flow.Use{"tool_calls": int64(1 + pick.Of(4))}
		}
	}
	return c
}

// leafID is the id of the leaf that a path belongs to.
func leafID(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// walk is a revision of the plan. Its state is what earlier ones have left it.
func (s *sketch) walk(d *Document, keep Keeper) flow.Func {
	return func(fc flow.Context, state json.RawMessage) (json.RawMessage, error) {
		h := s.handlers()
		if err := json.Unmarshal(state, &h.Carry); err != nil {
			return nil, err
		}
		h.Keep = keep
		return Walk(fc, d, json.RawMessage("{}"), h)
	}
}

// revise is what a revision that was cut leaves to the next: what its records tell.
func (s *sketch) revise(d *Document, cut flow.History, root string) json.RawMessage {
	left := &leaving{Carry{Done: map[string]Done{}, Doubts: map[string]Doubt{}}, sync.Mutex{}}
	if cut.Segment > 0 {
		var b struct{ State Carry }
		if err := json.Unmarshal(cut.Records[0].Body, &b); err != nil {
			panic(err)
		}
		maps.Copy(left.Done, b.State.Done)
		maps.Copy(left.Doubts, b.State.Doubts)
	}
	if out, err := flow.Replay(cut).Drive(context.Background(), flow.Job{Run: "run", Root: root, Flow: s.walk(d, left), Input: flow.JSON(Carry{})}); err != nil || out.Status == flow.Interrupted {
		panic(fmt.Sprint("the revision that was cut does not replay: ", out.Err, err))
	}
	inputs := map[string]json.RawMessage{}
	for _, r := range cut.Records {
		var b struct {
			Name    string
			Class   flow.Class
			Attempt int
			Input   json.RawMessage
		}
		switch id := leafID(r.Path); r.Kind {
		case "effect.finished":
			delete(left.Doubts, id)
		case "effect.intended":
			if err := json.Unmarshal(r.Body, &b); err != nil {
				panic(err)
			}
			if b.Input != nil { // a further attempt has the same
				inputs[id] = b.Input
			}
			for leaf := range d.Root.Leaves {
				if leaf.ID == id && b.Class == flow.Once {
					left.Doubts[id] = Doubt{Path: r.Path, Kind: leaf.Kind, By: leaf.Performer(), Name: b.Name, Attempt: b.Attempt, Input: inputs[id]}
				}
			}
		}
	}
	return flow.JSON(left.Carry)
}

// leaving is what a walk leaves to a later revision.
type leaving struct {
	Carry
	mu sync.Mutex
}

func (l *leaving) Completed(id string, d Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Done[id] = d
}

func (l *leaving) Settled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.Doubts, id)
}

// branch is a sequence or a parallel group.
func (s *sketch) branch(depth int) map[string]any {
	kind := []string{"sequential", "parallel"}[s.pick.Of(2)]
	var children []any
	for range 1 + s.pick.Of(3) {
		if depth > 0 && s.pick.One(3) {
			children = append(children, s.branch(depth-1))
		} else {
			children = append(children, s.leaf())
		}
	}
	node := map[string]any{"kind": kind, "children": children}
	if kind == "parallel" && s.pick.One(3) {
		node["max_parallel"] = 1 + s.pick.Of(2)
	}
	return node
}

func (s *sketch) leaf() map[string]any {
	s.leaves++
	id := fmt.Sprint("n", s.leaves)
	node := map[string]any{"id": id}
	switch s.pick.Of(6) {
	case 4:
		node["kind"], node["question"] = "gate", "Go on?"
		return node
	case 5:
		node["kind"], node["skill"] = "sub_dispatch", "skill://kid@1.0.0"
		s.classes[id], s.ends[id] = flow.Idempotent, simtest.Behaviour{End: simtest.Suspends}
		return node
	case 3:
		node["kind"], node["prompt"] = "step", "Think."
		s.classes[id] = flow.Read
	default:
		s.classes[id] = []flow.Class{flow.Read, flow.Once, flow.Idempotent}[s.pick.Of(3)]
		tool := map[flow.Class]string{flow.Read: "echo", flow.Once: "post", flow.Idempotent: "put"}[s.classes[id]]
		node["kind"], node["tool"] = "tool_call", "mcp://t/"+tool+"@1.0.0"
	}
	end := simtest.Behaviour{End: simtest.Answers, Prompt: s.pick.One(3)}
	if s.classes[id] == flow.Once {
		end.Stops = s.pick.One(3)
		if s.pick.One(4) {
			end.End = simtest.Lost
		}
	} else if s.pick.One(4) {
		end.Fails = 1
		node["retry"] = map[string]any{"max": 1, "backoff": "10ms", "on": []string{"tool_unavailable"}}
	}
	if !s.settled && s.pick.One(4) {
		end.End = simtest.Bad
	}
	if s.pick.One(4) {
		node["on_error"] = "continue"
	}
	s.ends[id] = end
	return node
}

func (s *sketch) handlers() Handlers {
	return Handlers{Perform: func(fc flow.Context, t Task) (flow.Result, error) {
		input := any(t.Args)
		switch {
		case t.Node.Kind == Step:
			input = t.Prompt
		case t.Node.Kind == SubDispatch, s.classes[t.Node.ID] == flow.Once:
			t.Retry = flow.Retry{}
		}
		return fc.Do(flow.Call{Name: "work", Class: s.classes[t.Node.ID], Input: flow.JSON(input), Retry: t.Retry, Reserve: flow.Use{"tool_calls": 1}})
	}}
}

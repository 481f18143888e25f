package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// World is what activities touch. It stands outside of every engine and outlives
// every crash, so it knows what was really done, and how often.
//
// A call does what its path was told to do with [World.On]; otherwise it returns
// its input.
type World struct {
	mu     sync.Mutex
	cond   *sync.Cond
	acts   map[string]Act
	others Act
	calls  []Seen
	values map[string]json.RawMessage
}

// Act is how the world answers the calls of one path.
type Act struct {
	// Before is called when the request has not reached the world yet: if the
	// process dies in it, nothing was done.
	Before func(context.Context, flow.Attempt)
	// Do is called when the effect has happened.
	Do func(context.Context, flow.Attempt) (flow.Done, error)
	// Check, Wants, Stops, Awaited and Prompt are those of flow.Activity.
	Check   func(context.Context, flow.Attempt) error
	Wants   func(flow.Attempt, func(string) (int64, bool)) flow.Use
	Stops   bool
	Awaited bool
	Prompt  bool
}

// Seen is an effect that happened.
type Seen struct {
	Path, Key string
	N         int
	Class     flow.Class
}

// NewWorld is a world in which nothing has happened.
func NewWorld() *World {
	w := &World{acts: map[string]Act{}, values: map[string]json.RawMessage{}}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// On tells how calls at this path are answered.
func (w *World) On(path string, a Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts[path] = a
}

// Else tells how calls at all other paths are answered.
func (w *World) Else(a Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.others = a
}

// Answer tells what calls at this path return.
func (w *World) Answer(path string, do func(context.Context, flow.Attempt) (flow.Done, error)) {
	w.On(path, Act{Do: do})
}

// Count is how often the effect of this path happened.
func (w *World) Count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.among([]string{path})
}

// Calls are the effects that happened, in order.
func (w *World) Calls() []Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Seen(nil), w.calls...)
}

// Value is what the effect of this path brought about, as someone would find it
// who went and looked; nil if it never happened.
func (w *World) Value(path string) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.values[path]
}

// Await blocks until the effects at these paths have happened n times in all. It
// gives up and returns false when that takes too long.
func (w *World) Await(n int, paths ...string) bool {
	late := false
	defer time.AfterFunc(patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		late = true
		w.cond.Broadcast()
	}).Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.among(paths) < n && !late {
		w.cond.Wait()
	}
	return !late
}

func (w *World) among(paths []string) int {
	n := 0
	for _, c := range w.calls {
		if slices.Contains(paths, c.Path) {
			n++
		}
	}
	return n
}

// errDead is the answer to a call that a dead process did not live to make.
var errDead = errors.New("flowtest: called by a dead process")

// Activity is the world as a process sees it until it is dead.
func (w *World) Activity(dead <-chan struct{}) flow.Activity {
	return flow.Activity{
		Check: func(ctx context.Context, a flow.Attempt) error {
			if act := w.act(a.Path); act.Check != nil {
				return act.Check(ctx, a)
			}
			return nil
		},
		Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			return w.run(ctx, a, dead)
		},
		Wants: func(a flow.Attempt, left func(string) (int64, bool)) flow.Use {
			if act := w.act(a.Path); act.Wants != nil {
				return act.Wants(a, left)
			}
			return nil
		},
		Stops:   func(a flow.Attempt) bool { return w.act(a.Path).Stops },
		Awaited: func(a flow.Attempt) bool { return w.act(a.Path).Awaited },
		Prompt:  func(a flow.Attempt) bool { return w.act(a.Path).Prompt },
	}
}

func (w *World) act(path string) Act {
	w.mu.Lock()
	defer w.mu.Unlock()
	if act, ok := w.acts[path]; ok {
		return act
	}
	return w.others
}

func (w *World) run(ctx context.Context, a flow.Attempt, dead <-chan struct{}) (flow.Done, error) {
	act := w.act(a.Path)
	if act.Before != nil {
		act.Before(ctx, a)
	}
	select {
	case <-dead:
		return flow.Done{}, errDead
	default:
	}
	w.happened(a)
	if act.Do == nil {
		return flow.Done{Value: a.Input}, nil
	}
	return act.Do(ctx, a)
}

func (w *World) happened(a flow.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, Seen{a.Path, a.Key, a.N, a.Class})
	w.values[a.Path] = a.Input
	w.cond.Broadcast()
}

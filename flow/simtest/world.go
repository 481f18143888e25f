package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// How a call ends when nothing disturbs it.
const (
	Answers  = iota // with a value
	Bad             // with a definite failure
	Lost            // nobody hears what became of it
	Hangs           // it does not come back before its context ends
	Suspends        // it parks until its child has been answered
	Panics          // the first time; of once that leaves it in doubt
	Refused         // by its check
)

// Behaviour is what the world does with a call.
type Behaviour struct {
	End    int
	Fails  int  // so many attempts fail first and may be tried again
	More   int  // it reserves so many tool_calls while it runs
	Uses   int  // it reports a use of so many, less one, whatever it reserved; 0: it reports nothing
	Stops  bool // of once: it ends itself when told to
	Mute   bool // and does not say whether it had begun
	Waits  bool // closing its group does not tell it to
	Prompt bool
	Notes  bool
}

// world is what activities touch. It outlives processes. All of it is under s.mu.
type world struct {
	s        *sim
	intents  map[string]bool       // attempts that have a durable intent
	started  map[string]bool       // attempts that were handed over
	effects  map[string]int        // by what it is about: how often it happened
	attempts map[string]int        // by path and attempt number: of once no more than one
	failed   map[string]int        // failures that were sent back
	reported map[string][]flow.Use // by attempt: what it said that it has used, in each process that made it
	panicked map[string]bool
	children map[string]bool // suspended calls: whether the child was answered
}

func newWorld(s *sim) *world {
	return &world{s: s, intents: map[string]bool{}, started: map[string]bool{}, effects: map[string]int{}, attempts: map[string]int{},
		failed: map[string]int{}, reported: map[string][]flow.Use{}, panicked: map[string]bool{}, children: map[string]bool{}}
}

func attemptKey(path string, n int) string { return path + " " + strconv.Itoa(n) }

func (w *world) intended(d flow.Draft) {
	b, _ := flow.ReadEffect(d.Body)
	w.intents[attemptKey(flow.IdempotencyKey(w.s.run, d.Path, len(w.s.roots)-1), b.Attempt)] = true
}

// valueOf is the value of a call: it depends on nothing but the call. Its members are in
// order, as a store has them that signs the answers of people.
func (c *Case) valueOf(path string) json.RawMessage {
	if c.Value != nil {
		var v any
		if err := json.Unmarshal(c.Value(path), &v); err != nil {
			panic(err)
		}
		return flow.JSON(v)
	}
	return flow.JSON("did " + path[strings.IndexByte(path, '/')+1:])
}

func (w *world) activity(p *process) flow.Activity {
	behave := func(a flow.Attempt) Behaviour { return w.s.c.Behave(a.Path) }
	return flow.Activity{
		Check: func(ctx context.Context, a flow.Attempt) error {
			if err := p.pauseUntil(ctx, "check "+a.Path); err != nil {
				return nil // it will be found out
			}
			if behave(a).End == Refused {
				return &flow.Error{Code: "refused", Message: "by its check"}
			}
			return nil
		},
		Run: func(ctx context.Context, a flow.Attempt) (done flow.Done, err error) {
			defer w.reports(a, &done)
			return w.run(ctx, p, a, behave(a))
		},
		Stops:   func(a flow.Attempt) bool { return behave(a).Stops },
		Awaited: func(a flow.Attempt) bool { return behave(a).Waits },
		Prompt:  func(a flow.Attempt) bool { return behave(a).Prompt },
	}
}

// about is what an effect is counted by: its leaf, where leaves have names, else its key.
func (c *Case) about(path, key string) string {
	if c.Leaf != nil {
		return c.Leaf(path)
	}
	return key
}

// errBroken is what an activity knows that was broken off: nothing.
var errBroken = errors.New("broken off")

func (w *world) run(ctx context.Context, p *process, a flow.Attempt, b Behaviour) (flow.Done, error) {
	growStack()
	defer w.works(ctx, p)()
	place := a.Key        // which tells calls of different segments apart
	if ctx.Err() == nil { // else it was over before it was handed over
		w.s.mu.Lock()
		w.started[attemptKey(place, a.N)] = true
		w.s.mu.Unlock()
	}
	if p.pauseUntil(ctx, "begin "+a.Path) != nil {
		if b.Stops && !b.Mute && errors.Is(context.Cause(ctx), flow.ErrCancelled) {
			return flow.Done{}, &flow.Error{Code: "stopped", NotSent: true}
		}
		return flow.Done{}, errBroken
	}
	if b.End == Suspends && a.Class != flow.Once {
		return w.suspended(place, a)
	}
	for range b.More {
		bound := w.s.c.counts()
		if w.s.c.Holds {
			a.Spent(flow.Use{bound: 1})
		}
		_ = a.Reserve(flow.Use{bound: 1}) // refused or not, it goes on
	}
	if b.Notes {
		a.Note(flow.Event{Kind: "agent.noted", Body: a.N})
	}
	if !w.happens(p, place, a) {
		return flow.Done{}, errBroken
	}
	if b.End == Hangs {
		<-ctx.Done()
		return flow.Done{}, errBroken
	}
	if p.pauseUntil(ctx, "answer "+a.Path) != nil {
		return flow.Done{}, errBroken
	}
	return w.answer(place, a, b)
}

// happens is the effect itself.
func (w *world) happens(p *process, place string, a flow.Attempt) bool {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.dead {
		return false
	}
	if s.tracing {
		s.trace = append(s.trace, "  happens: "+a.Path)
	}
	w.effects[s.c.about(a.Path, place)]++
	if a.Class == flow.Once {
		key := attemptKey(place, a.N)
		if w.attempts[key]++; w.attempts[key] > 1 {
			s.failLocked("attempt %d of the once call %s was made twice", a.N, a.Path)
		}
		if !w.intents[key] {
			s.failLocked("attempt %d of the once call %s was made without a durable intent", a.N, a.Path)
		}
	}
	return true
}

func (w *world) answer(place string, a flow.Attempt, b Behaviour) (flow.Done, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	var use flow.Use
	if b.Uses > 0 {
		use = flow.Use{w.s.c.counts(): int64(b.Uses - 1)}
	}
	if w.failed[place] < b.Fails {
		w.failed[place]++
		return flow.Done{Use: use}, &flow.Error{Code: "tool_unavailable", Retry: true}
	}
	switch b.End {
	case Bad:
		return flow.Done{Use: use}, &flow.Error{Code: "bad", Answered: true}
	case Lost:
		return flow.Done{}, errors.New("connection lost")
	case Panics:
		if !w.panicked[place] {
			w.panicked[place] = true
			panic("the world ends")
		}
	}
	return flow.Done{Value: w.s.c.valueOf(a.Path), Use: use}, nil
}

// reports keeps what an attempt has said, or not, when it came back.
func (w *world) reports(a flow.Attempt, said *flow.Done) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	key := attemptKey(a.Key, a.N)
	w.reported[key] = append(w.reported[key], said.Use)
}

// works counts an activity as under way in its process, until its context has ended or the
// function that it returns is called.
func (w *world) works(ctx context.Context, p *process) func() {
	count := func(n int) {
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		p.working += n
		p.stirred = time.Now()
	}
	count(1)
	stop := context.AfterFunc(ctx, func() { count(-1) })
	return func() {
		if stop() {
			count(-1)
		}
	}
}

// suspended is a call whose child waits for somebody.
func (w *world) suspended(place string, a flow.Attempt) (flow.Done, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !w.children[place] {
		w.children[place] = false
		return flow.Done{}, flow.ErrParked
	}
	return flow.Done{Value: w.s.c.valueOf(a.Path)}, nil
}

func (w *world) wasStarted(place string) bool {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for n := 1; n <= 20; n++ {
		if w.started[attemptKey(place, n)] {
			return true
		}
	}
	return false
}

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tipstaff/tipstaff/flow"
)

// TestCarry runs stories of corrected plans. Beside the commands of TestWalk there
// is
//
//	revise                  a revised plan; the next drive goes on with it
func TestCarry(t *testing.T) {
	datadriven.Walk(t, "testdata/carry", func(t *testing.T, file string) {
		s := &revisions{story: &story{t: t, log: flow.NewMem()}, number: 1}
		s.world = newWorld(s.log)
		datadriven.RunTest(t, file, s.command)
	})
}

// revisions is a story in several drafts.
type revisions struct {
	*story
	number int
	next   *Document
	carry  Carry
	kept   *keeper
}

// keeper remembers what a walk leaves.
type keeper struct {
	mu      sync.Mutex
	done    map[string]Done
	settled map[string]bool
}

func (k *keeper) Completed(id string, d Done) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done[id] = d
}

func (k *keeper) Settled(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settled[id] = true
}

func (s *revisions) command(t *testing.T, c *datadriven.TestData) string {
	s.t = t
	switch c.Cmd {
	case "revise":
		return s.revise(c)
	case "drive":
		return s.drive(c)
	case "replay":
		return s.replay()
	}
	return s.story.command(t, c)
}

func (s *revisions) revise(c *datadriven.TestData) string {
	d, problems := Check("p.yaml", []byte(c.Input), workspace{})
	if len(problems) > 0 {
		return fmt.Sprintf("%+v\n", problems)
	}
	s.next = d
	return s.say(s.log.Write(storyRun, flow.Draft{Kind: "run.correction_requested", Body: json.RawMessage(`{}`)}))
}

func (s *revisions) drive(c *datadriven.TestData) string {
	s.inputs = json.RawMessage(`{}`)
	out, err := flow.New(s.log, nil).Drive(s.t.Context(), s.revisedJob())
	if err != nil {
		return s.say(err)
	}
	return s.records(c.HasArg("sorted")) + s.outcome(out)
}

// replay walks the last revision over its records alone.
func (s *revisions) replay() string {
	h, err := s.log.Load(s.t.Context(), storyRun)
	if err != nil {
		return s.say(err)
	}
	out, err := flow.Replay(h).Drive(s.t.Context(), s.revisedJob())
	if err != nil {
		return s.say(err)
	}
	return s.outcome(out)
}

func (s *revisions) root() string {
	if s.number == 1 {
		return "root"
	}
	return fmt.Sprintf("root@%d", s.number)
}

func (s *revisions) revisedJob() flow.Job {
	job := s.story.job()
	job.Root = s.root()
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		s.kept = &keeper{done: map[string]Done{}, settled: map[string]bool{}}
		h := s.world.handlers()
		h.Carry, h.Keep = s.carry, s.kept
		value, err := Walk(fc, s.doc, s.inputs, h)
		s.err = err
		return value, err
	}
	job.Next = func(json.RawMessage, bool) (flow.Segment, error) {
		s.turn()
		return flow.Segment{State: flow.JSON(s.number), Root: s.root(), Limits: s.limits}, nil
	}
	return job
}

// turn hands on what the walk left, and what nobody knows the end of.
func (s *revisions) turn() {
	next := Carry{Done: map[string]Done{}, Doubts: map[string]Doubt{}}
	maps.Copy(next.Done, s.carry.Done)
	maps.Copy(next.Done, s.kept.done)
	for id, d := range s.carry.Doubts {
		if !s.kept.settled[id] {
			next.Doubts[id] = d
		}
	}
	open := map[string]Doubt{}
	for _, r := range s.log.Records(storyRun) {
		var b struct {
			Name, Class, Digest string
			Attempt             int
			Input               json.RawMessage
		}
		if err := json.Unmarshal(r.Body, &b); err != nil {
			s.t.Fatal(err)
		}
		switch {
		case r.Kind == "effect.intended" && b.Class == "once":
			open[r.Path] = Doubt{Path: r.Path, Name: b.Name, Attempt: b.Attempt, Digest: b.Digest, Input: b.Input}
		case r.Kind == "effect.finished":
			delete(open, r.Path)
		}
	}
	for leaf := range s.doc.Root.Leaves {
		if d, ok := open[s.root()+strings.TrimPrefix(leaf.Path, "root")]; ok {
			d.Kind, d.By = leaf.Kind, leaf.Performer()
			next.Doubts[leaf.ID] = d
		}
	}
	s.doc, s.carry, s.number = s.next, next, s.number+1
}

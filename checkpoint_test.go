package tipstaff

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"
)

// lineageOf is a service that knows runs and their records, and no more.
type lineageOf struct {
	Service
	runs   map[ID]Run
	events map[ID][]Event
	failed error // after the records of a run
}

func (s *lineageOf) Get(_ context.Context, id ID) (Run, error) {
	r, ok := s.runs[id]
	if !ok {
		return Run{}, Errorf(RunNotFound, "there is no run %s", id)
	}
	return r, nil
}

func (s *lineageOf) List(_ context.Context, req ListRequest) (page RunPage, _ error) {
	for _, r := range s.runs { // of which there are two
		if r.Pipeline.Envelope == req.Envelope && r.CreatedAt.Before(s.runs[req.Before].CreatedAt) {
			page.Runs = append(page.Runs, r)
		}
	}
	return page, nil
}

func (s *lineageOf) Events(_ context.Context, req EventsRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for i, e := range s.events[req.Run] {
			if req.Limit > 0 && i >= req.Limit || !yield(e, nil) {
				return
			}
		}
		if s.failed != nil {
			yield(Event{}, s.failed)
		}
	}
}

// family is a run of four boundaries, and one that went back to its second: it has
// the first three records of it and goes on by itself.
func family() (s *lineageOf, first, second ID) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first, second = NewID(at), NewID(at.Add(time.Hour))
	s = &lineageOf{runs: map[ID]Run{}, events: map[ID][]Event{}}
	s.runs[first] = Run{ID: first, CreatedAt: at, Pipeline: &PipelineStatus{Envelope: "env", Thread: "thread"}}
	s.runs[second] = Run{ID: second, CreatedAt: at.Add(time.Hour), Lineage: &Lineage{Parent: first, Relation: "rollback", Seq: 3}, Pipeline: &PipelineStatus{Envelope: "env", Thread: "other"}}
	record := func(run ID, kind Kind, body string, of ...any) {
		s.events[run] = append(s.events[run], Event{Seq: int64(len(s.events[run]) + 1), Run: run, Kind: kind, At: at, Body: fmt.Appendf(nil, body, of...)})
	}
	point := func(run ID, turn int, labels string) {
		record(run, KindCheckpointCreated, `{"id":"cp_%s_%d","turn":%d,"labels":[%s]}`, run, turn, turn, labels)
	}
	move := func(run ID, from, to string, n int) {
		record(run, KindTransition, `{"from":%q,"to":%q,"n":%d}`, from, to, n)
	}
	point(first, 0, "")
	move(first, "start", "a", 1)
	point(first, 1, `"good"`)
	point(first, 2, "") // this, and what follows, the second has left behind
	move(first, "a", "b", 2)
	record(first, KindRunStarted, `{}`)
	point(first, 3, "")
	point(second, 2, "")
	move(second, "a", "c", 3)
	record(second, KindCheckpointCreated, `{"id":"cp_%s_1","turn":1,"labels":["later"]}`, first)
	return s, first, second
}

func TestCheckpointsAreInherited(t *testing.T) {
	s, first, second := family()
	for run, want := range map[ID]string{
		first:  fmt.Sprintf("%[1]s/0[] %[1]s/1[good] %[1]s/2[] %[1]s/3[]", first),
		second: fmt.Sprintf("%[1]s/0[] %[1]s/1[good later] %[1]s/2[]left %[1]s/3[]left %[2]s/2[]", first, second),
	} {
		list, err := CheckpointsOf(context.Background(), s, run)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range list {
			text := fmt.Sprintf("%s/%d%v", c.Run, c.Turn, c.Labels)
			if c.Left {
				text += "left"
			}
			got = append(got, text)
			if c.Envelope != "env" || c.Thread != s.runs[c.Run].Pipeline.Thread || c.Seq == 0 || c.CreatedAt.IsZero() {
				t.Errorf("%+v", c)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
}

func TestTransitionsAreInherited(t *testing.T) {
	s, first, second := family()
	for run, want := range map[ID]string{first: "start>a a>b", second: "start>a a>b a>c"} {
		list, err := Transitions(context.Background(), s, run)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, m := range list {
			got = append(got, m.From+">"+m.To)
			if m.N != int64(i+1) || m.Seq == 0 || m.Timestamp.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

// What cannot be read is not taken for nothing.
func TestCheckpointsOfWhatCannotBeRead(t *testing.T) {
	s, _, second := family()
	if _, err := CheckpointsOf(context.Background(), s, NewID(time.Now())); CodeOf(err) != RunNotFound {
		t.Errorf("an unknown run: %v", err)
	}
	s.failed = errors.New("the disk is gone")
	if _, err := Transitions(context.Background(), s, second); !errors.Is(err, s.failed) {
		t.Errorf("got %v", err)
	}
}

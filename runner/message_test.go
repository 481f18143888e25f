package runner_test

import (
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

// A user has one message at a time, whichever of several servers takes it.
func TestOneMessageAtATimeOverSeveralServers(t *testing.T) {
	p := draftPool(t)
	answer := make(chan struct{})
	p.says = func(agent.Request) agent.Response {
		<-answer
		return agent.Response{Text: copyPlan("copy.txt")}
	}
	servers := []*server{p.server("a", 4), p.server("b", 4)}
	none := 0
	say := func(i int, key string) (tipstaff.MessageReply, error) {
		c := tipstaff.Control{Runs: servers[i].Runner, Now: servers[i].Now}
		return c.TakeMessage(cli(), tipstaff.Message{Prose: "Copy the note.", WaitS: &none, Key: key})
	}
	var all sync.WaitGroup
	replies, errs := make([]tipstaff.MessageReply, 8), make([]error, 8)
	for i := range replies {
		all.Go(func() { replies[i], errs[i] = say(i%2, "") })
	}
	all.Wait()
	var taken tipstaff.ID
	for i, err := range errs {
		switch {
		case err == nil && taken.IsZero():
			taken = replies[i].Run
		case err == nil:
			t.Errorf("two were taken: %s and %s", taken, replies[i].Run)
		default:
			wantCode(t, err, tipstaff.Busy)
		}
	}
	if _, err := say(0, ""); tipstaff.CodeOf(err) != tipstaff.Busy {
		t.Errorf("beside one that is driven: %v", err)
	}
	close(answer)
	p.awaits(taken, "rests", func(r tipstaff.Run) bool { return len(r.OpenGates) > 0 && r.Condition == tipstaff.Waiting })
	next, err := say(1, "again")
	if err != nil {
		t.Fatalf("after it: %v", err)
	}
	if same, err := say(0, "again"); err != nil || same.Run != next.Run {
		t.Errorf("the same once more, at the other: %s, %v; want %s", same.Run, err, next.Run)
	}
	p.awaits(next.Run, "rests", func(r tipstaff.Run) bool { return len(r.OpenGates) > 0 && r.Condition == tipstaff.Waiting })
}

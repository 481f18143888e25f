package runner_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// reporting is a server whose one tool says how far it is, again and again, until
// it is released.
type reporting struct{ release chan struct{} }

func (s reporting) Transport(ctx context.Context) (mcp.Transport, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1.0.0"}, nil)
	server.AddTool(&mcp.Tool{Name: "work", InputSchema: map[string]any{"type": "object"}}, s.work)
	client, end := mcp.NewInMemoryTransports()
	_, err := server.Connect(ctx, end, nil)
	return client, err
}

func (s reporting) work(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: r.Params.GetProgressToken(), Progress: 3, Total: 10, Message: "three of ten"})
		select {
		case <-s.release:
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// declare makes a server the only one of the workspace, and pins it.
func (b *bed) declare(name, tools string, s interface {
	Transport(context.Context) (mcp.Transport, error)
}) {
	b.t.Helper()
	b.write("tipstaff.yaml", fmt.Sprintf("allowed_effects: [read]\nservers:\n  %s:\n    command: [%s]\n    tools: %s\n", name, name, tools))
	b.Servers = func(*workspace.Manifest, string, []string) map[string]tool.Server {
		return map[string]tool.Server{name: tool.MCP(s.Transport)}
	}
	got, err := b.Tools().Compare(cli(), nil)
	b.check(err)
	b.check(b.Tools().Pin(cli(), got))
}

// recorded are the events with a seq.
func recorded(all []tipstaff.Event) []tipstaff.Event {
	return slices.DeleteFunc(slices.Clone(all), func(e tipstaff.Event) bool { return e.Seq == 0 })
}

// wantSeqs wants the records after a cursor, each once and in order.
func wantSeqs(t *testing.T, all []tipstaff.Event, after int64) {
	t.Helper()
	for i, e := range recorded(all) {
		if e.Seq != after+int64(i)+1 {
			t.Fatalf("record %d came as number %d after %d", e.Seq, i+1, after)
		}
	}
}

func TestProgressReachesFollowersAndNotTheStore(t *testing.T) {
	b := newBed(t)
	slow := reporting{release: make(chan struct{})}
	b.declare("slow", "{work: {effect: read}}", slow)
	s := b.start(`root: {id: w, kind: tool_call, tool: "mcp://slow/work@1.0.0", args: {}}`)
	var all, told []tipstaff.Event
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: s.Run, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
		if e.Seq != 0 {
			continue
		}
		if told = append(told, e); len(told) == 1 {
			close(slow.release)
		}
	}
	if d := b.wait(s.Run); d.State != tipstaff.Completed {
		t.Fatalf("%+v", d)
	}
	if len(told) == 0 {
		t.Fatal("nothing was told")
	}
	e := told[0]
	if e.Kind != tipstaff.KindToolProgress || e.Path != "root" || e.Run != s.Run || e.At.IsZero() ||
		string(e.Body) != `{"progress":3,"total":10,"message":"three of ten"}` {
		t.Errorf("told %+v, body %s", e, e.Body)
	}
	wantSeqs(t, all, 0)
	stored := b.events(s.Run)
	if len(stored) != len(recorded(all)) {
		t.Errorf("%d records are stored, %d were followed", len(stored), len(recorded(all)))
	}
	for _, e := range stored {
		if e.Kind.Transient() {
			t.Errorf("record %d is of the kind %s", e.Seq, e.Kind)
		}
	}
	b.verified(s.Run)
}

// asleep is a run whose one call does not end by itself.
func (b *bed) asleep() tipstaff.Started {
	b.t.Helper()
	return b.start(`root: {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 5m}, timeout: 6m}`)
}

// tell tells n events of the run's call.
func (b *bed) tell(run tipstaff.ID, n int) {
	for i := range n {
		b.Tell(run.String(), flow.Draft{Kind: string(tipstaff.KindToolProgress), Path: "root", Body: fmt.Appendf(nil, `{"progress":%d}`, i)})
	}
}

func (b *bed) cancel(s tipstaff.Started) {
	b.t.Helper()
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run}); err != nil {
		b.t.Error(err)
	}
	b.wait(s.Run)
}

// followed follows a run; at is called with each event as it comes.
func (b *bed) followed(req tipstaff.EventsRequest, at func(tipstaff.Event)) (all []tipstaff.Event) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(cli(), time.Minute)
	defer cancel()
	req.Follow = true
	for e, err := range b.Events(ctx, req) {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, e)
		at(e)
	}
	if ctx.Err() != nil {
		b.t.Fatal("following did not end")
	}
	return all
}

func TestAFollowerThatHangsMissesWhatWasToldAlone(t *testing.T) {
	b := newBed(t)
	s := b.asleep()
	const many = 10 * runner.Heard
	all := b.followed(tipstaff.EventsRequest{Run: s.Run}, func(e tipstaff.Event) {
		if e.Kind == tipstaff.KindEffectIntended { // nothing is read until the run has ended
			b.tell(s.Run, many)
			b.cancel(s)
		}
	})
	wantSeqs(t, all, 0)
	if stored := b.events(s.Run); len(recorded(all)) != len(stored) {
		t.Errorf("%d of %d records came", len(recorded(all)), len(stored))
	}
	if told := len(all) - len(recorded(all)); told != runner.Heard {
		t.Errorf("heard %d of %d, want %d", told, many, runner.Heard)
	}
	if last := all[len(all)-1]; !last.Kind.Terminal() {
		t.Errorf("the last event is %s (%d)", last.Kind, last.Seq)
	}
}

func TestWhatIsToldMovesNoCursorAndCountsForNoLimit(t *testing.T) {
	b := newBed(t)
	s := b.asleep()
	b.until(s.Run, tipstaff.KindEffectIntended)
	after := int64(len(b.events(s.Run)) - 1)
	told := 0
	all := b.followed(tipstaff.EventsRequest{Run: s.Run, After: after, Limit: 2}, func(e tipstaff.Event) {
		switch {
		case e.Seq == after+1:
			b.tell(s.Run, 3)
		case e.Seq == 0:
			if told++; told == 3 {
				b.cancel(s)
			}
		}
	})
	wantSeqs(t, all, after)
	if len(all) != 5 || told != 3 {
		t.Errorf("%d events, %d of them told; want two records and three told", len(all), told)
	}
}

func TestAFloodOfWhatIsToldDoesNotHoldRecordsUp(t *testing.T) {
	b := newBed(t)
	s := b.asleep()
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			default:
				b.tell(s.Run, 1)
			}
		}
	}()
	var cancelled sync.WaitGroup
	var once sync.Once
	all := b.followed(tipstaff.EventsRequest{Run: s.Run}, func(e tipstaff.Event) {
		if e.Seq == 0 {
			once.Do(func() { cancelled.Go(func() { b.cancel(s) }) })
		}
	})
	close(ended)
	<-stopped
	cancelled.Wait()
	wantSeqs(t, all, 0)
	if records := recorded(all); len(records) == 0 || !records[len(records)-1].Kind.Terminal() {
		t.Errorf("the last of %d records does not end the run", len(records))
	}
}

func TestWhoOnlyReadsHearsNothing(t *testing.T) {
	b := newBed(t)
	s := b.asleep()
	b.until(s.Run, tipstaff.KindEffectIntended)
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: s.Run}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq == 0 {
			t.Errorf("heard %s", e.Kind)
		}
		b.tell(s.Run, 1)
	}
	b.cancel(s)
}

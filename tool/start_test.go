package tool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/tooltest"
	"github.com/tipstaff/tipstaff/workspace"
)

// A server that no call needs is never started.
func TestServerStartsWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"needed": command(t), "idle": command(t)})
	if n := o.starts.Load(); n != 0 {
		t.Errorf("%d programs were started before a call", n)
	}
	o.says("hello", "needed", tooltest.Echo, object{"text": "hello"})
	o.says("again", "needed", tooltest.Echo, object{"text": "again"})
	if n := o.starts.Load(); n != 1 {
		t.Errorf("%d programs were started, want 1", n)
	}
}

// neighbourAttempt is wireAttempt for the server named neighbour.
func neighbourAttempt(name string, class flow.Class, args string) flow.Attempt {
	a := wireAttempt(name, class, args)
	a.Input = []byte(strings.Replace(string(a.Input), "mcp://wire/", "mcp://neighbour/", 1))
	return a
}

// A server that answers nothing has 30 seconds; a neighbour does not wait for it.
func TestStartTakesThirtySecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, neighbour := okServer(onceTool), okServer(onceTool)
		b := wireBenchOf(t, map[string]*wireServer{"wire": s, "neighbour": neighbour}, map[string]workspace.Tool{"act": {MaxResult: 1000}})
		defer b.manager.Close()
		s.silent.Store(true)
		began := time.Now()
		type end struct {
			err  error
			took time.Duration
		}
		ended := make(chan end, 1)
		go func() {
			_, err := b.activity.Run(context.Background(), wireAttempt("act", flow.Once, `{"to":"x"}`))
			ended <- end{err, time.Since(began)}
		}()
		synctest.Wait() // it waits for the server
		if _, err := b.try(context.Background(), neighbourAttempt("act", flow.Once, `{"to":"x"}`)); err != nil || time.Since(began) != 0 {
			t.Errorf("the neighbour answered after %v: %v", time.Since(began), err)
		}
		got := <-ended
		if e := wantCode(t, tool.CodeUnavailable, nil, got.err); !e.NotSent || s.called() != 0 {
			t.Errorf("it was called %d times; got %+v", s.called(), e)
		}
		if got.took != 30*time.Second {
			t.Errorf("it took %v", got.took)
		}
	})
}

// However long a server takes to start, it is spoken to in the way that it knows; and it
// has the time that the manifest gives it.
func TestSlowServersAreSpokenToInTheirOwnWay(t *testing.T) {
	for name, c := range map[string]struct {
		latest, deaf  bool
		refuses       string // with which initialize is refused
		starts, limit time.Duration
		thinks        time.Duration // before it says what it understands
		took          time.Duration // until the call is answered
		fails         string        // in its place
	}{
		"the latest protocol, at once":            {latest: true},
		"the latest protocol, in 20 s":            {latest: true, starts: 20 * time.Second, took: 20 * time.Second},
		"the latest protocol, in 100 s":           {latest: true, starts: 100 * time.Second, limit: 2 * time.Minute, took: 100 * time.Second},
		"the latest protocol, too late":           {latest: true, starts: 40 * time.Second, took: 30 * time.Second, fails: "did not answer within 30s: start_timeout of the server wire"},
		"the latest protocol, refusing first":     {latest: true, thinks: 10 * time.Second, took: 10 * time.Second},
		"an earlier one, in 20 s":                 {starts: 20 * time.Second, took: 20 * time.Second},
		"an earlier one that waits for its hello": {deaf: true, took: 5 * time.Second},
		"an earlier one that wants no client":     {deaf: true, refuses: "the licence has expired", took: 30 * time.Second, fails: "the licence has expired"},
		"the latest protocol, never discovered":   {latest: true, thinks: 100 * time.Second, took: 30 * time.Second, fails: "only the latest protocol is spoken here"},
		"that one, in 100 s":                      {deaf: true, starts: 100 * time.Second, limit: 2 * time.Minute, took: 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := okServer(echoTool)
				s.limit = c.limit
				b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
				defer b.manager.Close()
				s.latest.Store(c.latest)
				s.deaf.Store(c.deaf)
				s.refuses = c.refuses
				s.starts.Store(int64(c.starts))
				s.thinks.Store(int64(c.thinks))
				began := time.Now()
				_, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
				switch took := time.Since(began); {
				case took != c.took:
					t.Errorf("after %v: %v", took, err)
				case c.fails == "" && err != nil:
					t.Error(err)
				case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
					t.Errorf("%v", err)
				}
				time.Sleep(2 * time.Minute) // whatever the server still writes
			})
		})
	}
}

// A call that gives up before its server has answered was not sent, and the
// server is gone with the drive like any other.
func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"silent": command(t, tooltest.Silent), "fine": command(t)})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := o.activity.Run(ctx, o.attempt("silent", tooltest.Write, nil))
	if e := wantCode(t, flow.CodeTimeout, nil, err); !e.NotSent {
		t.Errorf("got %+v", e)
	}
	o.says("unharmed", "fine", tooltest.Echo, object{"text": "unharmed"})
	began := time.Now()
	o.manager.Close()
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("closing took %s", took)
	}
}

// A list has the lifetime that the server gives it. After that it is asked for
// again, and a tool that is another now is not called.
func TestListIsUsedForItsLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lasting := func(tool string) func() string {
			return func() string { return `{"tools":[` + tool + `],"ttlMs":60000}` }
		}
		s := okServer(echoTool)
		s.tools = lasting(echoTool)
		b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
		defer b.manager.Close()
		call := func() error {
			_, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
			return err
		}
		if err := call(); err != nil {
			t.Fatal(err)
		}
		s.tools = lasting(strings.Replace(echoTool, `"big":1`, `"big":2`, 1))
		time.Sleep(time.Minute - time.Millisecond)
		if err := call(); err != nil {
			t.Errorf("while the list lasts: %v", err)
		}
		time.Sleep(time.Millisecond)
		wantCode(t, tool.CodeDefinitionChanged, nil, call())
		if n := s.called(); n != 2 {
			t.Errorf("it was called %d times, want 2", n)
		}
	})
}

// Servers are ended at the same time: three that have to be killed take no longer
// than one.
func TestServersAreEndedAtTheSameTime(t *testing.T) {
	t.Parallel()
	deaf := func(names ...string) *outside {
		servers := map[string]string{}
		for _, name := range names {
			servers[name] = command(t, tooltest.Deaf)
		}
		o := newOutside(t, servers)
		for _, name := range names {
			o.says("ready", name, tooltest.Echo, object{"text": "ready"})
		}
		return o
	}
	closing := func(o *outside) <-chan time.Duration {
		took := make(chan time.Duration, 1)
		go func() {
			began := time.Now()
			o.manager.Close()
			took <- time.Since(began)
		}()
		return took
	}
	alone, together := deaf("a"), deaf("a", "b", "c")
	one, three := closing(alone), closing(together)
	if one, three := <-one, <-three; three > one+2*time.Second {
		t.Errorf("one took %s, three took %s", one, three)
	}
}

// Whatever a server does when it is asked for its tools, that is over in 30 seconds,
// and the error says what was waited for.
func TestListingTakesThirtySecondsAtMost(t *testing.T) {
	pages := func(pause time.Duration) func() string {
		n := 0
		return func() string {
			n++
			time.Sleep(pause)
			return fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}],"nextCursor":"%d"}`, n, n)
		}
	}
	for name, c := range map[string]struct {
		tools func() string
		want  string
		took  time.Duration
	}{
		"no answer":       {func() string { return "" }, "it did not finish tools/list within 30s", 30 * time.Second},
		"pages for ever":  {pages(4 * time.Second), "it did not finish tools/list within 30s: 7 tools on 7 pages came", 30 * time.Second},
		"pages at once":   {pages(0), "its list of tools does not end after 1000 pages", 0},
		"too many to use": {func() string { return `{"tools":[{}` + strings.Repeat(",{}", 10_000) + `]}` }, "it lists more than 10000 tools", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := okServer(echoTool)
				b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
				s.tools = c.tools
				manager := tool.NewManager(b.manifest, b.servers)
				began := time.Now()
				_, err := manager.List(context.Background(), "wire")
				if took := time.Since(began); err == nil || err.Error() != c.want || took != c.took {
					t.Errorf("after %s: %v", took, err)
				}
				manager.Close()
				b.manager.Close()
				time.Sleep(time.Minute) // whatever the server still writes
			})
		})
	}
}

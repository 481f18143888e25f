package tool_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// Each of these servers does what no server should. There must come of it an
// error that says what happened, or the right data; a neighbour must not notice.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{
		"bad": command(t), "good": command(t), "twice": command(t, tooltest.Twice), "huge": command(t, tooltest.Huge),
		tooltest.Half: command(t), tooltest.Invalid: command(t), tooltest.Crash: command(t),
	})
	t.Run("one name listed twice", func(t *testing.T) {
		contains(t, o.fails(tool.CodeUnknown, "twice", tooltest.Echo, nil).Message, `two tools named "echo"`)
	})
	t.Run("ten million bytes of description", func(t *testing.T) {
		contains(t, o.fails(tool.CodeUnknown, "huge", "huge", nil).Message, "8388608 are the most")
		o.says("usable", "huge", tooltest.Echo, object{"text": "usable"})
	})
	t.Run("two answers", func(t *testing.T) {
		for range 20 {
			o.says("first", "bad", tooltest.Again, nil)
		}
	})
	t.Run("an answer after the cancellation", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := o.try(ctx, o.attempt("bad", tooltest.Late, nil))
		wantCode(t, flow.CodeTimeout, nil, err)
		for range 20 {
			o.says("mine", "bad", tooltest.Echo, object{"text": "mine"})
		}
	})
	t.Run("progress of all kinds", func(t *testing.T) {
		a, told := telling(t, o.attempt("bad", tooltest.Chatter, nil))
		if value, err := o.try(context.Background(), a); err != nil || string(value) != `"done"` {
			t.Errorf("got %s, %v", value, err)
		}
		told.only(t, tipstaff.ToolProgress{Progress: 1, Message: "half way"})
	})
	t.Run("links to elsewhere", func(t *testing.T) {
		value, err := o.call("bad", tooltest.Links, object{"file": linkOutside(o)})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Text  string
			Blobs []struct {
				Type, Digest string
				Size         int
			}
		}
		if err := json.Unmarshal(value, &got); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, b := range got.Blobs {
			kinds = append(kinds, b.Type)
			if sum := sha256.Sum256([]byte(outsideText)); b.Digest == "sha256:"+hex.EncodeToString(sum[:]) {
				t.Errorf("%s was followed: %s", b.Type, value)
			}
		}
		if want := []string{"resource_link", "resource_link", "resource"}; got.Text != "" || !slices.Equal(kinds, want) || got.Blobs[2].Size != len("embedded") {
			t.Errorf("got %s", value)
		}
		if strings.Contains(string(value), outsideText) {
			t.Errorf("something was followed: %s", value)
		}
	})
	t.Run("a text like a record", func(t *testing.T) {
		value, err := o.call("bad", tooltest.Imitate, nil)
		var text string
		if err != nil || json.Unmarshal(value, &text) != nil || !strings.Contains(text, `"kind":"intent.attest"`) {
			t.Errorf("got %s, %v", value, err)
		}
	})
	t.Run("asking for input", func(t *testing.T) {
		e := o.fails(tool.CodeToolError, "bad", tooltest.Ask, nil)
		contains(t, string(e.Detail), `"reason":"input_required"`)
		contains(t, e.Message, "nobody told me")
	})
	for name, says := range map[string]string{
		tooltest.Half:    "in the middle of a message",
		tooltest.Invalid: "not a JSON-RPC message",
		tooltest.Crash:   "the disk is on fire",
	} {
		t.Run("the end by "+name, func(t *testing.T) {
			e := o.fails(tool.CodeUnavailable, name, name, nil)
			contains(t, e.Message, says)
			if e.NotSent || e.Answered {
				t.Errorf("got %+v", e)
			}
		})
	}
	o.says("unharmed", "good", tooltest.Echo, object{"text": "unharmed"})
}

const outsideText = "what stands outside of the workspace"

// linkOutside is the path of a link in the workspace that leads to a text outside.
func linkOutside(o *outside) string {
	o.Helper()
	file, link := filepath.Join(o.TempDir(), "text"), filepath.Join(o.dir, "link")
	if err := os.WriteFile(file, []byte(outsideText), 0o600); err != nil {
		o.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		o.Fatal(err)
	}
	return link
}

// A tool of one name on two servers is two tools: a call reaches the one that it
// names, and no other.
func TestTwoServersWithOneTool(t *testing.T) {
	t.Parallel()
	count := map[string]string{}
	servers := map[string]string{}
	for _, name := range []string{"one", "other"} {
		count[name] = filepath.Join(t.TempDir(), "calls")
		servers[name] = command(t, tooltest.Count+count[name])
	}
	o := newOutside(t, servers)
	wantCalls := func(one, other int) {
		t.Helper()
		if got := [2]int{calls(t, count["one"]), calls(t, count["other"])}; got != [2]int{one, other} {
			t.Errorf("the servers were called %v times, want %v", got, [2]int{one, other})
		}
	}
	o.says("for one", "one", tooltest.Echo, object{"text": "for one"})
	wantCalls(1, 0)
	o.says("for the other", "other", tooltest.Echo, object{"text": "for the other"})
	wantCalls(1, 1)
}

// calls is how many calls a server has counted in its file.
func calls(t testing.TB, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(data)
}

// A result of 50 MB is read past, in little memory; the connection goes on.
func TestLargeResultIsNotKept(t *testing.T) {
	o := newOutside(t, map[string]string{"bad": command(t)})
	o.says("ready", "bad", tooltest.Echo, object{"text": "ready"})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e := o.fails(flow.CodeResultTooLarge, "bad", tooltest.Large, object{"size": 50_000_000})
	runtime.ReadMemStats(&after)
	if !e.Answered {
		t.Errorf("got %+v", e)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 45_000_000 {
		t.Errorf("%d bytes were allocated: 33 MiB are kept until it is known to be too much", grown)
	}
	o.says("after it", "bad", tooltest.Echo, object{"text": "after it"})
}

// A server that changes a tool between listing and call is found out, and the
// tool is not called.
func TestToolChangedUnderOurFeet(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "calls")
	o := newOutside(t, map[string]string{"bad": command(t, tooltest.Count+count)})
	o.lock()
	o.says("as accepted", "bad", tooltest.Echo, object{"text": "as accepted"})
	o.says("swapped", "bad", tooltest.Swap, nil)
	e := o.fails(tool.CodeDefinitionChanged, "bad", tooltest.Echo, object{"text": "changed"})
	contains(t, e.Message, "description")
	if n := calls(t, count); !e.NotSent || n != 2 {
		t.Errorf("the server was called %d times, want 2; got %+v", n, e)
	}
	o.says("unchanged", "bad", tooltest.Write, object{"text": "unchanged"})
}

// Whatever a server started is gone with it, also what made a session of its own
// and ignores signals.
func TestNoDescendantIsLeft(t *testing.T) {
	for name, end := range map[string]func(o *outside){
		"closed":  func(o *outside) { o.manager.Close() },
		"crashed": func(o *outside) { o.fails(tool.CodeUnavailable, "bad", tooltest.Crash, nil); o.manager.Close() },
	} {
		for _, options := range [][]string{nil, {tooltest.Deaf}} {
			for _, deaf := range []bool{false, true} {
				t.Run(strings.Join(append([]string{name}, options...), " "), func(t *testing.T) {
					t.Parallel()
					o := newOutside(t, map[string]string{"bad": command(t, options...), "good": command(t)})
					o.says("unharmed", "good", tooltest.Echo, object{"text": "unharmed"})
					value, err := o.call("bad", tooltest.Spawn, object{"deaf": deaf})
					var pids []int
					if err != nil || json.Unmarshal(value, &pids) != nil || len(pids) != 2 {
						t.Fatalf("got %s, %v", value, err)
					}
					for _, pid := range pids {
						if !alive(pid) {
							t.Fatalf("%d is not there", pid)
						}
					}
					began := time.Now()
					end(o)
					if took := time.Since(began); took > 6*time.Second {
						t.Errorf("it took %s", took)
					}
					for _, pid := range pids {
						if alive(pid) {
							t.Errorf("%d is still there", pid)
						}
					}
				})
			}
		}
	}
}

// A server that prints without end blocks nothing, and grows nothing.
func TestFloodOfErrors(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"bad": command(t, tooltest.Flood)})
	for range 50 {
		o.says("through", "bad", tooltest.Echo, object{"text": "through"})
	}
	e := o.fails(tool.CodeUnavailable, "bad", tooltest.Crash, nil)
	if len(e.Message) > 2000 {
		t.Errorf("the message has %d bytes", len(e.Message))
	}
}

// However a server gives its credential away, what is kept has the reference in
// its place.
func TestCredentialIsNeverKept(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"bad": command(t, tooltest.Reveals)})
	for _, form := range []string{"plain", "json", "runes", "url", "base64", "error", "in-band", "stderr", "stdout"} {
		value, err := o.call("bad", tooltest.Reveal, object{"form": form})
		if e, ok := err.(*flow.Error); ok {
			clean(t, form, e.Message, string(e.Detail))
			continue
		}
		if err != nil || !json.Valid(value) {
			t.Errorf("%s: got %s, %v", form, value, err)
		}
		clean(t, form, string(value))
	}
	registry, err := tool.NewRegistry(o.manifest, o.servers)
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := registry.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	clean(t, "a definition", string(frozen))
	if frozen := string(o.manifest.Frozen()); !strings.Contains(frozen, `"TOOLTEST_SECRET":"$env:TOKEN"`) {
		t.Errorf("the frozen manifest is %s", frozen)
	}
}

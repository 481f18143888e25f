package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/tooltest"
)

func TestStdioServerIsCalled(t *testing.T) {
	for _, option := range []string{"", tooltest.Old, tooltest.Deaf, tooltest.Flood} {
		t.Run("option "+option, func(t *testing.T) {
			t.Parallel()
			o := newOutside(t, map[string]string{"one": command(t, option)})
			o.says("hello", "one", tooltest.Echo, object{"text": "hello"})
			o.says("again", "one", tooltest.Write, object{"text": "again"})
		})
	}
}

// A server that takes no notice of the question what it understands is greeted in
// the old way, on the same connection.
func TestMuteServerIsGreeted(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"one": command(t, tooltest.Mute)})
	o.says("hello", "one", tooltest.Echo, object{"text": "hello"})
}

func TestChildSeesTheAllowedNamesOnly(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	o := newOutside(t, map[string]string{"one": command(t) + "inherit_env: [SHARED, NOT_SET]\n"})
	o.environ = nil
	value, err := o.call("one", tooltest.Env, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "LC_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	want := []string{"HOME", "PATH", "SHARED", "TIPSTAFF_LAUNCH", "TIPSTAFF_RUN_ID", "TIPSTAFF_SPAWN", tooltest.Secret}
	for _, optional := range []string{"LANG", "TZ", "TMPDIR"} {
		if _, set := os.LookupEnv(optional); set {
			want = append(want, optional)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	contains(t, text, "SHARED=for you")
	contains(t, text, tooltest.Secret+"=$env:TOKEN")
}

func TestUnsetReferenceRefuses(t *testing.T) {
	for reference, why := range map[string]string{"$env:NOT_SET": "NOT_SET is not set", "x $env:SHORT": "SHORT has fewer than 8"} {
		o := newOutside(t, map[string]string{
			"one": strings.Replace(command(t), "$env:TOKEN", reference, 1),
			"two": "url: http://127.0.0.1:1/mcp\nheaders: {Authorization: '" + reference + "'}",
		})
		for _, server := range []string{"one", "two"} {
			e := o.fails(tool.CodeEnvMissing, server, tooltest.Echo, nil)
			contains(t, e.Message, why)
			if !e.NotSent {
				t.Errorf("%s: %+v", server, e)
			}
			if refused := (&tool.Lock{}).Ready(server, o.servers[server]); refused == nil || refused.Code != tool.CodeEnvMissing {
				t.Errorf("before a connection: %v", refused)
			}
		}
	}
}

func TestMetaCarriesKeyAndTrace(t *testing.T) {
	o := newOutside(t, map[string]string{"one": command(t)})
	value, err := o.call("one", tooltest.Meta, nil)
	if err != nil {
		t.Fatal(err)
	}
	var meta map[string]any
	if err := json.Unmarshal(value, &meta); err != nil {
		t.Fatal(err)
	}
	delete(meta, "progressToken")
	// By hand: printf run-1 | sha256sum; printf 'run-1\nroot/a\n1' | sha256sum.
	want := map[string]any{"tipstaff/idempotency-key": "key-1", "traceparent": "00-4e65d3fbe8ad6535681b021b30785b12-56f386df07e104ad-01"}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Error(diff)
	}
}

// A server that dies fails its calls at once, tells its last words, and is there
// again for the next call.
func TestDeadServerFailsAtOnce(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"one": command(t), "two": command(t)})
	withinASecond(t, func() time.Duration {
		o.says("ready", "one", tooltest.Echo, object{"text": "ready"})
		waiting := make(chan error, 1)
		go func() {
			_, err := o.try(context.Background(), o.attempt("one", tooltest.Never, nil))
			waiting <- err
		}()
		began := time.Now()
		e := o.fails(tool.CodeUnavailable, "one", tooltest.Crash, nil)
		contains(t, e.Message, "exit status 7")
		contains(t, e.Message, "the disk is on fire")
		if e.NotSent || e.Answered {
			t.Errorf("nobody knows what became of it: %+v", e)
		}
		wantCode(t, tool.CodeUnavailable, nil, <-waiting)
		return time.Since(began)
	})
	o.says("unharmed", "two", tooltest.Echo, object{"text": "unharmed"})
	o.says("back", "one", tooltest.Echo, object{"text": "back"})
}

// withinASecond fails unless one of five tries takes no longer: the machine may be busy with
// something else.
func withinASecond(t *testing.T, try func() time.Duration) {
	t.Helper()
	took := try()
	for n := 1; n < 5 && took > time.Second; n++ {
		took = try()
	}
	if took > time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestServerThatCannotStart(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{
		"missing": "command: [no-such-program-anywhere]",
		"folder":  "command: [./]",
		"dies":    command(t, tooltest.Dies) + "inherit_env: [DATABASE]",
		"banner":  command(t, tooltest.Banner),
		"fine":    command(t),
	})
	for server, why := range map[string]string{
		"missing": `"no-such-program-anywhere" cannot be started`,
		"folder":  "permission denied",
		"dies":    "exit status 3",
		"banner":  "Server ready. Have fun!",
	} {
		e := o.fails(tool.CodeUnavailable, server, tooltest.Echo, nil)
		contains(t, e.Message, why)
		if !e.NotSent {
			t.Errorf("%s: it was never sent: %+v", server, e)
		}
	}
	contains(t, o.fails(tool.CodeUnavailable, "dies", tooltest.Echo, nil).Message, "no database at")
	o.says("unharmed", "fine", tooltest.Echo, object{"text": "unharmed"})
}

func TestCancellationIsSentAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"one": command(t)})
	file := filepath.Join(o.dir, "cancelled")
	o.says("ready", "one", tooltest.Echo, object{"text": "ready"})
	withinASecond(t, func() time.Duration {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := o.try(ctx, o.attempt("one", tooltest.Never, object{"file": file}))
		wantCode(t, flow.CodeTimeout, nil, err)
		return time.Since(began)
	})
	o.says("still there", "one", tooltest.Echo, object{"text": "still there"})
	o.until(func() bool { _, err := os.Stat(file); return err == nil })
}

func TestPackageIsCheckedBeforeEveryStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "lib.js")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("v1")
	digest, err := tool.PackageDigest(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := newOutside(t, map[string]string{"one": command(t) + "package: " + dir + "\npackage_digest: " + digest, "two": command(t)})
	o.says("as accepted", "one", tooltest.Echo, object{"text": "as accepted"})
	write("v2")
	o.fails(tool.CodeUnavailable, "one", tooltest.Crash, nil)
	e := o.fails(tool.CodePackageChanged, "one", tooltest.Echo, nil)
	contains(t, e.Message, "is not the one that was accepted")
	if n := o.starts.Load(); !e.NotSent || n != 1 {
		t.Errorf("there were %d starts, want 1; got %+v", n, e)
	}
	o.says("unharmed", "two", tooltest.Echo, object{"text": "unharmed"})
}

// A credential that is passed on as it is set is kept out of records like one that
// the manifest refers to.
func TestInheritedCredentialIsRedacted(t *testing.T) {
	t.Parallel()
	o := newOutside(t, map[string]string{"one": command(t) + "inherit_env: [GITHUB_TOKEN, DATABASE_URL, SHARED]\n"})
	o.environ = append(o.environ, "GITHUB_TOKEN=not-of-a-known-shape", "DATABASE_URL=postgres://me:hunter2-long@db/x")
	o.servers = tool.Servers(o.manifest, tool.Launch{Workspace: o.dir, Environ: o.environ, Spawn: o.spawn})
	o.manager = tool.NewManager(o.manifest, o.servers)
	t.Cleanup(o.manager.Close)
	o.activity = o.manager.Activity(o.gate)
	o.lock()
	value, err := o.call("one", tooltest.Env, nil)
	text := string(value)
	if err != nil || strings.Contains(text, "known-shape") || strings.Contains(text, "hunter2") || !strings.Contains(text, "$env:GITHUB_TOKEN") || !strings.Contains(text, "for you") {
		t.Errorf("got %s, %v", text, err)
	}
}

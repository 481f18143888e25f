package mcp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// ways to reach server-everything, as a manifest writes them.
var ways = map[string]func(*workspace) string{
	"stdio": func(w *workspace) string { return "command: " + w.command(everything) },
	"http":  func(w *workspace) string { return "url: " + w.serveHTTP().url },
}

// overEachWay runs a test over a server in this process tree and over one that
// was there before.
func overEachWay(t *testing.T, test func(*workspace)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			w.declare(way(w))
			test(w)
		})
	}
}

// declare writes a manifest with the tools of server-everything that the tests
// call. server is the rest of its declaration.
func (w *workspace) declare(server string) {
	w.Helper()
	w.Write("tipstaff.yaml", `allowed_effects: [read, idempotent, once]
servers:
  everything:
    `+server+`
    tools:
      echo: {}
      get-env: {}
      get-annotated-message: {}
      get-resource-links: {}
      get-resource-reference: {}
      get-structured-content: {}
      get-sum: {}
      get-tiny-image: {}
      simulate-research-query: {}
      trigger-long-running-operation: {}
`)
}

func TestEverythingIsPinned(t *testing.T) {
	overEachWay(t, func(w *workspace) {
		w.Must(3, "tools", "pin", "--check")
		w.Must(0, "tools", "pin", "--yes")
		w.Must(0, "tools", "pin", "--check")
		w.Must(0, "tools", "verify")
		w.Must(0, "tools", "list").Says(w, "mcp://everything/echo@2.0.0", "mcp://everything/trigger-long-running-operation@2.0.0")
		w.Must(0, "tools", "call", "mcp://everything/echo@2.0.0", "--args", `{"message":"hello"}`).Says(w, "Echo: hello")
	})
}

const mixed = `-- mixed.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: hello, kind: tool_call, tool: "mcp://everything/echo@2.0.0", args: {message: "grüß Gott \u2028 \"quoted\""}}
    - kind: parallel
      children:
        - {id: one, kind: tool_call, tool: "mcp://everything/get-sum@2.0.0", args: {a: 1, b: 0.5}}
        - {id: two, kind: tool_call, tool: "mcp://everything/get-sum@2.0.0", args: {a: 2, b: -3}}
        - {id: city, kind: tool_call, tool: "mcp://everything/get-structured-content@2.0.0", args: {location: Chicago}}
        - {id: city_text, kind: tool_call, tool: "mcp://everything/get-structured-content@2.0.0", args: {location: Chicago}, parse: json}
        - {id: image, kind: tool_call, tool: "mcp://everything/get-tiny-image@2.0.0"}
        - {id: links, kind: tool_call, tool: "mcp://everything/get-resource-links@2.0.0", args: {count: 4}}
        - {id: reference, kind: tool_call, tool: "mcp://everything/get-resource-reference@2.0.0", args: {resourceType: Blob, resourceId: 7}}
        - {id: slow, kind: tool_call, tool: "mcp://everything/trigger-long-running-operation@2.0.0", args: {duration: 0.5, steps: 20}}
    - {id: back, kind: tool_call, tool: "mcp://everything/echo@2.0.0", args: {message: "${hello.output}; ${one.output}; ${city.output.humidity}"}}
outputs:
  hello: "${hello.output}"
  two: "${two.output}"
  city: "${city.output}"
  city_text: "${city_text.output}"
  image: "${image.output}"
  links: "${links.output}"
  reference: "${reference.output}"
  slow: "${slow.output}"
  back: "${back.output}"
`

// content is an output that is not text alone.
type content struct {
	Text  string
	Blobs []struct {
		Type     string
		MimeType string `json:"mime_type"`
		Digest   string
		Size     int
		URI      string
		Name     string
	}
}

func TestEverythingInAPlan(t *testing.T) {
	overEachWay(t, func(w *workspace) {
		w.files(mixed).pin()
		var out struct {
			Hello, Two, Slow, Back string
			City                   struct{ Humidity float64 }
			CityText               struct{ Humidity float64 } `json:"city_text"`
			Image, Links           content
			Reference              content
		}
		w.outputs("mixed.yaml", &out)
		const hello = "Echo: grüß Gott \u2028 \"quoted\""
		for what, pair := range map[string][2]any{
			"echo":                 {out.Hello, hello},
			"sum":                  {out.Two, "The sum of 2 and -3 is -1."},
			"structured":           {out.City.Humidity, 82.0},
			"its text, parsed":     {out.CityText.Humidity, 82.0},
			"with progress":        {out.Slow, "Long running operation completed. Duration: 0.5 seconds, Steps: 20."},
			"what others gave":     {out.Back, "Echo: " + hello + "; The sum of 1 and 0.5 is 1.5.; 82"},
			"blocks of an image":   {len(out.Image.Blobs), 1},
			"resource links":       {len(out.Links.Blobs), 4},
			"an embedded resource": {len(out.Reference.Blobs), 1},
		} {
			if pair[0] != pair[1] {
				w.Errorf("%s: %v, not %v", what, pair[0], pair[1])
			}
		}
		w.imageIsKept(out.Image)
		w.mediaAreKept(out.Links, out.Reference)
		w.noServers()
	})
}

var tinyImage = regexp.MustCompile(`MCP_TINY_IMAGE = "([^"]+)"`)

// imageIsKept compares an image's digest with the one that the server's own
// source has in it.
func (w *workspace) imageIsKept(got content) {
	w.Helper()
	source, err := os.ReadFile(filepath.Join(w.folder(everything), "dist", "tools", "get-tiny-image.js"))
	w.Check(err)
	found := tinyImage.FindSubmatch(source)
	if found == nil || len(got.Blobs) != 1 {
		w.Fatalf("no image to compare: %v", got)
	}
	image, err := base64.StdEncoding.DecodeString(string(found[1]))
	w.Check(err)
	sum := sha256.Sum256(image)
	if b := got.Blobs[0]; b.Type != "image" || b.MimeType != "image/png" || b.Size != len(image) || b.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		w.Errorf("the image of %d bytes with digest %x is %+v", len(image), sum, b)
	}
	if want := "Here's the image you requested:\nThe image above is the MCP logo."; got.Text != want {
		w.Errorf("its text is %q, not %q", got.Text, want)
	}
}

// A tool that can only be run as a task, and one that is handed nonsense by a plan
// that its schema lets through, are errors of the tool.
func TestEverythingReportsErrors(t *testing.T) {
	overEachWay(t, func(w *workspace) {
		w.pin()
		w.Must(10, "tools", "call", "mcp://everything/get-resource-reference@2.0.0", "--args", `{"resourceId":-1}`).Says(w, "Invalid resourceId")
		w.Must(3, "tools", "call", "mcp://everything/get-sum@2.0.0", "--args", `{"a":1}`).Says(w, "invalid_arguments")
		r := w.Must(10, "tools", "call", "mcp://everything/simulate-research-query@2.0.0", "--args", `{"topic":"ants"}`)
		if !strings.Contains(strings.ToLower(r.Out+r.Err), "task") {
			w.Errorf("nothing is said of tasks\n%v", r)
		}
	})
}

const long = `-- long.yaml --
kind: plan
version: 1
root: {id: long, kind: tool_call, tool: "mcp://everything/trigger-long-running-operation@2.0.0", args: {duration: 60, steps: 300}, timeout: %s}
`

// Whoever follows a run sees how far a call says it is; the run does not keep it.
func TestProgressIsSeenAndNotKept(t *testing.T) {
	overEachWay(t, func(w *workspace) {
		w.files(`-- steps.yaml --
kind: plan
version: 1
root: {id: steps, kind: tool_call, tool: "mcp://everything/trigger-long-running-operation@2.0.0", args: {duration: 2, steps: 4}}
`).pin()
		seen := w.ofKind("tool.progress", w.Must(0, "run", "steps.yaml", "--unattended", "--json").Out)
		if len(seen) == 0 {
			w.Error("no progress was seen")
		}
		for _, r := range seen {
			if r.Path != "root" || r.Body.Progress < 1 || r.Body.Progress > 4 {
				w.Errorf("progress of %v was seen at %q", r.Body.Progress, r.Path)
			}
		}
		if kept := w.journal("tool.progress"); len(kept) > 0 {
			w.Errorf("%d records are kept of it", len(kept))
		}
	})
}

// received waits until the server has got a message.
func (w *workspace) received(what string) {
	w.Helper()
	w.Until("the server to get "+what, func() bool { return strings.Contains(w.Read("received"), what) })
}

// listening is the declaration of a server whose standard input is written down.
// The server itself is the process that Tipstaff starts.
func (w *workspace) listening(name string) string {
	w.Helper()
	w.Write("listen.sh", "exec "+w.node+" "+start(w.folder(name))+" < <(exec tee -a received)\n")
	return `command: [bash, listen.sh]`
}

// A call that is given up is cancelled at the server, which is not waited for.
func TestLongCallIsCancelled(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]struct {
		timeout string
		act     func(*workspace, *cmdtest.Process)
	}{
		"by its timeout": {"2s", func(w *workspace, p *cmdtest.Process) {
			p.Must(1)
			if f := w.failure("root"); f.Body.Error.Code != "timeout" {
				w.Errorf("it failed with %+v", f.Body.Error)
			}
		}},
		"by cancel": {"100s", func(w *workspace, p *cmdtest.Process) {
			w.received(`"trigger-long-running-operation"`)
			w.Must(0, "cancel", "@")
			p.Must(8)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			w.declare(w.listening(everything))
			w.files(strings.Replace(long, "%s", giveUp.timeout, 1)).pin()
			p := w.Start("run", "long.yaml", "--unattended")
			giveUp.act(w, p)
			if took := time.Since(p.Begun); took > 20*time.Second {
				w.Errorf("it took %s", took)
			}
			w.received("notifications/cancelled")
			w.noServers()
			w.Must(0, "verify", "@")
		})
	}
}

// server-everything does not mind the end of its input, and has to be told. The
// test is about time, and so does not run beside others.
func TestDeafServerIsGone(t *testing.T) {
	w := newWorkspace(t)
	w.declare("command: " + w.command(everything))
	w.pin()
	w.Must(0, "tools", "call", "mcp://everything/echo@2.0.0", "--args", `{"message":"hello"}`)
	ended := time.Now()
	w.noServers()
	finished := w.journal("effect.finished", "root")
	if len(finished) != 1 {
		w.Fatalf("%d ends of the call", len(finished))
	}
	// Five seconds for the server, and some for a command that is looking for races.
	if took := ended.Sub(finished[0].At); took > 7*time.Second {
		w.Errorf("the command and its server ended %s after the call", took)
	}
}

const secret = "correct horse battery staple"

// A server sees what the manifest allows, and what it says of it is not written
// anywhere.
func TestServerSeesWhatItMay(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Env = []string{"TOKEN=" + secret, "NOBODYS=business", "EXTRA=something", "LANG=C.UTF-8", "TZ=UTC"}
	w.declare("command: " + w.command(everything) + `
    env: {SERVICE_TOKEN: "Bearer $env:TOKEN", MODE: quiet}
    inherit_env: [EXTRA]`)
	w.files(`-- env.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: env, kind: tool_call, tool: "mcp://everything/get-env@2.0.0", parse: json}
    - {id: said, kind: tool_call, tool: "mcp://everything/echo@2.0.0", args: {message: "${env.output.SERVICE_TOKEN}"}}
outputs: {env: "${env.output}", said: "${said.output}"}
`).pin()
	var out struct {
		Env  map[string]string
		Said string
	}
	w.outputs("env.yaml", &out)
	want := map[string]string{"SERVICE_TOKEN": "Bearer $env:TOKEN", "MODE": "quiet", "EXTRA": "something", "LANG": "C.UTF-8", "TZ": "UTC", "HOME": w.Dir}
	for name, value := range want {
		if out.Env[name] != value {
			w.Errorf("%s is %q, not %q", name, out.Env[name], value)
		}
	}
	may := regexp.MustCompile(`^(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|SERVICE_TOKEN|MODE|EXTRA|TIPSTAFF_(RUN_ID|LAUNCH|SPAWN))$`)
	for name := range out.Env {
		if !may.MatchString(name) {
			w.Errorf("the server sees %s", name)
		}
	}
	if want := "Echo: Bearer $env:TOKEN"; out.Said != want {
		w.Errorf("said %q, not %q", out.Said, want)
	}
	w.nowhere(secret, base64.StdEncoding.EncodeToString([]byte(secret)))
}

// nowhere looks for texts in all files of the workspace.
func (w *workspace) nowhere(texts ...string) {
	w.Helper()
	w.Check(filepath.WalkDir(w.Dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		for _, text := range texts {
			if strings.Contains(string(data), text) {
				w.Errorf("%q stands in %s", text, name)
			}
		}
		return err
	}))
}

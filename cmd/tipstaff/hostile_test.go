package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// leaves are n nodes that do next to nothing.
func leaves(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "    - {id: n%d, kind: gate, question: Go?}\n", i)
	}
	return b.String()
}

// nested is a plan that is so many levels deep: a sequence in a sequence, and one
// gate at the bottom.
func nested(depth int) string {
	return "kind: plan\nversion: 1\nroot: " + strings.Repeat("{kind: sequential, children: [", depth-1) +
		"{id: bottom, kind: gate, question: Go?}" + strings.Repeat("]}", depth-1) + "\n"
}

const head = "kind: plan\nversion: 1\nroot:\n  kind: sequential\n  children:\n"

// Documents that are too much, or not what they seem. Refused ones name a place;
// nothing of them is started, and nothing breaks.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	gate := "kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?}\n"
	for name, c := range map[string]struct {
		plan string
		code int // of a dry run
		says string
	}{
		"a million characters":         {strings.Replace(gate, "Go?", `"`+strings.Repeat("x", 1_000_000)+`"`, 1), 0, ""},
		"more than a mebibyte":         {strings.Replace(gate, "Go?", `"`+strings.Repeat("x", 1<<20)+`"`, 1), 2, "limit"},
		"2,000 nodes":                  {head + leaves(1999), 0, ""},
		"2,001 nodes":                  {head + leaves(2000), 2, "limit"},
		"32 levels":                    {nested(32), 0, ""},
		"33 levels":                    {nested(33), 2, "limit"},
		"a thousand levels":            {nested(1000), 2, "limit"},
		"brackets without end":         {"kind: " + strings.Repeat("[", 200_000), 2, "plan.yaml:1:"},
		"an anchor and its alias":      {"kind: plan\nversion: 1\nname: &a x\nroot: {id: a, kind: gate, question: *a}\n", 2, "plan.yaml:3:"},
		"aliases that multiply":        {"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n", 2, "plan.yaml:1:"},
		"a merge key":                  {"kind: plan\nversion: 1\nroot: {<<: {kind: gate}, id: a, question: Go?}\n", 2, "plan.yaml:3:"},
		"a key twice":                  {gate + "version: 1\n", 2, "plan.yaml:4:1: "},
		"a key twice, deep":            {"kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?, show: {x: 1, x: 2}}\n", 2, "plan.yaml:3:"},
		"a tab for a space":            {"kind: plan\nversion: 1\nroot:\n\tid: a\n", 2, "plan.yaml:4:"},
		"a byte order mark":            {"\ufeff" + gate, 2, "plan.yaml:1:1: "},
		"a NUL":                        {strings.Replace(gate, "Go?", "\"G\x00o\"", 1), 2, "plan.yaml:3:"},
		"a NUL, escaped":               {strings.Replace(gate, "Go?", `"G\0o"`, 1), 0, ""},
		"bytes that are no text":       {strings.Replace(gate, "Go?", "\"\xff\xfe\"", 1), 2, "plan.yaml:3:"},
		"UTF-16":                       {"\xff\xfek\x00i\x00n\x00d\x00", 2, "plan.yaml:1:"},
		"two documents":                {gate + "---\n" + gate, 2, "plan.yaml:4:"},
		"a tag":                        {strings.Replace(gate, "Go?", "!!binary Z28=", 1), 2, "plan.yaml:3:"},
		"a number that is not exact":   {"kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?, show: {n: 9007199254740993}}\n", 2, "number_unsafe"},
		"infinity":                     {"kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?, show: {n: .inf}}\n", 2, "plan.yaml:3:"},
		"a version of another day":     {strings.Replace(gate, "version: 1", "version: 2", 1), 2, "plan.yaml:2:"},
		"10,000 lines":                 {strings.Repeat("# nothing to see\n", 10_000) + gate, 0, ""},
		"a fault on line 10,003":       {strings.Repeat("# nothing to see\n", 10_000) + "kind: plan\nversion: 1\nrot: 1\n", 2, "plan.yaml:10003:1: "},
		"escapes for the terminal":     {"kind: plan\nversion: 1\n\"\\e[2J\": 1\nroot: {id: a, kind: gate, question: Go?}\n", 2, "plan.yaml:3:"},
		"an id that is a path":         {strings.Replace(gate, "id: a", "id: ../../x", 1), 2, "id_grammar"},
		"a name of a reserved segment": {strings.Replace(gate, "id: a", "id: in_doubt", 1), 2, "plan.yaml:3:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest)
			w.Write("plan.yaml", c.plan)
			r := w.Must(c.code, "run", "plan.yaml", "--dry-run")
			if c.code != 0 {
				r.Says(t, c.says)
			}
			if strings.Contains(r.Out+r.Err, "\x1b") {
				t.Errorf("it lets an escape through to the terminal: %q", cmdtest.Clip(r.Err))
			}
		})
	}
}

// The largest plans that are allowed do run, and can be proven.
func TestLargestPlans(t *testing.T) {
	t.Parallel()
	call := `    - {id: c%d, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: %d, expr: value}}` + "\n"
	calls := func(n int, head string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := range n {
			fmt.Fprintf(&b, call, i, i)
		}
		return b.String()
	}
	for name, plan := range map[string]string{
		"2,000 nodes":         calls(1999, strings.Replace(head, "root", "bounds: {tool_calls: 5000}\nroot", 1)),
		"32 levels":           nested(32),
		"64 at a time":        calls(190, strings.Replace(head, "sequential", "parallel\n  max_parallel: 64", 1)),
		"a million in a gate": "kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?, show: {text: \"" + strings.Repeat("x", 1_000_000) + "\"}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest)
			w.Write("plan.yaml", plan)
			w.Must(0, "run", "plan.yaml", "--yes", "--unattended")
			w.Must(0, "verify", "@")
			w.Must(0, "export", "@", "out")
			w.Must(0, "verify", "./out")
			for i, r := range w.journal("@") {
				if r.Seq != int64(i+1) {
					t.Fatalf("record %d has seq %d", i+1, r.Seq)
				}
			}
		})
	}
}

// A megabyte through inputs, arguments, results and outputs arrives as it was.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	const plan = `-- echo.yaml --
kind: plan
version: 1
inputs: {text: {type: string}}
root:
  kind: sequential
  children:
    - {id: w, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: big.txt, content: "${input.text}"}}
    - {id: r, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: big.txt, max_bytes: 4000000}}
    - {id: none, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: empty.txt, content: ""}}
outputs: {text: "${r.output.text}", literal: "$${r.output.text}", size: "${none.output.size}"}
`
	w := newWorkspace(t, manifest, plan)
	text := strings.Repeat("ab\u2028\\\"", 200_000)
	w.Write("inputs.json", `{"text": `+quoteJSON(w, text)+`}`)
	w.Must(0, "run", "echo.yaml", "--inputs", "inputs.json")
	if w.Read("big.txt") != text {
		t.Error("the file has another text")
	}
	if got, want := canonical(w, w.show("@").Outputs), canonical(w, []byte(`{"text": `+quoteJSON(w, text)+`, "literal": "${r.output.text}", "size": 0}`)); got != want {
		t.Error("the outputs are others")
	}
	w.Must(0, "verify", "@")
	w.Must(0, "export", "@", "out")
	w.Must(0, "verify", "./out")
}

// The built-in tools stay inside of their roots, hosts and programs, whatever a
// plan asks for.
func TestEscapes(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan string, 10)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.URL.Path })}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	const fenced = `-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: [inside]
    hosts: [example.invalid]
    programs: [sh]
    tools: {read_file: {effect: read}, write_file: {effect: idempotent}, list_dir: {effect: read}, http_get: {effect: read}, exec: {effect: once}}
-- secret.txt --
secret
-- inside/readable.txt --
fine
`
	for name, call := range map[string]string{
		"read by dots":            `tool: "mcp://builtin/read_file@1.0.0", args: {path: ../secret.txt}`,
		"read by dots inside":     `tool: "mcp://builtin/read_file@1.0.0", args: {path: sub/../../secret.txt}`,
		"read by an absolute":     `tool: "mcp://builtin/read_file@1.0.0", args: {path: /etc/passwd}`,
		"read by a link":          `tool: "mcp://builtin/read_file@1.0.0", args: {path: link.txt}`,
		"read by a linked folder": `tool: "mcp://builtin/read_file@1.0.0", args: {path: out/secret.txt}`,
		"list by dots":            `tool: "mcp://builtin/list_dir@1.0.0", args: {path: ..}`,
		"list by a link":          `tool: "mcp://builtin/list_dir@1.0.0", args: {path: out}`,
		"write by dots":           `tool: "mcp://builtin/write_file@1.0.0", args: {path: ../written, content: x}`,
		"write by a link":         `tool: "mcp://builtin/write_file@1.0.0", args: {path: out/written, content: x}`,
		"read the store":          `tool: "mcp://builtin/read_file@1.0.0", args: {path: ../.tipstaff/keys/user.key}`,
		"a folder outside":        `tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo x > written"], cwd: ..}`,
		"a linked folder outside": `tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo x > written"], cwd: out}`,
		"a program not listed":    `tool: "mcp://builtin/exec@1.0.0", args: {argv: [touch, ../written]}`,
		"a program by its path":   `tool: "mcp://builtin/exec@1.0.0", args: {argv: [/bin/sh, -c, "echo x > ../written"]}`,
		"a host not listed":       fmt.Sprintf(`tool: "mcp://builtin/http_get@1.0.0", args: {url: "http://%s/"}`, listener.Addr()),
		"a host with a user":      fmt.Sprintf(`tool: "mcp://builtin/http_get@1.0.0", args: {url: "http://example.invalid@%s/"}`, listener.Addr()),
		"a file for a host":       `tool: "mcp://builtin/http_get@1.0.0", args: {url: "file:///etc/passwd"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, fenced)
			w.Check(os.Symlink("../secret.txt", w.Path("inside", "link.txt")))
			w.Check(os.Symlink("..", w.Path("inside", "out")))
			w.Check(os.Symlink("../written", w.Path("inside", "dangling")))
			w.Write("plan.yaml", "kind: plan\nversion: 1\nroot: {id: a, kind: tool_call, "+call+"}\n")
			r := w.Must(1, "run", "plan.yaml", "--unattended")
			if strings.Contains(r.Out+r.Err, "root:x:") || strings.Contains(w.Must(0, "events", "@", "--json").Out, `secret\n`) {
				t.Errorf("it tells what it must not know\n%v", r)
			}
			if _, err := os.Lstat(w.Path("written")); err == nil {
				t.Error("it wrote outside of its root")
			}
			select {
			case path := <-reached:
				t.Errorf("the request for %s reached its host", path)
			default:
			}
			w.Must(0, "verify", "@")
		})
	}
}

// Written to, a link that leads outside becomes a file of its own.
func TestWriteOverALink(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest)
	w.Write("plan.yaml", "kind: plan\nversion: 1\nroot: {id: a, kind: tool_call, tool: \"mcp://builtin/write_file@1.0.0\", args: {path: link, content: x}}\n")
	outside := filepath.Join(t.TempDir(), "outside")
	w.Check(os.Symlink(outside, w.Path("link")))
	w.Must(0, "run", "plan.yaml")
	if _, err := os.Lstat(outside); err == nil {
		t.Error("it wrote where the link leads")
	}
	if info, err := os.Lstat(w.Path("link")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link is %v, %v", info, err)
	}
}

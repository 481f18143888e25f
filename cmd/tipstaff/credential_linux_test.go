package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// credential has every character that some encoding changes.
const credential = `s3cr/t "two\words" & <more>?é`

// A server that gives its credential away, in every way it can think of: no byte
// of it is in any file, nor in anything that was printed; its neighbours are not
// harmed, the run can be proven, and nothing that a server started is left.
func TestCredentialIsNowhere(t *testing.T) {
	t.Parallel()
	forms := []string{"plain", "json", "runes", "url", "base64", "error", "in-band", "progress", "stderr", "stdout"}
	w := newWorkspace(t, manifest)
	leaves := ""
	for _, form := range forms {
		w.declare(form, tooltest.Secret+": $env:TOKEN", []string{tooltest.Reveals}, tooltest.Echo, tooltest.Reveal)
		leaves += fmt.Sprintf("        - {id: %s, kind: tool_call, tool: 'mcp://%s/reveal@1.0.0', args: {form: %s}, on_error: continue}\n", form, form, form)
	}
	w.Write("plan.yaml", "kind: plan\nversion: 1\nroot:\n  kind: sequential\n  children:\n    - kind: parallel\n      children:\n"+leaves+
		"        - {id: neighbour, kind: tool_call, tool: 'mcp://plain/echo@1.0.0', args: {text: unharmed}}\n"+
		"outputs: {neighbour: '${neighbour.output}', plain: '${plain.output}'}\n")
	printed := ""
	tipstaff := func(code int, args ...string) cmdtest.Result {
		t.Helper()
		p := w.Prepare(args...)
		p.Cmd.Env = append(p.Cmd.Env, "TOKEN="+credential)
		p.Listen()
		p.Begin()
		r := p.Wait()
		if r.Code != code {
			t.Fatalf("want exit code %d\n%v", code, r)
		}
		printed += r.Out + r.Err
		return r
	}
	tipstaff(0, "tools", "pin", "--yes")
	tipstaff(0, "tools", "verify")
	tipstaff(0, "run", "plan.yaml", "--unattended").Says(t, `"neighbour":"unharmed"`, `it is $env:TOKEN`)
	for _, args := range [][]string{{"show", "@"}, {"events", "@"}, {"events", "@", "--json"}, {"export", "@", "exported"}, {"verify", "@"}, {"replay", "@"}, {"tools", "list"}} {
		tipstaff(0, args...)
	}
	run := w.show("@").ID
	if left := w.leftOver(run); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
	files := 0
	w.Check(filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		for name, trace := range traces() {
			if strings.Contains(string(data), trace) {
				t.Errorf("%s is in %s", name, path)
			}
		}
		return err
	}))
	if files < 10 {
		t.Errorf("only %d files were looked at", files)
	}
	for name, trace := range traces() {
		if strings.Contains(printed, trace) {
			t.Errorf("%s was printed", name)
		}
	}
	if !strings.Contains(printed, "$env:TOKEN") {
		t.Error("no reference was printed")
	}
}

// traces are parts of the credential that nothing else looks like, in each of its
// forms.
func traces() map[string]string {
	quoted, _ := json.Marshal(credential)
	return map[string]string{
		"the credential":       credential,
		"its beginning":        credential[:8],
		"its end":              credential[len(credential)-8:],
		"its JSON":             string(quoted[1:16]),
		"its URL form":         url.QueryEscape(credential)[:12],
		"its path form":        url.PathEscape(credential)[:12],
		"its base64":           base64.StdEncoding.EncodeToString([]byte(credential))[:12],
		"its base64 by 2":      base64.StdEncoding.EncodeToString([]byte("user:" + credential))[8:20],
		"its escaped spelling": `\u0073\u0033\u0063`,
	}
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// fakeTools has one report to show, and remembers whether it was accepted.
type fakeTools struct {
	tipstaff.Tools // whatever else is asked for is not there
	pins           tipstaff.PinReport
	live           []tipstaff.ToolInfo
	findings       []tipstaff.ToolFinding
	asked          [][]string
	pinned         int
}

func (f *fakeTools) Compare(_ context.Context, servers []string) (tipstaff.PinReport, error) {
	f.asked = append(f.asked, servers)
	return f.pins, nil
}

func (f *fakeTools) Live(_ context.Context, servers []string) ([]tipstaff.ToolInfo, []tipstaff.ToolFinding, error) {
	f.asked = append(f.asked, servers)
	return f.live, f.findings, nil
}

func (f *fakeTools) Pin(context.Context, tipstaff.PinReport) error {
	f.pinned++
	return nil
}

func (b *bench) withTools(f *fakeTools) *bench {
	b.env.Tools = func(string) (tipstaff.Tools, error) { return f, nil }
	return b
}

func added(definition string) tipstaff.PinReport {
	return tipstaff.PinReport{Changes: []tipstaff.PinChange{{Server: "desk", Tool: "echo", Kind: tipstaff.PinAdded, Now: json.RawMessage(definition)}}}
}

func TestEveryToolsCommandHasHelpWithAnExample(t *testing.T) {
	for _, name := range []string{"list", "describe", "call", "explain", "pin", "verify"} {
		b := newBench(t)
		b.run(t, 0, "tools", name, "--help")
		contains(t, name, b.out.String(), "Usage:\n  tipstaff tools "+name, "Examples:\n  tipstaff tools "+name, "--json", "--workspace")
		if len(b.opened) != 0 {
			t.Errorf("tools %s --help opened the workspace", name)
		}
	}
}

// TestWhatAServerSaysCannotActOnATerminal: nobody has trusted it yet.
func TestWhatAServerSaysCannotActOnATerminal(t *testing.T) {
	hostile := "wipe \x1b[2J\x1b]0;title\x07 \u202egnp.exe \u200b\u2066 \r overwritten"
	r := added(string(jsonOf(hostile)))
	r.Changes = append(r.Changes,
		tipstaff.PinChange{Server: "desk", Tool: "other\x1b[1m", Kind: tipstaff.PinChanged, Member: "/\x1b]member", Was: jsonOf("a"), Now: jsonOf(hostile)},
		tipstaff.PinChange{Server: "desk", Kind: tipstaff.PinChanged, Member: "version", Was: jsonOf("1"), Now: jsonOf(hostile)})
	r.Findings = []tipstaff.ToolFinding{{Level: tipstaff.FindingNote, Code: "undeclared_tool", Message: hostile}}
	b := newBench(t).withTools(&fakeTools{pins: r})
	b.env.StdoutTTY = true
	b.vars["NO_COLOR"] = "1"
	b.run(t, 3, "tools", "pin", "--check")
	contains(t, "stdout", b.out.String(), `wipe \u001b[2J`, `\u202egnp.exe`, "  ~ other\\u001b[1m", "      /\\u001b]member")
	if i := strings.IndexFunc(b.out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' || r == '\u200b' || r == '\u2066' }); i >= 0 {
		t.Errorf("%q reached the terminal", b.out.String()[i:])
	}
}

func TestEndlessDefinitionIsCut(t *testing.T) {
	b := newBench(t).withTools(&fakeTools{pins: added(`{"description":"` + strings.Repeat("x", 10<<20) + `","name":"echo"}`)})
	b.run(t, 3, "tools", "pin", "--check")
	if n := len(b.out.String()); n > 2*valueShown {
		t.Errorf("%d bytes were shown", n)
	}
	contains(t, "stdout", b.out.String(), "--json has all")
}

func TestPinWritesOnlyWhatWasAllowed(t *testing.T) {
	for _, c := range []struct {
		args    string
		tty     bool
		keys    string
		code    int
		written string
	}{
		{"tools pin", false, "allow\n", 3, "nobody can be asked here"},
		{"tools pin", true, "allow\n", 0, "tipstaff.lock is written"},
		{"tools pin", true, "deny\n", 3, "nothing is written"},
		{"tools pin", true, "yes\nok\nsure\nfine\n", 3, "nothing is written"},
		{"tools pin", true, "", 3, "nothing is written"},
		{"tools pin --yes", false, "", 0, "tipstaff.lock is written"},
		{"tools pin --check", true, "allow\n", 3, "nothing is written"},
		{"tools pin --json", true, "allow\n", 3, "nothing is written"},
		{"tools pin --json --yes", false, "", 0, "tipstaff.lock is written"},
	} {
		b := newBench(t).withTools(&fakeTools{pins: added(`{"name":"echo"}`)})
		if c.tty {
			b.terminal()
		}
		keyboard := newTypist()
		b.env.Stdin = keyboard
		go func() {
			_, _ = io.WriteString(keyboard.w, c.keys)
			keyboard.w.Close()
		}()
		b.run(t, c.code, strings.Fields(c.args)...)
		keyboard.w.Close()
		contains(t, c.args+" with "+c.keys, b.err.String(), c.written)
	}
}

// TestNobodyIsAskedToPinWhatPinningCannotMend: an attended run offers to lock
// tools only if that is all that is missing.
func TestNobodyIsAskedToPinWhatPinningCannotMend(t *testing.T) {
	for code, offered := range map[string]bool{"unlocked_tool": true, "pin_mismatch": false, "env_missing": false} {
		f := &fakeTools{}
		b := newBench(t).terminal().withTools(f)
		b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
			return tipstaff.Started{}, &tipstaff.Error{Code: tipstaff.Refused, Message: "refused", Err: &tipstaff.ToolRefusal{Tools: []tipstaff.RefusedTool{{Server: "desk", Code: code}}}}
		}
		b.run(t, 3, "tools", "call", "mcp://desk/echo@1.0.0")
		if got := len(f.asked) > 0; got != offered {
			t.Errorf("%s: asked %v", code, f.asked)
		}
		contains(t, code, b.err.String(), "error: refused")
	}
}

func TestToolsOfAWorkspaceThatIsNoneAreRefused(t *testing.T) {
	b := newBench(t)
	b.env.Tools = func(string) (tipstaff.Tools, error) {
		return nil, tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "no folder")
	}
	for _, args := range []string{"list", "describe a/b", "explain a/b", "pin", "verify"} {
		b.run(t, 2, append([]string{"tools"}, strings.Fields(args)...)...)
	}
	if b.out.String() != "" {
		t.Errorf("stdout: %s", b.out)
	}
	b.env.Tools = func(string) (tipstaff.Tools, error) { return nil, errors.New("broken") }
	b.run(t, 0, "__complete", "tools", "pin", "")
}

// Getting to know a server takes its command alone: the lines that declare its tools are
// printed, each with the class that its hints state.
func TestToolsListLive(t *testing.T) {
	undeclared := func(name, class string) tipstaff.ToolInfo {
		return tipstaff.ToolInfo{Server: "kv", Tool: name, Lock: tipstaff.ToolUndeclared, Class: class, ClassFrom: "hints"}
	}
	f := &fakeTools{live: []tipstaff.ToolInfo{
		{Server: "kv", Tool: "known", URI: "mcp://kv/known@1.0.0", Lock: tipstaff.ToolLocked, Class: "read", ClassFrom: "manifest"},
		undeclared("get", "read"), undeclared("null", "once"), undeclared("2go", "once"), undeclared("not a\x1b name", "once"),
		{Server: "kv", Tool: "broken", Lock: tipstaff.ToolUndeclared, Trouble: "it has no schema"},
	}}
	b := newBench(t).withTools(f)
	b.run(t, exitDone, "tools", "list", "--live", "kv")
	contains(t, "stdout", b.out.String(), "mcp://kv/known@1.0.0", "kv/get", "undeclared", "it has no schema")
	_, lines, _ := strings.Cut(b.out.String(), "in tipstaff.yaml:\n\n")
	equal(t, "lines", lines, "servers:\n  kv:\n    tools:\n      get: {effect: read}\n      \"null\": {effect: once}\n      \"2go\": {effect: once}\n")
	if len(f.asked) != 1 || len(f.asked[0]) != 1 || f.asked[0][0] != "kv" {
		t.Errorf("asked %v", f.asked)
	}
	f.findings = []tipstaff.ToolFinding{{Level: tipstaff.FindingError, Code: "tool_unavailable", Server: "kv", Message: "it does not answer"}}
	b.run(t, exitRefused, "tools", "list", "--live")
	contains(t, "stderr", b.err.String(), "tool_unavailable: it does not answer")
	b.run(t, exitInvalid, "tools", "list", "kv")
}

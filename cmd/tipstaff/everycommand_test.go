package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/store/storetest"
	"github.com/tipstaff/tipstaff/test/cmdtest"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// invoked is what a command came to.
type invoked struct {
	code     int
	out, err string
}

// invoke performs a command in this process, with nothing on its standard input. One that
// serves is told to end when it listens.
func (s *stop) invoke(t *testing.T, args ...string) (got invoked) {
	t.Helper()
	var out, errs bytes.Buffer
	env := s.environment()
	env.Stdin, env.Stdout, env.Stderr, env.StdinTTY, env.StdoutTTY, env.StderrTTY = strings.NewReader(""), &out, &errs, false, false, false
	env.OnInterrupt, env.Interrupt, env.Raw, env.EchoOff = nil, nil, nil, nil
	env.Getenv = func(string) string { return "" }
	env.MCP = nil // it takes the standard output of the process: see everyCommand
	ctx := s.ctx
	if args[0] == "serve" {
		serving, end := context.WithCancelCause(ctx)
		serve := env.Serve
		env.Serve = func(ctx context.Context, o cli.ServeOptions, announce func(cli.Listening) error) error {
			o.Addr, o.GRPCAddr = "127.0.0.1:0", "127.0.0.1:0"
			return serve(ctx, o, func(told cli.Listening) error {
				end(&cli.SignalError{Signal: os.Interrupt})
				return announce(told)
			})
		}
		ctx = serving
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("tipstaff %s panics: %v\n%s", strings.Join(args, " "), p, debug.Stack())
		}
	}()
	got.code = cli.Main(ctx, args, env)
	got.out, got.err = out.String(), errs.String()
	return got
}

var (
	commandsListed = regexp.MustCompile(`(?m)^  ([a-z0-9]+) +\S`)
	usageLine      = regexp.MustCompile(`(?m)^  (tipstaff .*?)(?: \[flags\])?$`)
)

// commandLines are all commands that there are, each without the arguments that it can do
// without, and with all of them.
func (s *stop) commandLines(t *testing.T, path ...string) (lines [][]string) {
	help := s.invoke(t, append(path, "--help")...).out
	_, commands, group := strings.Cut(help, "Available Commands:\n")
	if commands, _, _ = strings.Cut(commands, "\n\n"); group {
		for _, m := range commandsListed.FindAllStringSubmatch(commands, -1) {
			if name := m[1]; name != "help" && name != "e2e" { // which proves the build in a folder of its own
				lines = append(lines, s.commandLines(t, append(path[:len(path):len(path)], name)...)...)
			}
		}
		return lines
	}
	m := usageLine.FindStringSubmatch(help)
	if m == nil {
		t.Fatalf("tipstaff %s has no usage:\n%s", strings.Join(path, " "), help)
	}
	words := strings.Fields(strings.TrimPrefix(m[1], "tipstaff "+strings.Join(path, " ")))
	if len(words) == 0 || strings.HasPrefix(words[0], "[") {
		lines = append(lines, path)
	}
	if len(words) > 0 {
		line := path[:len(path):len(path)]
		for _, word := range words {
			line = append(line, argument(strings.Trim(word, "[].")))
		}
		lines = append(lines, line)
	}
	return lines
}

// argument stands for what a usage line calls so.
func argument(name string) string {
	if value, ok := map[string]string{"RUN": "@", "GATE": "root/ok", "ACTION": "approve", "PLAN": "small.yaml", "PROGRAM": "small.yaml", "FILE": "small.yaml", "DEST": "copied", "DIR": "written",
		"OLD": "small.yaml", "NEW": "small.yaml", "FROM": ".", "TO": "target"}[name]; ok {
		return value
	}
	return "something"
}

// TestEveryCommandInEveryFolder performs all commands in folders in which nothing was run,
// and over stores that are not what they should be. None panics or fails by a fault of its own,
// and one that cannot do what it is asked for says what to do.
func TestEveryCommandInEveryFolder(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := newStop()
	kept := t.TempDir() // a workspace with a run that waits
	store, err := sqlite.Open(filepath.Join(kept, storeFolder), &sqlite.Options{UserKey: true})
	if err != nil {
		t.Fatal(err)
	}
	id := tipstaff.NewID(time.Now()).String()
	if err := store.Create(t.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, storetest.Begun(store.Keys())); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(storeFolder, "tipstaff.db")
	lines := s.commandLines(t)
	if len(lines) < 50 {
		t.Fatalf("there are %d command lines: %v", len(lines), lines)
	}
	for name, c := range map[string]struct {
		prepare func(w *workspace)
		code    string // of the error of commands that need the store; "": none does
	}{
		"nothing":        {func(*workspace) {}, ""},
		"after init":     {func(w *workspace) { w.Check(os.Chmod(w.Dir, 0o755)); s.invoke(t, "init", w.Dir) }, ""},
		"an empty store": {func(w *workspace) { w.Check(os.MkdirAll(w.Path(storeFolder), 0o700)) }, ""},
		"of a newer one": {func(w *workspace) { w.keep(kept); w.sql(`PRAGMA user_version = 999`) }, "format_newer"},
		"of another one": {func(w *workspace) {
			w.Check(os.MkdirAll(w.Path(storeFolder), 0o700))
			w.sql(`CREATE TABLE t (x)`)
			w.sql(`PRAGMA application_id = 7`)
		}, "store_unavailable"},
		"no database":      {func(w *workspace) { w.keep(kept); w.Write(db, strings.Repeat("no database ", 1000)) }, "store_unavailable"},
		"half copied":      {func(w *workspace) { w.keep(kept); w.Check(os.Truncate(w.Path(db), 20_000)) }, "store_unavailable"},
		"without its keys": {func(w *workspace) { w.keep(kept); w.Check(os.RemoveAll(w.Path(storeFolder, "keys"))) }, ""},
		"keys for others":  {func(w *workspace) { w.keep(kept); w.Check(os.Chmod(w.Path(storeFolder, "keys", "user.key"), 0o644)) }, "store_unavailable"},
		"no folder":        {func(w *workspace) { w.Write(storeFolder, "") }, "store_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s.everyCommand(t, lines, c.code, func(w *workspace) []string { c.prepare(w); return nil })
		})
	}
}

// remedy is what a message says that can be done, where it has no hint.
var remedy = regexp.MustCompile(`[:;,] (check|create|end|give|give back|make|move|put|raise|restart|restore|run|see|set|start|tipstaff doctor says|try|use) [a-z]`)

// everyCommand performs commands, each in a workspace of its own, with what prepare returns. code
// is of the error of those that need the store; "": none does.
func (s *stop) everyCommand(t *testing.T, lines [][]string, code string, prepare func(*workspace) []string) {
	if _, err := cmdtest.Released(); err != nil { // which is built where the code is
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, line := range lines {
		w := newWorkspace(t, small)
		args := append(append(line[:len(line):len(line)], prepare(w)...), "--json", "--workspace", w.Dir)
		t.Chdir(w.Dir)
		var got invoked
		if line[0] == "mcp" { // its client says nothing, and goes; of a store that cannot be opened its tools tell
			r := w.Must(0, args...)
			got = invoked{r.Code, r.Out, r.Err}
		} else {
			got = s.invoke(t, args...)
		}
		told := strings.Join(line, " ")
		if got.code < 0 || got.code > 11 && got.code != 130 {
			t.Errorf("tipstaff %s ends with %d", told, got.code)
		}
		problem := problemOf(got.err)
		met[problem.Code] = true
		switch {
		case problem.Code == string(tipstaff.Internal):
			t.Errorf("tipstaff %s fails by itself:\n%s", told, got.err)
		case line[0] == "serve" && problem.Code != code:
			t.Errorf("tipstaff %s says %q, want %q: %s", told, problem.Code, code, got.err)
		case got.code == 3 && got.out == "" && problem.Hint == "" && !remedy.MatchString(problem.Message):
			t.Errorf("tipstaff %s does not say what to do: %s", told, got.err)
		}
	}
	if code != "" && !met[code] {
		t.Errorf("no command says %s: %v", code, met)
	}
}

// TestEveryCommandOverADatabase performs all commands over databases that are not what they
// should be, or are not there.
func TestEveryCommandOverADatabase(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := newStop()
	lines := s.commandLines(t)
	schema := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("search_path")
	}
	foreign, newer := database(t), database(t)
	psql(t, foreign, `CREATE SCHEMA `+schema(foreign)+`; CREATE TABLE runs (x int)`)
	newWorkspace(t, manifest, small).Must(0, "run", "small.yaml", "--store", newer)
	psql(t, newer, `UPDATE format SET version = 999`)
	for name, c := range map[string]struct{ address, code string }{
		"of another program": {foreign, "store_unavailable"},
		"of a newer version": {newer, "format_newer"},
		"that is not there":  {"postgres://tipstaff@127.0.0.1:1/nowhere", "store_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s.everyCommand(t, lines, c.code, func(*workspace) []string { return []string{"--store", c.address} })
		})
	}
}

// keep gives the workspace the store of another.
func (w *workspace) keep(from string) {
	w.Helper()
	w.Check(os.CopyFS(w.Dir, os.DirFS(from)))
	w.tighten()
}

// problem is an error as --json tells it.
type problem struct{ Code, Message, Hint string }

func problemOf(text string) problem {
	var told struct{ Error problem }
	for line := range strings.Lines(text) {
		if json.Unmarshal([]byte(line), &told) == nil && told.Error.Code != "" {
			return told.Error
		}
	}
	return problem{}
}

// TestCommandsThatLookDoWithoutExposedKeys: keys that others may have read sign nothing, and to
// look signs nothing.
func TestCommandsThatLookDoWithoutExposedKeys(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small)
	w.Must(0, "run", "small.yaml")
	w.Check(os.Chmod(w.Path(storeFolder, "keys", "user.key"), 0o644))
	for _, args := range [][]string{{"ls"}, {"show", "@"}, {"events", "@"}, {"verify", "@"}, {"decide"}} {
		if r := w.Must(0, args...); strings.Count(r.Err, "warning: ") != 1 || !strings.Contains(r.Err, "chmod 0600") {
			t.Errorf("it does not warn once, with what to do\n%v", r)
		}
	}
	w.Must(3, "run", "small.yaml").Says(t, "chmod 0600")
	w.Check(os.Chmod(w.Path(storeFolder, "keys", "user.key"), 0o600))
	if r := w.Must(0, "ls"); r.Err != "" {
		t.Errorf("it goes on to warn\n%v", r)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"
)

// TestScripts runs the transcripts in testdata/script, one for each topic of the
// command line. Beside the commands of testscript they have:
//
//	exits CODE ARGS…      run tipstaff and want this exit code
//	members LINE NAME…    the line of stdout (1, 2, … or last) is a JSON object with exactly these members
//	setrun NAME           set NAME to the id of the newest run
//	records KIND N        the newest run has this many records of the kind
//	setsession NAME       set NAME to the session that stderr tells how to go on with
//	setgate NAME          set NAME to the key of the one gate of the run that stdout holds
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               giveManifest,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   cmdExits,
			"members": cmdMembers,
			"setrun":  cmdSetRun,
			"records": cmdRecords,

			"setsession": cmdSetSession,
			"setgate":    cmdSetGate,
		},
	})
}

// giveManifest writes the usual manifest for scripts that bring none.
func giveManifest(env *testscript.Env) error {
	env.Setenv("TIPSTAFF_TRUST", "1") // as cmdtest has it; a script that is about trust takes it away
	name := filepath.Join(env.WorkDir, "tipstaff.yaml")
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	return os.WriteFile(name, txtar.Parse([]byte(manifest)).Files[0].Data, 0o644)
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [ARGS…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("tipstaff", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("tipstaff: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func cmdMembers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: members LINE NAME…")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	at := len(lines)
	if args[0] != "last" {
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		at = n
	}
	if at < 1 || at > len(lines) {
		ts.Fatalf("there is no line %s", args[0])
	}
	var object map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(lines[at-1]), &object))
	got := slices.Sorted(maps.Keys(object))
	want := slices.Sorted(slices.Values(args[1:]))
	if !slices.Equal(got, want) {
		ts.Fatalf("members %v\nwant    %v", got, want)
	}
}

func cmdSetRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: setrun NAME")
	}
	ts.Check(ts.Exec("tipstaff", "show", "@", "--json"))
	var run shown
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &run))
	ts.Setenv(args[0], run.ID)
}

func cmdRecords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: records KIND N")
	}
	ts.Check(ts.Exec("tipstaff", "events", "@", "--json"))
	n := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var r record
		ts.Check(json.Unmarshal([]byte(line), &r))
		if r.Kind == args[0] {
			n++
		}
	}
	if strconv.Itoa(n) != args[1] {
		ts.Fatalf("%d records of kind %s, want %s", n, args[0], args[1])
	}
}

var sessionTold = regexp.MustCompile(`tipstaff chat --session ([0-9A-Z]{26})`)

func cmdSetSession(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: setsession NAME")
	}
	told := sessionTold.FindStringSubmatch(ts.ReadFile("stderr"))
	if told == nil {
		ts.Fatalf("stderr names no session")
	}
	ts.Setenv(args[0], told[1])
}

func cmdSetGate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: setgate NAME")
	}
	var run shown
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &run))
	if len(run.OpenGates) != 1 {
		ts.Fatalf("%d gates are open", len(run.OpenGates))
	}
	ts.Setenv(args[0], run.OpenGates[0].Key)
}

package mcp

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// patience is how long any one command may take before it counts as hanging.
const patience = 2 * time.Minute

// workspace is a folder with a manifest and plans, and the command run in it.
type workspace struct {
	*cmdtest.Folder
	installation
}

// newWorkspace skips the test where the servers are not installed.
func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	w := &workspace{installation: installed(t)}
	w.Folder = cmdtest.New(t, command, patience)
	t.Cleanup(func() {
		if left := w.servers(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
			end(left)
		}
	})
	return w
}

// files writes the files of a txtar archive.
func (w *workspace) files(archive string) *workspace {
	w.Helper()
	w.Unpack(archive)
	return w
}

// pin accepts what the servers list now, which is then what tools list shows.
func (w *workspace) pin() *workspace {
	w.Helper()
	w.Must(0, "tools", "pin", "--yes")
	listed := w.Must(0, "tools", "list").Out
	var lock struct {
		Servers map[string]struct {
			Tools map[string]json.RawMessage
		}
	}
	w.Check(json.Unmarshal([]byte(w.Read("tipstaff.lock")), &lock))
	for server, s := range lock.Servers {
		for tool := range s.Tools {
			if line := regexp.MustCompile(`(?m)^mcp://` + regexp.QuoteMeta(server+"/"+tool) + `@.* locked$`); !line.MatchString(listed) {
				w.Errorf("%s/%s is locked, and tools list says:\n%s", server, tool, listed)
			}
		}
	}
	return w
}

// outputs runs a plan, which must succeed, and decodes what it gives.
func (w *workspace) outputs(plan string, into any) {
	w.Helper()
	w.Must(0, "run", plan, "--unattended")
	w.shown(into)
}

// shown decodes the outputs of the newest run, which must have completed and must
// bear looking at.
func (w *workspace) shown(into any) {
	w.Helper()
	s := w.show()
	if s.State != "completed" || s.Outcome != "success" {
		w.Errorf("the run is %s, %s", s.State, s.Outcome)
	}
	if err := json.Unmarshal(s.Outputs, into); err != nil {
		w.Fatalf("outputs %s: %v", cmdtest.Clip(string(s.Outputs)), err)
	}
	w.Must(0, "verify", "@")
	w.Must(0, "replay", "@")
}

// status is what the tests read of show --json.
type status struct {
	State     string          `json:"state"`
	Outcome   string          `json:"outcome"`
	Outputs   json.RawMessage `json:"outputs"`
	OpenGates []struct {
		Key string `json:"key"`
	} `json:"open_gates"`
}

// show is the newest run.
func (w *workspace) show() status {
	w.Helper()
	var s status
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", "@", "--json").Out), &s))
	return s
}

// record is one line of a run's journal.
type record struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	Path string    `json:"path"`
	Body struct {
		Class    string  `json:"class"`
		Progress float64 `json:"progress"`
		Error    struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"body"`
}

// journal is the records of the newest run that have a kind and, if some are given,
// one of the paths.
func (w *workspace) journal(kind string, paths ...string) []record {
	w.Helper()
	return w.ofKind(kind, w.Must(0, "events", "@", "--json").Out, paths...)
}

// ofKind is those of the records in an output that have a kind.
func (w *workspace) ofKind(kind, out string, paths ...string) []record {
	w.Helper()
	var found []record
	for line := range strings.Lines(out) {
		var r record
		w.Check(json.Unmarshal([]byte(line), &r))
		if r.Kind == kind && (len(paths) == 0 || slices.Contains(paths, r.Path)) {
			found = append(found, r)
		}
	}
	return found
}

// failure is how a node of the newest run failed.
func (w *workspace) failure(path string) record {
	w.Helper()
	steps := w.journal("plan.step", path)
	if len(steps) != 1 || steps[0].Body.Error.Code == "" {
		w.Fatalf("%s did not fail: %+v", path, steps)
	}
	return steps[0]
}

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lines of a key that a worker prints one by one, where no program would look for the whole.
var keyLines = []string{"-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "-----END PRIVATE KEY-----"}

func init() {
	parts["tells a key line by line"] = func(f *fake) {
		f.begin()
		for _, line := range strings.Split(strings.TrimSpace(os.Getenv("ANTHROPIC_API_KEY")), "\n") {
			fmt.Fprintln(os.Stderr, line)
			f.text("it has " + line)
			f.call("task_log", map[string]string{"text": line})
		}
		f.report()
		f.end()
	}
}

// They are in no log, record or answer.
func TestLinesOfAKeyStayOut(t *testing.T) {
	t.Parallel()
	w := newFake(t, "tells a key line by line")
	w.Env = append(w.Env, "ANTHROPIC_API_KEY="+strings.Join(keyLines, "\n")+"\n")
	r := w.Must(0, "run", "plan.yaml", "--unattended")
	run := w.runs()[0]
	all := r.Out + r.Err + w.Must(0, "events", run, "--json").Out + w.Must(0, "show", run, "--json").Out + w.Must(0, "sessions", "--all", "--json").Out
	w.Check(filepath.WalkDir(w.Path(".tipstaff"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, _ := os.ReadFile(name)
			all += string(b)
		}
		return err
	}))
	for _, line := range keyLines[1:3] {
		if strings.Contains(all, line) {
			t.Errorf("%s is told", line)
		}
	}
	if strings.Count(all, "$env:ANTHROPIC_API_KEY") < 6 {
		t.Error("nothing was replaced")
	}
	w.nothingRuns()
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func init() {
	parts["complains and hangs"] = func(f *fake) { // once
		if f.n > 1 {
			f.honest()
			return
		}
		f.begin()
		fmt.Fprintln(os.Stderr, "first\nthe disk is \x1b[2Jfull")
		time.Sleep(forever)
	}
}

// A worker that was broken off goes on by itself if that is configured, and it works in a
// worktree. Elsewhere somebody is asked, and shown what the worker wrote last.
func TestInterruptedWorkerGoesOn(t *testing.T) {
	t.Parallel()
	for files, asked := range map[string]bool{"worktree": false, "checkout": true, "none": true} {
		t.Run(files, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "complains and hangs")
			w.configure("posture: read_only", "posture: read_only, on_interrupt: resume")
			w.Write("plan.yaml", w.Read("plan.yaml")+"files: "+files+"\n")
			w.git()
			p := w.Start("run", "plan.yaml", "--unattended")
			w.Until("what it wrote, and its session, without which it would begin anew", func() bool {
				logs, _ := filepath.Glob(w.Path(".tipstaff/runs/*/workers/*.stderr"))
				if len(logs) != 1 {
					return !p.Running()
				}
				wrote, _ := os.ReadFile(logs[0])
				return strings.Contains(string(wrote), "full") && strings.Contains(w.Must(0, "sessions", "--kind", "worker", "--json").Out, `"session_id":"`) || !p.Running()
			})
			p.Kill()
			r := w.Run("resume", "@", "--unattended")
			if asked {
				if r.Code != 4 || !strings.Contains(r.Err, "| first\n") || !strings.Contains(r.Err, `| the disk is \u001b[2Jfull`) || w.starts() != 1 {
					t.Fatalf("%d starts: %v", w.starts(), r)
				}
				if said := w.Must(0, "show", "@", "--json").Out; !strings.Contains(said, `| the disk is \\u001b[2Jfull`) {
					t.Error(said)
				}
				w.Must(0, "decide", "@", "root/worker#1/in_doubt", "retry")
				r = w.Run("resume", "@", "--unattended")
			}
			if r.Code != 0 || w.starts() != 2 || strings.Join(w.outcomes("@"), " ") != "reported" || !strings.Contains(w.Read("bin/notes"), "resumed=true") {
				t.Errorf("%d starts, %s: %v", w.starts(), w.Read("bin/notes"), r)
			}
			w.Must(0, "verify", "@")
			w.nothingRuns()
		})
	}
}

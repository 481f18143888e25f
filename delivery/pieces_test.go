package delivery

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

// broken makes something else of what lies at a path.
var broken = map[string]func(path string) error{
	"removed": os.RemoveAll,
	"emptied": func(path string) error {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !info.IsDir():
			return errors.Join(err, os.Truncate(path, 0))
		}
		return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700))
	},
	"shut": func(path string) error { return ignoreMissing(os.Chmod(path, 0)) },
}

// Whatever goes of a worktree and of what lies beside it, and whenever: the run asks, and does
// what is decided or asks again and says why. It never ends by that.
func TestPiecesOfAWorktree(t *testing.T) {
	pieces := []string{"/.git", ".git", ".objects", ".index", ""} // after its path: what lies in it comes first
	sets := [][]string{pieces, pieces[1:3], pieces[2:]}
	for i := range pieces {
		sets = append(sets, pieces[i:i+1])
	}
	if !testing.Short() {
		sets = nil
		for bits := 1; bits < 1<<len(pieces); bits++ {
			var set []string
			for i, piece := range pieces {
				if bits>>i&1 == 1 {
					set = append(set, piece)
				}
			}
			sets = append(sets, set)
		}
	}
	const beforeGate, beforeLook, beforeResume = "before the gate", "before somebody looks", "before the resume"
	for how, change := range broken {
		for _, set := range sets {
			for _, when := range []string{beforeGate, beforeLook, beforeResume} {
				for _, action := range []string{tipstaff.DeliverApprove, tipstaff.DeliverApply, tipstaff.DeliverFix, tipstaff.DeliverSkip} {
					// Skip and fix do nothing but close the gate.
					if testing.Short() && (len(set) == 1 && how == "shut" || when == beforeLook || action == tipstaff.DeliverFix || action == tipstaff.DeliverSkip && when != beforeGate) {
						continue
					}
					t.Run(strings.Join([]string{how, strings.Join(set, ","), when, action}, " "), func(t *testing.T) {
						t.Parallel()
						p := newPlay(t, &document.Deliver{Checks: []document.DeliverCheck{check("test")}})
						path := filepath.Join(filepath.Dir(p.dir), "state", runID)
						t.Cleanup(func() { _ = removeAll(filepath.Dir(path)) })
						breaks := func(at string) {
							for _, piece := range set {
								if when == at {
									must(p.bed, change(path+piece))
								}
							}
						}
						act := p.acts[ActCommit]
						commit, first := act.Run, true
						act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
							if first {
								breaks(beforeGate)
							}
							first = false
							return commit(ctx, a)
						}
						p.acts[ActCommit] = act
						r := p.open()
						parked := func(out flow.Outcome, gate string) []string {
							if out.Status != flow.ParkedRun {
								t.Fatalf("%s: the run has ended: %+v", gate, out)
							}
							now, err := r.Look(context.Background(), p.subject(gate))
							must(p.bed, err)
							return tipstaff.Unblocked(now.Blocked)
						}
						if out := p.drive(); out.Status != flow.ParkedRun {
							t.Fatalf("it has ended before the gate: %+v", out)
						}
						breaks(beforeLook)
						open := parked(flow.Outcome{Status: flow.ParkedRun}, "delivery#1")
						breaks(beforeResume)
						if !slices.Contains(open, tipstaff.DeliverSkip) {
							t.Errorf("only these are open: %v", open)
						}
						// It is decided even so: as if what is in the way had come after.
						p.decide("delivery#1", action)
						out := p.drive()
						if out.Status == flow.Completed {
							return
						}
						open = parked(out, "delivery#2")
						if s := p.subject("delivery#2"); len(s.Notices) == 0 || s.Notices[0].Code != CodeHindered ||
							!strings.Contains(s.Notices[0].Message, tipstaff.BlockWorktree) && !strings.Contains(s.Notices[0].Message, tipstaff.BlockUnreadable) {
							t.Errorf("it does not say why: %+v", s.Notices)
						}
						if !slices.Contains(open, action) {
							action = tipstaff.DeliverSkip
						}
						p.decide("delivery#2", action)
						if out := p.drive(); out.Status != flow.Completed {
							t.Errorf("%s at delivery#2: %+v, %+v", action, out, p.subject("delivery#3").Notices)
						}
					})
				}
			}
		}
	}
}

// A credential that became known when the gate was open is not handed over either, and where a
// gate has no commit for that reason it is said as that.
func TestACredentialThatBecameKnown(t *testing.T) {
	for _, action := range []string{tipstaff.DeliverApprove, tipstaff.DeliverApply} {
		for when, atGate := range map[string]bool{"after the gate": false, "before it": true} {
			t.Run(action+" "+when, func(t *testing.T) {
				t.Parallel()
				p := changing(t, func(p *play, dir string) { p.puts(dir, "src/new.txt", "key = "+apiKey+"\n") })
				known := redact.New(map[string]string{"API_KEY": apiKey})
				if atGate {
					p.known = known
				}
				p.drive()
				before := everything(p.bed, p.dir)
				p.known = known
				p.decide("delivery#1", action)
				p.drive()
				s := p.subject("delivery#2")
				if got := blocked(s); got != "approve:secret_in_diff apply:secret_in_diff" || s.Commit != "" || !strings.Contains(s.Notices[0].Message, "secret_in_diff (src/new.txt)") {
					t.Errorf("%s; commit %q; %+v", got, s.Commit, s.Notices)
				}
				if names := changedNames(before, everything(p.bed, p.dir)); len(names) > 0 {
					t.Errorf("it has changed %v", names)
				}
			})
		}
	}
}

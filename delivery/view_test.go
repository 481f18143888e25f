package delivery

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Events and Artifact make a play something that projections can read.
func (p *play) Events(context.Context, tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		for _, r := range p.log.Records(runID) {
			if !yield(tipstaff.Event{Kind: tipstaff.Kind(r.Kind), Seq: r.Seq, At: r.At, Path: r.Path, Body: r.Body}, nil) {
				return
			}
		}
	}
}

func (p *play) Artifact(_ context.Context, _ tipstaff.ID, digest string) ([]byte, error) {
	if data, ok := p.blobs[digest]; ok {
		return data, nil
	}
	return nil, tipstaff.Errorf(tipstaff.ArtifactNotFound, "%s", digest)
}

func (p *play) view() tipstaff.DeliveryState {
	p.t.Helper()
	s, err := tipstaff.DeliveryView(context.Background(), p, tipstaff.Run{HeadSeq: 1 << 40}, func(path string) bool { _, err := os.Stat(path); return err == nil })
	must(p.bed, err)
	return s
}

func TestDeliveryView(t *testing.T) {
	p := newPlay(t, &document.Deliver{Paths: []string{"src/**"}, Checks: []document.DeliverCheck{check("test")}})
	if s := p.view(); s.Kind != tipstaff.DeliveryNone || s.Worktree != nil {
		t.Errorf("%+v", s)
	}
	p.drive()
	s := p.view()
	if s.Kind != tipstaff.DeliveryAsks || s.Gate != p.gate("delivery#1").ID || s.Key != "delivery#1" || s.DefaultAction != "fix" || !*s.Worktree.Present ||
		len(s.Available) != 3 || len(s.Blocked) != 2 || strings.Join(s.ScopeViolations, " ") != "README" || len(s.Checks) != 1 ||
		strings.Join(s.Diff.Paths, " ") != "README src/b.txt src/new.txt" || strings.Join(s.Diff.Untracked, " ") != "src/new.txt" || s.Diff.Truncated {
		t.Errorf("%+v", s)
	}
	shown := tipstaff.Subject(p.gate("delivery#1"))
	if all := strings.Join(shown.Lines, "\n"); !shown.Whole || !strings.HasPrefix(all, "changed: 3 files, +2 −2 lines\n  modified README  +1 −1\n  deleted  src/b.txt  +0 −1\n  added    src/new.txt  +1 −0  (not added to git)\nbase: "+s.Base+"\ncommit: "+s.Commit) ||
		!strings.Contains(all, "check test: test  passed") || !strings.Contains(all, "approve is blocked, scope_violation: files outside the paths of the delivery were changed: README") {
		t.Error(all)
	}
	if lines := strings.Join(s.Lines(), "\n"); !strings.Contains(lines, "skip: nothing is delivered") || !strings.Contains(lines, "src/new.txt  (not added to git)") {
		t.Error(lines)
	}
	p.decide("delivery#1", "skip")
	if s := p.view(); s.Kind != tipstaff.DeliveryDecided || s.Decision.Action != "skip" || len(s.Available) != 0 {
		t.Errorf("%+v", s)
	}
	p.drive()
	if s := p.view(); s.Kind != tipstaff.DeliveryCompleted || s.Outcome != "skipped" {
		t.Errorf("%+v", s)
	}

	p = newPlay(t, &document.Deliver{Release: "false"})
	p.spec.Release = func(Produced) (bool, error) { return false, nil }
	p.drive()
	if s := p.view(); s.Kind != tipstaff.DeliveryAsksToFix || s.Release != "rejected" {
		t.Errorf("%+v", s)
	}
	p.decide("delivery#1", "halt")
	if s := p.view(); s.Kind != tipstaff.DeliveryCompleted || s.Outcome != "halted" {
		t.Errorf("%+v", s)
	}

	p = newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "approve")
	p.drive()
	if s := p.view(); s.Kind != tipstaff.DeliveryCompleted || s.Outcome != "committed" || s.Branch != Branch(runID, "Fix it") || *s.Worktree.Present {
		t.Errorf("%+v", s)
	}

	p = newPlay(t, &document.Deliver{})
	p.work = func(string) {}
	p.drive()
	if s := p.view(); s.Kind != tipstaff.DeliveryCompleted || s.Outcome != "empty" {
		t.Errorf("%+v", s)
	}
}

func TestDiffOfARun(t *testing.T) {
	p := newPlay(t, nil)
	if d, err := tipstaff.Diff(context.Background(), p, tipstaff.DiffRequest{}); err != nil || d.Found {
		t.Errorf("%+v: %v", d, err)
	}
	p.write("long", strings.Repeat("a line\n", 100))
	p.user("add", "-A")
	p.user("commit", "-qm", "long")
	p.spec.Base = p.user("rev-parse", "HEAD")
	p.work = func(dir string) {
		must(p.bed, os.Rename(dir+"/long", dir+"/src/long"))
		remove(p.bed, dir+"/README")
		must(p.bed, os.Symlink("src", dir+"/README")) // two parts in a patch
		writeFile(t, dir+"/new", strings.Repeat("größer\n", 60))
		writeFile(t, dir+"/src/a.txt", "diff --git a/x b/x\n")
	}
	p.drive()
	for _, c := range []struct {
		req   tipstaff.DiffRequest
		files string
		texts string // what the text has, and with ! what it has not
		cut   bool
	}{
		{tipstaff.DiffRequest{}, "README new src/a.txt src/long", "", false},
		{tipstaff.DiffRequest{Mode: "stat", Path: "src"}, "src/a.txt src/long", "", false},
		{tipstaff.DiffRequest{Mode: "full"}, "README new src/a.txt src/long", "new file mode 120000|+größer|+diff --git a/x b/x|rename to src/long", false},
		{tipstaff.DiffRequest{Mode: "preview"}, "README new src/a.txt src/long", "+größer|rename to src/long", true},
		{tipstaff.DiffRequest{Mode: "full", Path: "new"}, "new", "+größer|!README|!rename", false},
		{tipstaff.DiffRequest{Mode: "full", Path: "long"}, "src/long", "rename from long|!größer", false},
		{tipstaff.DiffRequest{Mode: "full", Path: "src/"}, "src/a.txt src/long", "!größer|rename", false},
		{tipstaff.DiffRequest{Mode: "full", Path: "README"}, "README", "deleted file mode 100644|new file mode 120000|!größer", false},
		{tipstaff.DiffRequest{Mode: "full", Path: "sr"}, "", "!rename", false},
	} {
		d, err := tipstaff.Diff(context.Background(), p, c.req)
		if must(p.bed, err); !d.Found || d.Truncated != c.cut {
			t.Errorf("%+v: %+v", c.req, d)
		}
		var names []string
		for _, f := range d.Files {
			names = append(names, f.Path)
		}
		if strings.Join(names, " ") != c.files {
			t.Errorf("%+v: files %v", c.req, names)
		}
		for want := range strings.SplitSeq(c.texts, "|") {
			not, absent := strings.CutPrefix(want, "!")
			if strings.Contains(d.Text, not) == absent && want != "" {
				t.Errorf("%+v: %q\n%s", c.req, want, d.Text)
			}
		}
	}
	whole, err := tipstaff.Diff(context.Background(), p, tipstaff.DiffRequest{Mode: "full"})
	must(p.bed, err)
	for n := 1; n < len(whole.Text); n += 13 { // also in the middle of a letter
		d, err := tipstaff.Diff(context.Background(), p, tipstaff.DiffRequest{Mode: "full", Max: n})
		if must(p.bed, err); len(d.Text) > n || !strings.HasPrefix(whole.Text, d.Text) || !d.Truncated || len(d.Text) < n-3 {
			t.Fatalf("%d: %d bytes", n, len(d.Text))
		}
	}
	for _, req := range []tipstaff.DiffRequest{{Mode: "all"}, {Max: -1}, {Max: 2_000_001}} {
		if _, err := tipstaff.Diff(context.Background(), p, req); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if d, err := tipstaff.Diff(context.Background(), p, tipstaff.DiffRequest{Stage: "implement#1"}); err != nil || d.Found {
		t.Errorf("another stage was shown: %v", err)
	}
}

// What is shown of a gate with many files is cut, and says so.
func TestManyFilesAreShownInPart(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.work = func(dir string) {
		for i := range 250 {
			writeFile(t, fmt.Sprintf("%s/f%03d", dir, i), "x\n")
		}
	}
	p.drive()
	s := p.subject("delivery#1")
	if s.Files != 250 || len(s.Paths) != maxListed || !p.view().Diff.Truncated {
		t.Errorf("%d of %d", len(s.Paths), s.Files)
	}
	g := p.gate("delivery#1")
	part, whole := tipstaff.Subject(g), tipstaff.WholeSubject(g)
	if part.Whole || len(part.Lines) > 80 || len(whole.Lines) < maxListed || !slices.ContainsFunc(whole.Lines, func(l string) bool { return strings.Contains(l, "50 more files") }) {
		t.Errorf("%v, %d and %d lines", part.Whole, len(part.Lines), len(whole.Lines))
	}
}

var _ tipstaff.DiffReader = (*play)(nil)

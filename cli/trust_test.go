package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// fakeTrust is a record in which one workspace can be trusted.
type fakeTrust struct {
	now      tipstaff.FolderTrust
	recorded []string // digests of the lists
	all      bool
}

func (f *fakeTrust) Of(string) (tipstaff.FolderTrust, error) { return f.now, nil }

func (f *fakeTrust) Record(shown tipstaff.FolderTrust) error {
	f.recorded, f.now.Trusted = append(f.recorded, shown.Digest), true
	return nil
}

func (f *fakeTrust) Locked(string) error                   { return nil }
func (f *fakeTrust) Revoke(string) (bool, error)           { return f.now.Trusted, nil }
func (f *fakeTrust) List() ([]tipstaff.FolderTrust, error) { return nil, nil }
func (f *fakeTrust) Everywhere() error                     { f.all = true; return nil }

// untrusted is a bench whose workspace would start a server, and refuses to before it is trusted.
func untrusted(t *testing.T) (*bench, *fakeTrust, *int) {
	b := newBench(t)
	f := &fakeTrust{now: tipstaff.FolderTrust{Workspace: "/w", Starts: []string{"server \x1b[2Ks starts run"}, Why: "nobody has said so", Digest: "d"}}
	b.env.Trust = f
	starts := 0
	b.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		starts++
		if !f.now.Trusted {
			return tipstaff.Started{}, f.now.Refusal()
		}
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.Busy, "it went on")
	}
	return b, f, &starts
}

func TestARefusedCommandBeginsAnewWhenItsFolderIsTrusted(t *testing.T) {
	b, f, starts := untrusted(t)
	b.env.StdinTTY, b.env.StderrTTY, b.env.Stdin = true, true, strings.NewReader("yes\n")
	file := planFile(t)
	if code := Main(context.Background(), []string{"run", file, "--input", "a=1"}, b.env); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if *starts != 2 || len(f.recorded) != 1 || b.closed == 0 {
		t.Errorf("%d starts, recorded %v", *starts, f.recorded)
	}
	told := b.err.String()
	if !strings.Contains(told, `server \u001b[2Ks starts run`) || strings.Contains(told, "is not trusted") || !strings.Contains(told, "it went on") {
		t.Errorf("it says\n%s", told)
	}
}

func TestWithoutAClearYesNothingIsTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		tty   bool
		typed string
		args  []string
	}{
		"no":                {true, "no\n", nil},
		"silence":           {true, "", nil},
		"nonsense":          {true, "\nmaybe\nsure\nok\n", nil},
		"nobody there":      {false, "yes\n", nil},
		"unattended":        {true, "yes\n", []string{"--unattended"}},
		"for a program":     {true, "yes\n", []string{"--json"}},
		"yes for the gates": {false, "", []string{"--yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, f, starts := untrusted(t)
			b.env.StdinTTY, b.env.StderrTTY, b.env.Stdin = c.tty, c.tty, strings.NewReader(c.typed)
			if code := Main(context.Background(), append([]string{"run", planFile(t)}, c.args...), b.env); code != 3 {
				t.Errorf("exit code %d", code)
			}
			if *starts != 1 || f.recorded != nil || f.all {
				t.Errorf("%d starts, recorded %v", *starts, f.recorded)
			}
			if !strings.Contains(b.err.String(), "tipstaff trust --workspace /w") {
				t.Errorf("it does not say what to do:\n%s", b.err.String())
			}
		})
	}
}

func TestTheFlagTrustsEveryFolder(t *testing.T) {
	b, f, _ := untrusted(t)
	Main(context.Background(), []string{"run", planFile(t), "--trust"}, b.env)
	if !f.all {
		t.Error("--trust is not obeyed")
	}
}

func TestAChangedListIsShownAsADifference(t *testing.T) {
	var b strings.Builder
	printTrust(&b, tipstaff.FolderTrust{Workspace: "/w", Starts: []string{"a", "c"}, Was: []string{"a", "b"}}, false)
	if want := "what /w would start or send has changed since you trusted it:\n  - b\n    a\n  + c\n"; b.String() != want {
		t.Errorf("it shows\n%s", b.String())
	}
}

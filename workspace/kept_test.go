package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

// TestWhatIsKeptForTheUserIsNotForTools: a root that contains that folder reaches all but it.
func TestWhatIsKeptForTheUserIsNotForTools(t *testing.T) {
	home := t.TempDir()
	state := filepath.Join(home, ".local", "state", "tipstaff")
	for _, name := range []string{"trust", "serve.token", "worktrees/run/file", "worktrees/run.git/config"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(state, name)), 0o755), os.WriteFile(filepath.Join(state, name), []byte("text"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(state, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	p := workspace.Protect(nil, workspace.Around{Dir: home, State: state})
	const in = ".local/state/tipstaff/"
	for _, path := range []string{in + "trust", in + "serve.token", in + "new/token", "link/trust", "link/new", strings.ToUpper(in) + "TRUST", in + "worktrees/run.git/config", in + "worktrees/run.objects/info/x"} {
		if why, protected := p.Protected(path); !protected {
			t.Errorf("%s is written: %v", path, why)
		}
	}
	for _, path := range []string{in + "trust", in + "serve.token", "link/serve.token", in + "worktrees/run.git/config"} {
		if _, hidden := p.Hidden(path); !hidden {
			t.Errorf("%s is read", path)
		}
	}
	for _, path := range []string{in + "worktrees/run/file", ".local/state/other", "file"} {
		if why, protected := p.Protected(path); protected {
			t.Errorf("%s is not written: %s", path, why)
		}
	}
}

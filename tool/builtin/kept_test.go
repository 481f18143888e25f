package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWhatIsKeptForTheUserIsNotForTools: a root that contains that folder reaches all but it.
func TestWhatIsKeptForTheUserIsNotForTools(t *testing.T) {
	home := t.TempDir()
	state := filepath.Join(home, ".local", "state", "tipstaff")
	for _, name := range []string{"trust", "serve.token", "worktrees/run/file"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(state, name)), 0o755), os.WriteFile(filepath.Join(state, name), []byte("text"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(state, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Workspace: home, Roots: []string{"."}, State: state})
	writes := func(path string) error {
		_, err := s.writeFile(call{}, writeFileArgs{Path: path, Content: "x"})
		return err
	}
	const in = ".local/state/tipstaff/"
	for _, path := range []string{in + "trust", in + "serve.token", in + "new/token", "link/trust", "link/new"} {
		if err := writes(path); !errors.Is(err, errOwnFolder) {
			t.Errorf("%s is written: %v", path, err)
		}
	}
	for _, path := range []string{in + "trust", in + "serve.token", "link/serve.token"} {
		if text, err := reads(s, path); !errors.Is(err, errOwnFolder) {
			t.Errorf("%s is read: %q, %v", path, text, err)
		}
	}
	for _, path := range []string{in + "worktrees/run/file", ".local/state/other", "file"} {
		if err := writes(path); err != nil {
			t.Errorf("%s is not written: %v", path, err)
		}
	}
}

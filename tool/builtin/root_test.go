package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// playground is a workspace with a file in it, in .tipstaff, and in two folders;
// the root is a link to the first of these.
func playground(t *testing.T) (*Server, string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", ownFolder} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name, "file"), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	relink(t, dir, "a", "root")
	return New(Options{Workspace: dir, Roots: []string{"root"}, Protection: ownAlone{}}), dir
}

// ownAlone protects Tipstaff's own folder, and follows links to it.
type ownAlone struct{}

const whyOwn = "it is Tipstaff's own"

func (ownAlone) Hidden(path string) (string, bool) {
	return whyOwn, strings.Contains(followed(path), string(filepath.Separator)+ownFolder)
}

func (p ownAlone) Unwritable(path string) (string, bool) { return p.Hidden(path) }
func (p ownAlone) Protected(path string) (string, bool)  { return p.Hidden(path) }

func isOwn(err error) bool { return err != nil && strings.Contains(err.Error(), whyOwn) }

func relink(t *testing.T, dir, target, name string) {
	t.Helper()
	link := filepath.Join(dir, name)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}

func reads(s *Server, path string) (string, error) {
	a, err := s.readFile(call{}, readFileArgs{Path: path})
	return a.text, err
}

func TestRootThatLeadsElsewhere(t *testing.T) {
	s, dir := playground(t)
	for _, target := range []string{"a", "b", "a"} {
		relink(t, dir, target, "root")
		for range 2 {
			if text, err := reads(s, "file"); text != target || err != nil {
				t.Errorf("the root leads to %s: read %q, %v", target, text, err)
			}
		}
	}
	relink(t, dir, ownFolder, "root")
	if text, err := reads(s, "file"); !isOwn(err) {
		t.Errorf("the root leads to %s: read %q, %v", ownFolder, text, err)
	}
}

func TestRootThatIsMadeAnew(t *testing.T) {
	s, dir := playground(t)
	a, file := filepath.Join(dir, "a"), filepath.Join(dir, "a", "file")
	for range 3 {
		if text, err := reads(s, "file"); text != "a" || err != nil {
			t.Errorf("read %q, %v", text, err)
		}
		if err := os.RemoveAll(a); err != nil {
			t.Fatal(err)
		}
		if text, err := reads(s, "file"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the root is gone: read %q, %v", text, err)
		}
		if err := errors.Join(os.Mkdir(a, 0o755), os.WriteFile(file, []byte("a"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// A link that is made after a path was found to have none is seen by the next call.
func TestLinkThatIsMadeLater(t *testing.T) {
	s, dir := playground(t)
	if err := os.Mkdir(filepath.Join(dir, "a", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.options.Roots = []string{"."}
	if _, err := reads(s, "a/sub/file"); isOwn(err) {
		t.Fatal("there is no link yet")
	}
	if err := os.Remove(filepath.Join(dir, "a", "sub")); err != nil {
		t.Fatal(err)
	}
	relink(t, dir, filepath.Join("..", ownFolder), "a/sub")
	if text, err := reads(s, "a/sub/file"); !isOwn(err) {
		t.Errorf("read %q, %v", text, err)
	}
	if _, err := s.writeFile(call{}, writeFileArgs{Path: "a/sub/new", Content: "x"}); !isOwn(err) {
		t.Errorf("wrote: %v", err)
	}
}

// Where nothing says what is protected, everything is.
func TestNothingIsTouchedWithoutProtection(t *testing.T) {
	_, dir := playground(t)
	s := New(Options{Workspace: dir, Roots: []string{"."}, Programs: []string{"true"}})
	if text, err := reads(s, "a/file"); err == nil {
		t.Errorf("read %q", text)
	}
	if _, err := s.writeFile(call{}, writeFileArgs{Path: "a/new", Content: "x"}); err == nil {
		t.Error("wrote")
	}
	if _, err := s.command(call{}, execArgs{Argv: []string{"true"}}); err == nil {
		t.Error("started")
	}
}

//go:build unix

package golden

import (
	"archive/tar"
	"compress/bzip2"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// generation is a folder of archives with what is frozen in them and what must hold.
type generation struct {
	dir        string
	Workspaces map[string][]expectation
	Env        map[string][]string // by workspace: variables that its manifest refers to
	Exports    []string
	frozen     map[string]frozen // by workspace and name, with a blank between
}

// expectation is an entry of the manifest, which explains its fields.
type expectation struct {
	Name, Is, Status, Killed, Of string
	Taken                        bool
	Then                         [][]any
	End                          end
	Effects                      map[string][]string
	Same                         map[string]string
}

// end is how a run has ended, as show tells it.
type end struct {
	State, Outcome, Reason string
	Outputs                map[string]any
}

// frozen is a line of frozen.txt.
type frozen struct {
	run, head, sum string
	seq            int
}

// ended reports whether a run of the manifest had ended when it was frozen.
func (e expectation) ended() bool { return e.Status == "" }

// verify is the command that finds nothing wrong with a run as it was frozen.
func (e expectation) verify(what string, args ...string) []string {
	args = append([]string{"verify", what}, args...)
	if !e.ended() {
		args = append(args, "--open")
	}
	return args
}

// plain is an end as JSON has it, so that numbers of YAML and of JSON are compared.
func plain(w *workspace, e end) (v any) {
	w.Helper()
	b, err := json.Marshal(e)
	w.Check(err)
	w.Check(json.Unmarshal(b, &v))
	return v
}

// readGeneration reads the manifest and the list of frozen runs, which must name the
// same runs.
func readGeneration(t *testing.T, dir string) *generation {
	t.Helper()
	g := &generation{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.yaml"))
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, g, yaml.Strict())
	}
	if err != nil {
		t.Fatal(err)
	}
	g.frozen = readFrozen(t, dir)
	listed := 0
	for workspace, runs := range g.Workspaces {
		for _, e := range runs {
			if listed++; g.frozen[workspace+" "+e.Name].run == "" {
				t.Errorf("%s: %s %s is not in frozen.txt", dir, workspace, e.Name)
			}
		}
	}
	if listed != len(g.frozen) {
		t.Fatalf("%s: the manifest lists %d runs, frozen.txt %d", dir, listed, len(g.frozen))
	}
	return g
}

// readFrozen reads the list of frozen runs, by workspace and name, with a blank between.
func readFrozen(t *testing.T, dir string) map[string]frozen {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "frozen.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]frozen{}
	for line := range strings.Lines(string(text)) {
		var workspace, name string
		var f frozen
		if _, err := fmt.Sscan(line, &workspace, &name, &f.run, &f.seq, &f.head, &f.sum); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all[workspace+" "+name] = f
	}
	return all
}

func untar(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := tar.NewReader(bzip2.NewReader(f)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, h.FileInfo().Mode())
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		default:
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, content, h.FileInfo().Mode())
			}
		}
		if err != nil {
			return err
		}
	}
}

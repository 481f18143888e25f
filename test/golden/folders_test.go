//go:build linux

package golden

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// folder is a frozen folder. Its manifest explains the fields.
type folder struct {
	Is     string
	Runs   []expectation // as they were frozen
	Copies map[string]outcome
}

// outcome is what is done with a copy of a frozen folder, and what must come of it.
type outcome struct {
	Is        string
	Runs      []expectation
	Refs      []string
	Branches  map[string]content // delivered
	Checkout  content
	Worktrees map[string]map[string]string // files of worktrees that are left
}

// content is how files differ from a commit, and what some of them hold.
type content struct {
	Changes []string
	Files   map[string]string
}

// Whole folders of earlier versions, with repositories, worktrees and sessions of workers,
// are taken on: their runs are verified, resumed, decided and delivered.
func TestGoldenFolders(t *testing.T) {
	inNamespaces(t)
	manifests, err := filepath.Glob("folders/v*/manifest.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("there are no frozen folders: %v", err)
	}
	for _, file := range manifests {
		dir := filepath.Dir(file)
		lines := readFrozen(t, dir)
		listed := 0
		for name, f := range readFolders(t, file) {
			unpack := func(t *testing.T, runs []expectation) *copied {
				w := &copied{workspace{inside(t), runs, map[string]frozen{}}, f}
				w.Check(untar(filepath.Join(dir, name+".tar.bz2"), filepath.Dir(w.Dir)))
				for _, e := range f.Runs {
					w.frozen[e.Name] = lines[name+" "+e.Name]
				}
				return w
			}
			for _, e := range f.Runs {
				if listed++; lines[name+" "+e.Name].run == "" {
					t.Errorf("%s: %s %s is not in frozen.txt", dir, name, e.Name)
				}
			}
			t.Run(filepath.Base(dir)+"/"+name+"/frozen", func(t *testing.T) {
				t.Parallel()
				w := unpack(t, f.Runs)
				for _, e := range f.Runs {
					if e.ended() {
						w.Must(0, e.verify(w.frozen[e.Name].run)...)
					}
					w.Must(0, "replay", w.frozen[e.Name].run)
				}
				w.statuses()
				w.untouched()
			})
			for how, o := range f.Copies {
				t.Run(filepath.Base(dir)+"/"+name+"/"+how, func(t *testing.T) {
					t.Parallel()
					w := unpack(t, f.Runs)
					for _, e := range o.Runs {
						e.Is = o.Is
						w.takesOn(e)
					}
					w.delivered(o)
					w.keptRecords()
					w.nothingRuns()
				})
			}
		}
		if listed != len(lines) {
			t.Errorf("%s: the manifest lists %d runs, frozen.txt %d", dir, listed, len(lines))
		}
	}
}

func readFolders(t *testing.T, file string) map[string]folder {
	t.Helper()
	var manifest struct{ Folders map[string]folder }
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, &manifest, yaml.Strict())
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Folders
}

// inNamespaces skips a test where the command cannot be given a view of its own.
func inNamespaces(t *testing.T) {
	t.Helper()
	for _, program := range []string{"git", "unshare", "mount", "hostname"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("frozen folders are put where they were, which needs %s: %v", program, err)
		}
	}
	if said, err := exec.Command("sh", "-c", fmt.Sprintf(view, t.TempDir(), "true")).CombinedOutput(); err != nil {
		t.Skipf("frozen folders are put where they were, which needs namespaces of users, mounts and host names: %v: %s", err, said)
	}
}

// view runs a program that sees a folder at /mnt, as nobody else does, on a host of the
// name that the folder was frozen on: its records and git's name the path, and a session of
// a worker belongs to a host.
const view = `exec unshare --map-root-user --uts --mount -- sh -c 'hostname golden && mount --bind "$0" /mnt && exec "$@"' '%s' '%s' "$@"`

// inside makes an empty folder that the command will see at /mnt, and in which it is run
// where the repository is going to be.
func inside(t *testing.T) *cmdtest.Folder {
	t.Helper()
	outer := cmdtest.New(t, nil, time.Minute)
	script := outer.Path("tipstaff")
	root := outer.Path("mnt")
	f := cmdtest.New(t, func() (string, error) { return script, nil }, 2*time.Minute)
	binary, err := cmdtest.Released()
	f.Check(err)
	f.Check(os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\n"+view+"\n", root, binary), 0o755))
	f.Dir = filepath.Join(root, "repo")
	f.Check(os.MkdirAll(f.Dir, 0o755))
	f.Check(os.Mkdir(outer.Path("temp"), 0o755))
	f.Env = []string{"TMPDIR=" + outer.Path("temp"), "HOME=/mnt/home", "TIPSTAFF_WORKSPACE=/mnt/repo"}
	return f
}

// copied is a copy of a frozen folder.
type copied struct {
	workspace
	folder
}

// untouched checks that runs of which nothing was wanted but to be looked at have the frozen
// records, and none after them but what is added to a run that was killed. Exports are left
// to TestGolden: each would cost a process.
func (w *copied) untouched() {
	w.Helper()
	w.keptRecords()
	db := w.store()
	defer db.Close()
	for _, e := range w.runs {
		f := w.frozen[e.Name]
		rows, err := db.Query(`SELECT kind FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq > ?`, f.run, f.seq)
		w.Check(err)
		var after []string
		for rows.Next() {
			var kind string
			w.Check(rows.Scan(&kind))
			after = append(after, kind)
		}
		w.Check(rows.Err())
		if strings.Join(after, " ") != e.Killed {
			w.Errorf("%s was only looked at; after its frozen records come %q", e.Name, after)
		}
	}
}

// takesOn is goesOn, after which the follow-up of a run has a name, too.
func (w *copied) takesOn(e expectation) {
	w.Helper()
	if e.Of != "" {
		e.Of = w.expand(e.Of)
	}
	w.goesOn(e)
	if !slices.ContainsFunc(e.Then, func(command []any) bool { return slices.Contains(command, any("fix")) }) {
		return
	}
	var s struct {
		Delivery struct {
			Followup string `json:"followup_run_id"`
		}
	}
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", w.frozen[e.Name].run, "--json").Out), &s))
	w.frozen[e.Name+"-followup"] = frozen{run: s.Delivery.Followup}
}

// expand replaces the names of runs in a text, longer ones first.
func (w *copied) expand(text string) string {
	names := slices.SortedFunc(maps.Keys(w.frozen), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, name := range names {
		text = strings.ReplaceAll(text, "$"+name, w.frozen[name].run)
	}
	return text
}

// git runs git in the repository, from outside of the view: nothing of what it is asked for
// depends on where the folder is.
func (w *copied) git(args ...string) string {
	w.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.Dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_INDEX_FILE=" + filepath.Join(filepath.Dir(w.Dir), "index"), "LC_ALL=C"}
	out, err := c.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// changes returns lines of git diff --raw without the names of blobs.
func (w *copied) changes(args ...string) []string {
	w.Helper()
	var changes []string
	for line := range strings.Lines(w.git(append([]string{"diff", "--raw", "--find-renames"}, args...)...)) {
		word := strings.Fields(strings.TrimPrefix(line, ":")) // two modes, two blobs, what, paths
		changes = append(changes, strings.Join(slices.Concat(word[4:5], word[:2], word[5:]), " "))
	}
	return changes
}

// delivered checks what has come of the repository and the worktrees.
func (w *copied) delivered(o outcome) {
	w.Helper()
	same := func(what string, want, got any) {
		w.Helper()
		if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			w.Errorf("%s: %s is not as it must be (-want +got):\n%s", o.Is, what, diff)
		}
	}
	want := []string{"refs/heads/main", "refs/tags/begin"}
	for _, ref := range o.Refs {
		want = append(want, w.expand(ref))
	}
	slices.Sort(want)
	same("the list of refs", want, strings.Fields(w.git("for-each-ref", "--format=%(refname)")))
	for branch, c := range o.Branches {
		branch = w.expand(branch)
		// One commit upon the one that the worktree began with, and a commit that was shown.
		same("what "+branch+" is built upon", w.git("rev-parse", "begin"), w.git("rev-parse", branch+"^"))
		if !w.shown(strings.TrimSpace(w.git("rev-parse", branch))) {
			w.Errorf("%s: %s is no commit that was shown", o.Is, branch)
		}
		same("what "+branch+" changes", c.Changes, w.changes("begin", branch))
		for name, text := range c.Files {
			same(branch+":"+name, text, w.git("show", branch+":"+name))
		}
	}
	w.git("read-tree", "HEAD")
	w.git("add", "--all")
	same("what the checkout changes", o.Checkout.Changes, w.changes("--cached", "HEAD"))
	for name, text := range o.Checkout.Files {
		same(name+" of the checkout", text, w.Read(name))
	}
	worktrees := filepath.Join(filepath.Dir(w.Dir), "home/.local/state/tipstaff/worktrees")
	entries, err := os.ReadDir(worktrees)
	w.Check(err)
	var left []string
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), "."); e.IsDir() && !slices.Contains(left, name) { // its repository lies beside it
			left = append(left, name)
		}
	}
	var stay []string
	for name, files := range o.Worktrees {
		stay = append(stay, w.expand(name))
		for file, text := range files {
			got, err := os.ReadFile(filepath.Join(worktrees, w.expand(name), file))
			w.Check(err)
			same(file+" of the worktree of "+name, text, string(got))
		}
	}
	slices.Sort(stay)
	same("the list of worktrees", stay, left)
}

// shown reports whether a gate has named a commit to its decider.
func (w *copied) shown(commit string) bool {
	w.Helper()
	db := w.store()
	defer db.Close()
	var gates int
	w.Check(db.QueryRow(`SELECT count(*) FROM records WHERE kind = 'policy.gate' AND instr(CAST(bytes AS TEXT), ?) > 0`, `"commit":"`+commit+`"`).Scan(&gates))
	return gates > 0
}

// nothingRuns fails if a process is left that was started in this copy, by a command or by
// what that started. The ids of runs would not tell: other copies have the same.
func (w *copied) nothingRuns() {
	w.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		if environ, _ := os.ReadFile(name); strings.Contains(string(environ), w.temp()) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			w.Errorf("%s is left: %q", filepath.Dir(name), line)
		}
	}
}

// temp returns the setting of TMPDIR that all processes of the copy have.
func (w *copied) temp() string { return w.Env[0] }

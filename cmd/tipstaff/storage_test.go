package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
	"github.com/tipstaff/tipstaff/tool"
)

// A store that may not be written can still be looked at; what would change it is
// refused, and says why.
func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, work, small)
	w.Must(4, "run", "work.yaml", "--unattended")
	run := w.show("@").ID
	w.giveAway()
	before := w.tree(".tipstaff")
	w.lock(0o500, 0o400)
	t.Cleanup(func() { w.lock(0o700, 0o600) }) // so that the folder can be removed

	for range 2 { // as it was left, and as whoever closes it last leaves it
		w.Must(0, "ls").Says(t, run)
		db := w.Path(".tipstaff", "tipstaff.db")
		if info, err := os.Stat(db + "-wal"); err == nil && info.Size() > 0 {
			t.Fatalf("the log has %d bytes", info.Size())
		}
		w.Check(os.Chmod(w.Path(".tipstaff"), 0o700))
		for _, file := range []string{db + "-wal", db + "-shm"} {
			if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
				w.Check(err)
			}
		}
		w.Check(os.Chmod(w.Path(".tipstaff"), 0o500))
	}
	w.Must(0, "show", run).Says(t, "awaiting_decision")
	w.Must(0, "events", run).Says(t, "run.parked")
	w.Must(0, "verify", run, "--open")
	for _, args := range [][]string{
		{"run", "small.yaml"}, {"decide", run, "root/1/ask", "approve"}, {"resume", run}, {"cancel", run}, {"fork", run},
	} {
		w.Must(3, args...).Says(t, ".tipstaff")
	}
	w.lock(0o700, 0o600)
	after := w.tree(".tipstaff")
	for name := range before {
		if strings.HasSuffix(name, "-shm") {
			continue // shared memory: no part of what is stored
		}
		if before[name] != after[name] {
			t.Errorf("%s has changed", name)
		}
	}
	w.Must(0, "decide", run, "root/1/ask", "approve")
	w.Must(0, "resume", run, "--unattended")
	w.finished(run)
}

// giveAway makes the workspace that of a user to whom permissions apply.
func (w *workspace) giveAway() {
	w.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	w.UID = nobody
	for dir := filepath.Dir(w.Dir); strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		w.Check(os.Chmod(dir, 0o755))
	}
	w.walk(".", func(name string, d fs.DirEntry) error { return os.Chown(name, nobody, nobody) })
}

// lock sets the modes of everything in the store.
func (w *workspace) lock(dir, file fs.FileMode) {
	w.Helper()
	w.Check(os.Chmod(w.Path(".tipstaff"), 0o700))
	var folders []string
	w.walk(".tipstaff", func(name string, d fs.DirEntry) error {
		if d.IsDir() {
			folders = append(folders, name)
			return os.Chmod(name, 0o700)
		}
		if strings.HasSuffix(name, ".pub") && file == 0o600 {
			return os.Chmod(name, 0o644)
		}
		return os.Chmod(name, file)
	})
	for _, name := range folders {
		w.Check(os.Chmod(name, dir))
	}
}

func (w *workspace) walk(dir string, do func(name string, d fs.DirEntry) error) {
	w.Helper()
	w.Check(filepath.WalkDir(w.Path(dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return do(name, d)
	}))
}

// Keys that others may read, a file where the store should be, a store of a later
// version: refused with a word on what to do.
func TestStoreThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(w *workspace)
		says  string
	}{
		"keys for everybody": {func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff", "keys", "user.key"), 0o644)) }, "user.key"},
		"a key that is none": {func(w *workspace) { w.Check(os.WriteFile(w.Path(".tipstaff", "keys", "user.key"), []byte("x"), 0o600)) }, "user.key"},
		"no database": {func(w *workspace) {
			w.Check(os.WriteFile(w.Path(".tipstaff", "tipstaff.db"), []byte(strings.Repeat("no database ", 1000)), 0o600))
		}, "tipstaff.db"},
		"a later version":       {func(w *workspace) { w.sql(`PRAGMA user_version = 999`) }, "newer"},
		"a file, not a folder":  {func(w *workspace) { w.Check(os.RemoveAll(w.Path(".tipstaff"))); w.Write(".tipstaff", "") }, ".tipstaff"},
		"another application's": {func(w *workspace) { w.sql(`PRAGMA application_id = 1`) }, "tipstaff.db"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, small)
			w.Must(0, "run", "small.yaml")
			c.spoil(w)
			w.Must(3, "run", "small.yaml").Says(t, c.says)
		})
	}
}

// A damaged page must not pass for a sound run, nor bring the command down.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	original := fixture(t)
	original.sql(`PRAGMA wal_checkpoint(TRUNCATE)`)
	info, err := os.Stat(original.Path(".tipstaff", "tipstaff.db"))
	original.Check(err)
	const page = 4096
	found := 0
	first, step := places(t, 3)
	for at := int64(1+first) * page; at < info.Size(); at += int64(step) * page {
		w := copyOf(t, original)
		f, err := os.OpenFile(w.Path(".tipstaff", "tipstaff.db"), os.O_RDWR, 0)
		w.Check(err)
		junk := make([]byte, page)
		for i := range junk {
			junk[i] = byte(i*7 + 13)
		}
		_, err = f.WriteAt(junk, at)
		w.Check(errors.Join(err, f.Close()))
		switch r := w.Run("verify", "@"); r.Code {
		case 0: // an index, or free: nothing that was read
		case 3, 6:
			found++
			if strings.TrimSpace(r.Out+r.Err) == "" {
				t.Errorf("page %d: it says nothing", at/page)
			}
		default:
			t.Errorf("page %d: want exit code 3 or 6\n%v", at/page, r)
		}
	}
	if found < 3 {
		t.Errorf("of all pages only %d made a difference: the test damages the wrong ones", found)
	}
}

// A full disk loses nothing that was acknowledged, repeats nothing, and says so.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, inTime := range map[string]bool{"space is made in time": true, "space is made too late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, long, small)
			mountSmall(t, w.Path(".tipstaff"))
			w.Must(0, "run", "small.yaml")
			p := w.startLong("--json")
			run := w.runs()[0]
			ballast := w.Path(".tipstaff", "ballast")
			fill(t, ballast)
			w.Write("enough", "") // the call answers now, and its answer has no place

			w.Until("the program to end", func() bool { return len(w.leftOver(run)) == 0 })
			w.unanswered(run)
			if inTime {
				w.Check(os.Remove(ballast))
			}
			r := p.Wait()
			if inTime && r.Code != 0 {
				t.Errorf("want exit code 0\n%v", r)
			}
			if !inTime {
				if r.Code != 3 {
					t.Errorf("want exit code 3\n%v", r)
				}
				r.Says(t, "store_full")
				if w.effects() != "slow" {
					t.Errorf("effects %q: an effect began that could not be recorded", w.effects())
				}
				w.Check(os.Remove(ballast))
				w.Must(4, "resume", run, "--unattended").Says(t, "root/slow/in_doubt")
				w.Must(0, "decide", run, "root/slow/in_doubt", "use_result", "--answer", `{"exit_code":0,"stdout":"slow\n","stderr":""}`)
				w.Must(0, "resume", run, "--unattended")
			}
			if got := w.effects(); got != "after slow" {
				t.Errorf("effects %q", got)
			}
			w.Must(0, "verify", run)
		})
	}
}

// Commands that only look need no space: what they would write, they leave out.
func TestLookingOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*cmdtest.Process){
		"after a kill":  func(p *cmdtest.Process) { p.Kill() },
		"closed before": func(p *cmdtest.Process) { p.Signal(syscall.SIGTERM); p.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, long)
			mountSmall(t, w.Path(".tipstaff"))
			p := w.startLong()
			stop(p)
			w.Check(os.RemoveAll(w.Path(".tipstaff", "journal"))) // whose files are to be written again
			ballast := w.Path(".tipstaff", "ballast")
			fill(t, ballast)

			began := time.Now()
			run := w.runs()[0]
			w.Must(0, "ls").Says(t, "interrupted")
			w.Must(0, "show", run).Says(t, "tipstaff resume "+run)
			w.Must(0, "events", run).Says(t, "run.started")
			w.Must(0, "decide").Says(t, "root/slow is in doubt")
			w.Must(0, "verify", run, "--open")
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("looking took %v: it waited for space", took)
			}
			w.Check(os.Remove(ballast))
			w.Must(4, "resume", run, "--unattended").Says(t, "root/slow/in_doubt")
		})
	}
}

// A workspace that is moved while a run goes on in it is not made again where it
// was, and the exit code says that its store could not be used.
func TestMovedWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Dir = w.Path("before")
	w.Unpack(manifest)
	w.Write("long.yaml", long[strings.Index(long, "kind:"):strings.Index(long, "    - {id: after")])
	p := w.startLong()
	run := w.runs()[0]
	w.Check(os.Rename(w.Dir, w.Dir+"-moved"))
	w.Check(os.WriteFile(w.Dir+"-moved/enough", nil, 0o600))
	if r := p.Wait(); r.Code != 3 {
		t.Errorf("want exit code 3\n%v", r)
	}
	if _, err := os.Stat(w.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old folder is there again: %v", err)
	}
	w.Dir += "-moved"
	w.Must(0, "show", run)
}

// under runs the command from a shell that first does something to itself.
func (w *workspace) under(setup string, args ...string) cmdtest.Result {
	w.Helper()
	p := w.Prepare(args...)
	name := p.Cmd.Path
	shell, err := exec.LookPath("sh")
	w.Check(err)
	p.Cmd.Path = shell
	p.Cmd.Args = append([]string{"sh", "-c", setup + `; exec "$0" "$@"`, name}, args...)
	p.Listen()
	p.Begin()
	return p.Wait()
}

// A write that fails is not tried again: what the file holds then is not known.
// The process stops, and the next one goes by what it finds.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small)
	var plan strings.Builder
	plan.WriteString(head + `    - {id: go, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo go >> effects"]}}` + "\n")
	for i := range 150 {
		fmt.Fprintf(&plan, `    - {id: c%d, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: %d, expr: value}}`+"\n", i, i)
	}
	w.Write("many.yaml", plan.String())
	w.Must(0, "run", "small.yaml")
	r := w.under("ulimit -f 600", "run", "many.yaml") // no file may grow beyond a few hundred kilobytes
	if r.Code != 3 {
		t.Fatalf("want exit code 3\n%v", r)
	}
	r.Says(t, "tipstaff.db", "disk")
	if s := w.show("@"); s.Status != "interrupted" {
		t.Errorf("the run is %s", s.Status)
	}
	w.Must(0, "resume", "@")
	if got := w.effects(); got != "go" {
		t.Errorf("effects %q", got)
	}
	w.Must(0, "verify", "@")
}

// Without streams there is no place to talk to; the run, and the files that take
// the freed descriptors, come to no harm.
func TestClosedStreams(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, work)
	if r := w.under("exec <&- >&- 2>&-", "run", "work.yaml", "--yes"); r.Code != 0 {
		t.Errorf("%v", r)
	}
	w.finished("@")
}

// A lock that cannot be written leaves the old one, and nothing beside it.
func TestLockOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := emptyWorkspace(t)
	dir := w.Path("disk")
	mountSmall(t, dir)
	w.Check(new(tool.Lock).Write(dir))
	old := w.Read("disk/" + tool.LockName)
	lock, err := tool.ReadLock(dir)
	w.Check(err)
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	if err := lock.Write(dir); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if now := w.Read("disk/" + tool.LockName); now != old || old == "" {
		t.Errorf("the lock was %q and is %q", old, now)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("there are %v (%v), want the lock and the ballast", files, err)
	}
	w.Check(os.Remove(ballast))
	// A process that another test has just forked may hold the ballast until it is executed.
	w.Until("room", func() bool { return !errors.Is(lock.Write(dir), syscall.ENOSPC) })
	w.Check(lock.Write(dir))
}

// mountSmall mounts a file system of a few pages, or skips the test.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs a small file system to fill: Linux alone can mount one here")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mountTmpfs(dir); err != nil {
		t.Skipf("needs a small file system to fill, and may not mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
}

// fill writes until there is no room left.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// unanswered checks that for a while no call of a run has an outcome in the store.
func (w *workspace) unanswered(run string) {
	w.Helper()
	store := w.openReadOnly()
	defer store.Close()
	for range 50 {
		var n int
		w.Check(store.QueryRow(`SELECT count(*) FROM records WHERE kind = 'effect.finished' AND run = (SELECT n FROM runs WHERE id = ?)`, run).Scan(&n))
		if n > 0 {
			w.Fatal("the answer was stored: the disk is not full")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

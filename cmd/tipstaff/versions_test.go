package main

import (
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// earlier is the same folder, in which commands are those of the binary that a variable names.
func (w *workspace) earlier(variable string) *workspace {
	w.Helper()
	binary := os.Getenv(variable)
	if binary == "" {
		w.Skip(variable + " names no binary: make test-versions builds one")
	}
	f := cmdtest.New(w.TB, func() (string, error) { return binary, nil }, patience)
	f.Dir, f.Env = w.Dir, w.Env
	return &workspace{Folder: f}
}

// TestVersionsShareAStore has a run go from one version to the other and back, each killed
// in the middle, over a folder and over a database: it ends as if nothing had happened. Then
// one of them migrates the store.
func TestVersionsShareAStore(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"in a folder", "in a database"} {
		t.Run(kept, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, work, small, slow)
			migrate := func(format string) { w.sql(`PRAGMA user_version = ` + format) }
			formats := [2]string{"10", "11"}
			if kept == "in a database" {
				address := database(t)
				w.Env = append(w.Env, "TIPSTAFF_STORE="+address)
				migrate = func(format string) { psql(t, address, `UPDATE format SET version = `+format) }
				formats = [2]string{"4", "5"}
			}
			old := w.earlier("TIPSTAFF_EARLIER")
			run := w.handedOn(old)
			w.finished(run)
			for _, args := range [][]string{{"verify", run}, {"replay", run}} {
				if r := old.Run(args...); r.Code != 0 && !strings.Contains(r.Out+r.Err, "newer") {
					t.Errorf("the earlier version does not agree\n%v", r)
				}
			}

			p := w.Start("run", "slow.yaml", "--unattended")
			w.Until("the first call runs", func() bool { return w.Read("done.txt") != "" })
			migrate(formats[1])
			w.Write("go", "")
			p.Must(3).Says(t, "format_newer", "by a newer Tipstaff while it was open")
			for _, v := range []*workspace{w, old} {
				v.Must(3, "run", "small.yaml").Says(t, "format_newer")
			}
			migrate(formats[0])
			slow := w.show("@").ID
			if done := w.Read("done.txt"); done != "a\n" {
				t.Errorf("done: %q", done)
			}
			w.Must(4, "resume", slow, "--unattended")
			w.Must(0, "decide", slow, "root/a/in_doubt", "use_result", "--answer", `{"exit_code":0,"stderr":"","stdout":""}`)
			w.Must(0, "resume", slow, "--unattended")
			w.Must(0, "verify", slow)
			if done := w.Read("done.txt"); done != "a\nb\n" {
				t.Errorf("done: %q", done)
			}
		})
	}
}

// TestVersionsMigrateAStore has today's version migrate what an older one has made and still
// works on, killed again and again: the old format or the new one is there, and nothing between.
// The older version then writes nothing any more, and every run ends as if nothing had happened.
func TestVersionsMigrateAStore(t *testing.T) {
	t.Parallel()
	for _, kept := range []string{"in a folder", "in a database"} {
		t.Run(kept, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, work, small, slow)
			old := w.earlier("TIPSTAFF_OLDER")
			format := func() string { return w.pragma("user_version") }
			was, is, reads := "9", "10", 0
			if kept == "in a database" {
				address := database(t)
				w.Env = append(w.Env, "TIPSTAFF_STORE="+address)
				old.Env = w.Env
				format = func() string { return psql(t, address, `SELECT version FROM format`) }
				was, is, reads = "1", "4", 3
			}

			args := []string{"run", "work.yaml", "--yes", "--unattended"}
			for n := 1; n <= 2; n++ { // the older one alone, killed with each effect
				p := old.Start(args...)
				w.Until("an effect more, or an end", func() bool { return len(strings.Fields(w.effects())) >= n || !p.Running() })
				p.Kill()
				args = []string{"resume", old.runs()[0], "--yes", "--unattended"}
			}
			run := args[1]
			under := old.Start("run", "slow.yaml", "--unattended")
			w.Until("the first call runs", func() bool { return w.Read("done.txt") != "" })
			if got := format(); got != was {
				t.Fatalf("the older version has made format %s, want %s", got, was)
			}
			kills := 0
			for after := time.Duration(0); format() == was; after += 30 * time.Millisecond {
				p := w.Start("resume", run, "--yes", "--unattended")
				time.Sleep(after) // then it is killed, wherever it is
				if p.Kill() {
					kills++
				}
				if got := format(); got != was && got != is {
					t.Fatalf("a migration that was killed has left format %s", got)
				}
			}
			if kills == 0 {
				t.Error("no migration was killed")
			}
			t.Logf("%d kills until the store had format %s", kills, format())

			old.Must(3, "run", "small.yaml").Says(t, "format_newer")
			old.Must(reads, "ls")
			w.Write("go", "")
			ended := under.Wait() // what has a store of the older version open knows nothing of migrations
			t.Logf("the older process under way ended with %d", ended.Code)
			for _, left := range w.runs() {
				for range 20 {
					if w.show(left).State == "completed" {
						break
					}
					if r := w.Run("resume", left, "--yes", "--unattended"); r.Code != 0 && r.Code != 4 {
						t.Fatalf("%v", r)
					}
					if left == run {
						w.settleDoubts(run, func(args ...string) { w.Must(0, args...) })
					} else if len(w.show(left).OpenGates) > 0 {
						w.Must(0, "decide", left, "root/a/in_doubt", "use_result", "--answer", `{"exit_code":0,"stderr":"","stdout":""}`)
					}
				}
				w.Must(0, "verify", left)
			}
			w.finished(run)
			if done := w.Read("done.txt"); done != "a\nb\n" {
				t.Errorf("done: %q", done)
			}
			w.Must(0, "doctor").Says(t, "from format "+was+" to "+is)
		})
	}
}

// handedOn drives a run by turns with this version and an earlier one, and kills each when
// one effect more has happened. What a newer version has begun an earlier one may refuse.
func (w *workspace) handedOn(old *workspace) (run string) {
	w.Helper()
	turns := []*workspace{old, w}
	args := []string{"run", "work.yaml", "--yes", "--unattended"}
	for n := 1; n <= 3; n++ {
		p := turns[n%2].Start(args...)
		w.Until("an effect more, or an end", func() bool { return len(strings.Fields(w.effects())) >= n || !p.Running() })
		p.Kill()
		run = w.runs()[0]
		w.settleDoubts(run, func(args ...string) { turns[(n+1)%2].Must(0, args...) })
		args = []string{"resume", run, "--yes", "--unattended"}
	}
	for n := range 20 {
		switch r := turns[n%2].Run(args...); r.Code {
		case 0:
			return run
		case 4:
			w.settleDoubts(run, func(args ...string) { turns[n%2].Must(0, args...) })
		default:
			if turns[n%2] == w || !strings.Contains(r.Err, "newer") && !strings.Contains(r.Err, "replay_mismatch") {
				w.Fatalf("%v", r)
			}
		}
	}
	w.Fatal("the run does not end")
	return run
}

// psql has the server of a database's address execute a statement, and returns its value.
func psql(t *testing.T, address, statement string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	path := u.Query().Get("search_path")
	u.RawQuery = ""
	command := exec.Command("psql", "-v", "ON_ERROR_STOP=1", "-Atqc", statement, u.String())
	command.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+path)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// pragma is a value of the workspace's store.
func (w *workspace) pragma(name string) (value string) {
	w.Helper()
	db := w.openWritable(10 * time.Second)
	defer db.Close()
	w.Check(db.QueryRow("PRAGMA " + name).Scan(&value))
	return value
}

package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// hides is a program that starts another which leaves no trace of where it is from,
// says its pid, and stays until its input ends.
const hides = `setsid env -i /bin/sh -c 'echo $$; exec >/dev/null 2>&1; while true; do /bin/sleep 0.1; done' & cat`

// adopter is a process that adopts: what becomes of hidden processes, it says by lines.
func adopter() {
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	check(Adopt())
	sh, err := exec.LookPath("sh")
	check(err)
	spawn := func(script string) (*Process, int) {
		p, err := Spawn(Command{Path: sh, Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		check(err)
		line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
		check(err)
		var pid int
		_, err = fmt.Sscan(line, &pid)
		check(err)
		return p, pid
	}
	say := func(what string, pid int) { fmt.Printf("%s: %v\n", what, running(pid)) }

	one, hidden := spawn(hides)
	say("hidden", hidden)
	check(one.Close())
	say("closed", hidden)

	// What was there before belongs to nobody who came later.
	one, hidden = spawn(hides)
	two, other := spawn(hides)
	check(one.Close())
	say("other", other)
	check(two.Close())
	say("first of two", hidden)
	say("second of two", other)

	// While an older program lives it may be that one's, and is left.
	older, _ := spawn("echo $$; cat")
	younger, hidden := spawn(hides)
	check(younger.Close())
	say("while an older lives", hidden)
	check(older.Close())
	say("then", hidden)

	// A process of our own, in our session, is not given to us.
	own := exec.Command("sleep", "300")
	check(own.Start())
	last, hidden := spawn("echo $$; " + strings.Replace(hides, "& cat", "& exit", 1))
	<-last.Exited()
	check(last.Close())
	_, err = Sweep(context.Background(), map[string]string{"launch": "run"})
	check(err)
	say("own", own.Process.Pid)
	check(own.Process.Kill())
	_ = own.Wait()
	_, err = Sweep(context.Background(), map[string]string{"launch": "run"})
	check(err)
	found, err := orphans()
	check(err)
	fmt.Println("left:", len(found))
	_ = hidden
}

// A process without group, session and markers is found because it is given to us.
func TestHiddenProcessesAreAdoptedAndEnded(t *testing.T) {
	for _, program := range []string{"setsid", "env", "sleep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=adopter")
	out, err := cmd.CombinedOutput()
	want := "hidden: true\nclosed: false\nother: true\nfirst of two: false\nsecond of two: false\nwhile an older lives: true\nthen: false\nown: true\nleft: 0\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, it said:\n%s\nwant:\n%s", err, out, want)
	}
}

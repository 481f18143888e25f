package supervisor

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// lines gathers what a kept program tells.
func lines(t *testing.T) (tell func(string), next func() string) {
	t.Helper()
	told := make(chan string, 100)
	return func(l string) { told <- l }, func() string {
		t.Helper()
		select {
		case l := <-told:
			return l
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is told")
		}
		return ""
	}
}

func script(text string) Command {
	return Command{Path: "/bin/sh", Args: []string{"sh", "-c", text}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"}}
}

func TestKeepStartsAProgramAgainThatHasEnded(t *testing.T) {
	tell, next := lines(t)
	k := Keep(script("echo up; echo trouble >&2; exit 3"), tell)
	for range 2 {
		said := map[string]bool{next(): true, next(): true}
		if !said["up"] || !said["trouble"] {
			t.Fatalf("it told %v", said)
		}
		if end := next(); !strings.HasPrefix(end, "it ended: exit status 3; it is started again in ") {
			t.Fatalf("its end is told as %q", end)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err != nil {
		t.Error("a second time:", err)
	}
}

func TestKeepAsksAProgramToEnd(t *testing.T) {
	tell, next := lines(t)
	k := Keep(script("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"), tell)
	if l := next(); l != "up" {
		t.Fatalf("it told %q", l)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	for next() != "bye" { // the shell may have a word on the sleep that ended with it
	}
}

func TestKeepLeavesNothingBehind(t *testing.T) {
	tell, next := lines(t)
	k := Keep(script("trap '' TERM; (setsid sh -c 'echo $$; exec sleep 300') & wait"), tell)
	pid := next()
	began := time.Now()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("that took %v", took)
	}
	n, err := strconv.Atoi(pid)
	if err != nil || running(n) {
		t.Errorf("process %s was left, %v", pid, err)
	}
}

func TestKeepSaysWhyNothingCanBeStarted(t *testing.T) {
	tell, next := lines(t)
	k := Keep(Command{Path: "/nowhere/at/all", Args: []string{"all"}, Dir: "/"}, tell)
	if l := next(); !strings.Contains(l, "no such file") {
		t.Errorf("it told %q", l)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

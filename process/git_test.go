package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/delivery"
)

// The limit of a call of git is a setting, and one that is none is said by the first call.
func TestGitLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "soon": 0, "-1s": 0, "0": 0} {
		t.Setenv(gitLimit, text)
		g := Git()
		if g == nil {
			t.Skip("there is no git")
		}
		_, err := g.Run(t.Context(), t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, nil, "version")
		wrong := text != "" && want == 0
		if g.Limit != want || (err != nil) != wrong || wrong && !strings.Contains(err.Error(), gitLimit) {
			t.Errorf("%q: %s, %v", text, g.Limit, err)
		}
	}
}

// A git that does not end is ended, and what it has started with it.
func TestAGitThatDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", "git": "#!/bin/sh\nsleep 600 &\necho $$ $! > " + filepath.Join(dir, "pids") + "\nwait\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var pids []byte
	for limit := 250 * time.Millisecond; len(pids) == 0; limit *= 2 { // it must have come to start something
		t.Setenv(gitLimit, limit.String())
		_, err := delivery.Open(t.Context(), Git(), dir)
		if err == nil || !strings.Contains(err.Error(), "was ended after "+limit.String()+"; "+gitLimit+" sets another limit") {
			t.Fatalf("%v", err)
		}
		pids, _ = os.ReadFile(filepath.Join(dir, "pids"))
	}
	for _, pid := range strings.Fields(string(pids)) {
		n, _ := strconv.Atoi(pid)
		for !errors.Is(syscall.Kill(n, 0), syscall.ESRCH) { // init has yet to hear of it
			time.Sleep(time.Millisecond)
		}
	}
}

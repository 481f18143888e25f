//go:build linux

package clis

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/clis/api"
)

// The picture of README.md: a call of the real Claude Code that waits for an approval, in both
// themes. make picture draws it.
func TestPicture(t *testing.T) {
	to := os.Getenv("TIPSTAFF_PICTURE")
	if to == "" {
		t.Skip("make picture draws it")
	}
	w := newWorkspace(t, claude{}, worker{posture: auto, rules: rule(claude{}, "allow", "Write")},
		script(api.Turn{Text: "The notes are in CHANGES.md.", Calls: []api.Call{api.WriteFile("CHANGES.md", "# 1.4.0\n\n- Runs survive kill -9.\n- Exports verify offline.\n")}},
			api.Turn{Text: "I tag it and publish the package.", Calls: []api.Call{api.Run("git tag v1.4.0 && npm publish --access public")}})...)
	state := filepath.Join(os.TempDir(), "tipstaff-picture") // it is in the picture
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	w.Env = append(w.Env, "XDG_STATE_HOME="+state)
	w.Write("repo/tipstaff.yaml", strings.Replace(w.Read("repo/tipstaff.yaml"), `{"w":`, `{"claude":`, 1))
	w.Write("repo/task.md", "Write the notes of 1.4.0, tag it, and publish the package.\n")
	w.commit()
	w.task = strings.TrimSpace(w.must(0, "task", "new", "--name", "Release 1.4.0", "--description", "task.md", "--worker", "claude", "--review", "none").Out)
	w.must(4, "task", "spawn", w.task)
	run := w.is("paused", "approval").Run
	daemon := w.Prepare("serve", "--addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0")
	daemon.Cmd.Dir = w.Path("repo")
	says, err := daemon.Cmd.StdoutPipe()
	w.Check(err)
	daemon.Begin()
	defer daemon.Kill()
	first, err := bufio.NewReader(says).ReadString('\n')
	w.Check(err)
	address, _, _ := strings.Cut(strings.TrimPrefix(first, "http "), " ")
	link := strings.TrimSpace(w.must(0, "serve", "--link", "--addr", address).Out)
	modules, err := filepath.Abs("../../.cache/web")
	w.Check(err)
	node := exec.Command("node", "picture.mjs", to, link, run)
	node.Env = append(os.Environ(), "TIPSTAFF_MODULES="+modules)
	if out, err := node.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

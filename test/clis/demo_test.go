//go:build linux

package clis

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/clis/api"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// The demo of a real CLI ends where somebody decides what becomes of its change; without a CLI
// it says what to install.
func TestDemoOfARealCLI(t *testing.T) {
	installed(t)
	t.Parallel()
	tipstaff, err := cmdtest.Released()
	if err != nil {
		t.Fatal(err)
	}
	demo := func(path string, args ...string) (string, error) {
		t.Helper()
		c := exec.Command("../../examples/demo-cli.sh", args...)
		srv := newAPI(t, script(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "by the model")}})...)
		c.Env = append(claude{}.passed(&workspace{api: srv}), "PATH="+path, "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "TIPSTAFF="+tipstaff,
			"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := demo(nodeModules()+"/.bin:"+os.Getenv("PATH"), "claude")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"added    made.txt", "decide @ delivery#1 approve"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "warning") {
		t.Errorf("it warns:\n%s", out)
	}
	for arg, want := range map[string]string{"": "npm install", "emacs": "is not a coding CLI", "codex": "is not on your PATH"} {
		if out, err := demo("/usr/bin:/bin", strings.Fields(arg)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v: %s", arg, err, out)
		}
	}
}

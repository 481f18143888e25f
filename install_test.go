package tipstaff_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
)

// install.sh is tested by a script of its own, under every shell that is here.
func TestInstallScript(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash --posix", "busybox sh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			served := t.TempDir()
			server := httptest.NewServer(http.FileServer(http.Dir(served)))
			defer server.Close()
			if out, err := exec.Command("sh", "-c", shell+" -c :").CombinedOutput(); err != nil {
				t.Skipf("%s is not here: %s", shell, out)
			}
			test := exec.Command("sh", "install.test.sh", shell)
			test.Env = append(os.Environ(), "SERVED="+served, "SERVER="+server.URL)
			if out, err := test.CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			} else {
				t.Logf("%s", out)
			}
		})
	}
}

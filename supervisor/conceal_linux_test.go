package supervisor

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// concealer conceals itself if it is told to, and has a child of the same user look
// at its environment and memory.
func concealer() {
	if os.Getenv("CONCEAL") != "" {
		Conceal()
	}
	cmd := exec.Command("sh", "-c", "cat /proc/$PPID/environ; cat /proc/$PPID/maps; ls -l /proc/$PPID/fd")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, _ := cmd.CombinedOutput()
	_, _ = os.Stdout.Write(out)
	if self := Self("", ""); self.Start == 0 || self.PidNS == "" {
		_, _ = os.Stdout.WriteString("it does not know itself")
	}
	if _, err := os.Executable(); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
	}
}

func TestChildrenCannotReadOurEnvironment(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("setpriv"); err != nil && os.Geteuid() == 0 {
		t.Skip("there is no setpriv, by which root gives up its capabilities")
	}
	look := func(env ...string) string {
		cmd := exec.Command(self)
		if os.Geteuid() == 0 { // root may look at anybody, by its capabilities
			cmd = exec.Command("setpriv", "--bounding-set=-all", self)
		}
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), roleVar + "=concealer", "CREDENTIAL=for-nobody-else"}, env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if seen := look(); !strings.Contains(seen, "for-nobody-else") {
		t.Fatalf("children cannot read it anyway: %s", seen)
	}
	seen := look("CONCEAL=1")
	if strings.Contains(seen, "for-nobody-else") || strings.Contains(seen, "[heap]") || strings.Contains(seen, "-> ") || strings.Contains(seen, "itself") {
		t.Errorf("a child sees %s", seen)
	}
	// What belongs to a run is found by its environment.
	if seen := look("CONCEAL=1", launchMarker+"x"); !strings.Contains(seen, launchMarker+"x") {
		t.Errorf("a child of a run sees %s", seen)
	}
}

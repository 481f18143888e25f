package mcp

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The manual says what was tested, and the lock says the same.
func TestManualNamesTheVersions(t *testing.T) {
	manual := string(read(t, "../../docs/tools.md"))
	var wanted struct {
		Dependencies map[string]string
	}
	if err := json.Unmarshal(read(t, "package.json"), &wanted); err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal(read(t, "package-lock.json"), &lock); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{everything, filesystem, memory, thinking, git, suite} {
		version := wanted.Dependencies[name]
		if row := "| `" + name + "` | " + version + " |"; !strings.Contains(manual, row) {
			t.Errorf("docs/tools.md has no line %s", row)
		}
		if locked := lock.Packages["node_modules/"+name].Version; locked != version {
			t.Errorf("%s is locked at %q, not %s", name, locked, version)
		}
	}
}

// Where a package comes from is everybody's own affair.
func TestLockNamesNoRegistry(t *testing.T) {
	if lock := string(read(t, "package-lock.json")); strings.Contains(lock, `"resolved"`) {
		t.Error("package-lock.json has addresses: write it with npm install --package-lock-only --omit-lockfile-registry-resolved")
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

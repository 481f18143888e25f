package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The programs in testdata follow README.md and share no code with this package.
// Where the two disagree about an export, one of them or the page is wrong.

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not on PATH: the verifiers in testdata are not compared")
	}
	return path
}

// runPython runs a program of testdata. plainly keeps it from using a library
// for ed25519, as on a machine that has none.
func runPython(t *testing.T, plainly bool, program string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command(python(t), append([]string{"-B", filepath.Join("testdata", program)}, args...)...)
	cmd.Env = os.Environ()
	if plainly {
		cmd.Env = append(cmd.Env, "PLAIN_PYTHON=1")
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if program == "verify.py" && strings.Contains(stderr.String(), "Traceback") {
		t.Fatalf("%s broke off: %s", program, stderr.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func trustedFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, key := range map[string]*PrivateKey{userPub: testKey(t, 1), executorPub: testKey(t, 2)} {
		if err := os.WriteFile(filepath.Join(dir, name), key.Public().File(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// verdicts runs verify.py over many exports at once: the sorted distinct faults
// of each.
func verdicts(t *testing.T, plainly bool, keys string, dirs ...string) map[string][]string {
	t.Helper()
	out, _ := runPython(t, plainly, "verify.py", append([]string{keys}, dirs...)...)
	found := map[string][]string{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		found[fields[0]] = append(found[fields[0]], fields[1])
	}
	for dir, codes := range found {
		slices.Sort(codes)
		found[dir] = slices.Compact(codes)
	}
	return found
}

func TestPythonAgrees(t *testing.T) {
	python(t)
	keys, export := trustedFolder(t), forkExport(t)
	names := map[string]string{} // by folder
	var dirs, slow []string
	for name, dir := range goodExports(t) {
		names[dir] = name
		dirs, slow = append(dirs, dir), append(slow, dir)
	}
	for _, d := range damages(t) {
		dir := harmed(t, export, d)
		names[dir] = d.name
		dirs = append(dirs, dir)
		if slices.Contains(d.want, ErrSignatureInvalid) {
			slow = append(slow, dir)
		}
	}
	agree(t, names, dirs, verdicts(t, false, keys, dirs...))
	agree(t, names, slow, verdicts(t, true, keys, slow...)) // only the signatures differ
}

// Harm of no particular kind: a few bytes somewhere are replaced by others that
// often occur in records. The two must agree on each, whatever it turns out to be.
func TestPythonAgreesOnRandomHarm(t *testing.T) {
	python(t)
	random := rand.New(rand.NewPCG(1, 2))
	scraps := []string{"", `"`, `,`, `{`, `}`, `\\`, ` `, "\n", `1`, `0`, `.`, `:`, `true`, `null`, `[`, `]`, `a`, `\u0041`, `"v":1`, `,"n":1`, `,"note":true`, "é", "\xff"}
	keys, export, names := trustedFolder(t), forkExport(t), map[string]string{}
	var dirs []string
	for range 60 {
		var at, cut int
		put := scraps[random.IntN(len(scraps))]
		dir := harmed(t, export, damage{do: edited(recordsFile, func(_ *testing.T, c []byte) []byte {
			at, cut = random.IntN(len(c)), random.IntN(4)
			return slices.Concat(c[:at], []byte(put), c[min(at+cut, len(c)):])
		})})
		names[dir] = fmt.Sprintf("%d bytes at %d became %q", cut, at, put)
		dirs = append(dirs, dir)
	}
	agree(t, names, dirs, verdicts(t, false, keys, dirs...))
}

// agree compares what was found in each folder with what this package finds.
func agree(t *testing.T, names map[string]string, dirs []string, theirs map[string][]string) {
	t.Helper()
	for _, dir := range dirs {
		verdict := theirs[dir]
		res, err := VerifyExport(dir, &Options{Trusted: newBook(t, testRun).trusted()})
		if err != nil {
			t.Fatal(err)
		}
		ours := codes(res.Faults)
		if res.OK() {
			ours = []string{"ok"}
		}
		if !slices.Equal(ours, verdict) {
			t.Errorf("%s: ours %v, verify.py %v", names[dir], ours, verdict)
		}
	}
}

func TestPythonTrustsNoStranger(t *testing.T) {
	keys := t.TempDir()
	if err := os.WriteFile(filepath.Join(keys, "other.pub"), testKey(t, 9).Public().File(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, l := wholeRun(t)
	dir := exportOf(t, l, testRun)
	if got := verdicts(t, false, keys, dir)[dir]; !slices.Equal(got, []string{"unknown_key"}) {
		t.Errorf("with another key trusted: %v", got)
	}
	if _, code := runPython(t, false, "verify.py", keys, dir); code != 6 {
		t.Errorf("exit status %d, want 6", code)
	}
}

// Chain and signatures in under forty lines, and what they find.
func TestCoreVerifier(t *testing.T) {
	source, err := os.ReadFile("testdata/core.py")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte("\n")); n >= 40 {
		t.Errorf("core.py has %d lines", n)
	}
	keys := trustedFolder(t)
	export := forkExport(t)
	if _, code := runPython(t, false, "core.py", keys, export); code != 0 {
		t.Error("a whole export is refused")
	}
	for _, d := range damages(t) {
		if !slices.Contains([]string{"a byte of a plain record", "swapped records", "a deleted record", "cut between records", "a record of another run",
			"signed with a foreign key", "rehashed in head.json, not signed again"}, d.name) {
			continue
		}
		if _, code := runPython(t, false, "core.py", keys, harmed(t, export, d)); code == 0 {
			t.Errorf("%s is not found", d.name)
		}
	}
}

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// verdicts runs verify.py over many exports at once: the faults of each, as it
// prints them. args are what stands before the exports.
func verdicts(t *testing.T, plainly bool, args string, dirs ...string) map[string][]string {
	t.Helper()
	out, _ := runPython(t, plainly, "verify.py", append(strings.Fields(args), dirs...)...)
	found := map[string][]string{}
	for line := range strings.Lines(out) {
		dir, fault, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		found[dir] = append(found[dir], fault)
	}
	return found
}

// printed are faults as verify.py prints them.
func printed(faults []finding) []string {
	if len(faults) == 0 {
		return []string{"ok"}
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, fmt.Sprintf("%s\t%d\t%s", f.Code, f.Seq, f.File))
	}
	return lines
}

func TestPythonAgrees(t *testing.T) {
	python(t)
	keys, names := trustedFolder(t), map[string]string{} // by folder
	var dirs []string
	for name, dir := range goodExports(t) {
		names[dir] = name
		dirs = append(dirs, dir)
	}
	for _, c := range corpusCases(t) {
		if strings.HasPrefix(c.Name, "sig-") {
			dir := c.made(t)
			names[dir] = c.Name
			dirs = append(dirs, dir)
		}
	}
	agree(t, names, dirs, verdicts(t, false, keys, dirs...))
	agree(t, names, dirs, verdicts(t, true, keys, dirs...)) // without a library for the signatures
}

// A body has 10,000 levels, signed or not, and no more.
func TestPythonAgreesOnDepth(t *testing.T) {
	python(t)
	m := maker{t: t, executor: testKey(t, 2)}
	for levels, want := range map[int][]finding{10_000: at(ErrHead, 9, ErrPrev, 11), 10_001: headAt(at(ErrMalformed, 7, ErrMalformed, 9, ErrPrev, 11), 18)} {
		deep := strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1)
		c := corpusCase{Export: "plan", Changes: []change{swap(7, `"value":{`, `"deep":`+deep+`,"value":{`),
			m.signed("plan", 9, m.executor, m.body(`"subject":{}`, `"subject":`+deep))}}
		dir := c.made(t)
		if res, err := VerifyExport(dir, c.options(t)); err != nil || !slices.Equal(findings(res.Faults), want) {
			t.Errorf("%d levels: %v, %v", levels, res.Faults, err)
		}
		agree(t, map[string]string{dir: "deep"}, []string{dir}, verdicts(t, false, "corpus/keys", dir))
	}
}

// Both sides have the same list of envelopes and of plain kinds.
func TestPythonKinds(t *testing.T) {
	out, err := exec.Command(python(t), "-B", "-c", "import sys, json; sys.path.insert(0, 'testdata'); import verify; "+
		"print(json.dumps([verify.KINDS, sorted(verify.PLAIN_KINDS)]))").Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs struct {
		Envelopes map[string][2]string
		Plain     []string
	}
	if err := json.Unmarshal(out, &[]any{&theirs.Envelopes, &theirs.Plain}); err != nil {
		t.Fatal(err)
	}
	ours := map[string][2]string{}
	for kind, s := range envelopes {
		ours[kind] = [2]string{s.by, notation(s.fields)}
	}
	if !maps.Equal(ours, theirs.Envelopes) {
		t.Errorf("envelopes: ours %v\nverify.py %v", ours, theirs.Envelopes)
	}
	if plain := slices.Sorted(slices.Values(plainKinds(t))); !slices.Equal(plain, theirs.Plain) {
		t.Errorf("plain kinds: README.md %v\nverify.py %v", plain, theirs.Plain)
	}
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
		dir := harmed(t, export, recordsFile, func(c []byte) []byte {
			at, cut = random.IntN(len(c)), random.IntN(4)
			return slices.Concat(c[:at], []byte(put), c[min(at+cut, len(c)):])
		})
		names[dir] = fmt.Sprintf("%d bytes at %d became %q", cut, at, put)
		dirs = append(dirs, dir)
	}
	agree(t, names, dirs, verdicts(t, false, keys, dirs...))
}

// agree compares what was found in each folder with what this package finds.
func agree(t *testing.T, names map[string]string, dirs []string, theirs map[string][]string) {
	t.Helper()
	opts := (&corpusCase{}).options(t) // the same two keys
	for _, dir := range dirs {
		res, err := VerifyExport(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if ours := printed(findings(res.Faults)); !slices.Equal(ours, theirs[dir]) {
			t.Errorf("%s: ours %q, verify.py %q", names[dir], ours, theirs[dir])
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
	for _, got := range verdicts(t, false, keys, dir)[dir] {
		if !strings.HasPrefix(got, "unknown_key\t") {
			t.Errorf("with another key trusted: %v", got)
		}
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
	for _, c := range corpusCases(t) {
		if !slices.Contains([]string{"plain-record-changed", "records-swapped", "record-deleted", "cut", "other-run", "signed-by-a-stranger",
			"changed-and-head-rewritten"}, c.Name) {
			continue
		}
		if _, code := runPython(t, false, "core.py", keys, c.made(t)); code == 0 {
			t.Errorf("%s is not found", c.Name)
		}
	}
}

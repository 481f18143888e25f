package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tipstaff/tipstaff/canon"
)

// corpusCase is an entry of corpus/index.json; corpus/README.md says what its
// fields mean. What it expects follows from README.md.
type corpusCase struct {
	Name    string    `json:"name"`
	Rule    string    `json:"rule"`
	Needs   string    `json:"needs,omitempty"`
	Export  string    `json:"export,omitempty"`
	Open    bool      `json:"open,omitempty"`
	Keys    string    `json:"keys,omitempty"`
	State   string    `json:"state,omitempty"`
	Changes []change  `json:"changes,omitempty"`
	Body    string    `json:"body,omitempty"`
	Value   int       `json:"value_bytes,omitempty"`
	Faults  []finding `json:"faults"`
	Exit    int       `json:"exit"`
}

type finding struct {
	Code FaultCode `json:"code"`
	Seq  int64     `json:"seq"`
	File string    `json:"file"`
}

type change struct {
	Op   string `json:"op"`
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	Hex  string `json:"hex,omitempty"`
	Text string `json:"text,omitempty"`
	To   string `json:"to,omitempty"`
	Size int64  `json:"size,omitempty"`
}

func corpusCases(t testing.TB) []corpusCase {
	t.Helper()
	b, err := os.ReadFile("corpus/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []corpusCase
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// apply does to the folder dir what a change says.
func (c change) apply(t testing.TB, dir string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(c.File))
	var err error
	switch c.Op {
	case "remove":
		err = os.Remove(path)
	case "move":
		err = os.Rename(path, filepath.Join(dir, c.To))
	case "link":
		err = os.Symlink(c.To, path)
	case "fifo":
		err = syscall.Mkfifo(path, 0o600)
	case "size":
		err = os.Truncate(path, c.Size)
	case "write":
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, []byte(c.Text), 0o600)
		}
	default:
		var content []byte
		if content, err = os.ReadFile(path); err == nil {
			lines := strings.SplitAfter(string(content), "\n")
			err = os.WriteFile(path, []byte(strings.Join(c.edit(t, lines), "")), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c change) edit(t testing.TB, lines []string) []string {
	t.Helper()
	at := c.Line - 1
	switch c.Op {
	case "replace":
		with := c.New
		if c.Hex != "" {
			b, err := hex.DecodeString(c.Hex)
			if err != nil {
				t.Fatal(err)
			}
			with = string(b)
		}
		if strings.Count(lines[at], c.Old) == 0 {
			t.Fatalf("%s has no %q in line %d", c.File, c.Old, c.Line)
		}
		lines[at] = strings.Replace(lines[at], c.Old, with, 1)
	case "line":
		lines[at] = c.Text + "\n"
	case "insert":
		lines = slices.Insert(lines, at, c.Text+"\n")
	case "delete":
		lines = slices.Delete(lines, at, at+1)
	case "cut":
		lines = lines[:at]
	default:
		t.Fatalf("no operation %q", c.Op)
	}
	return lines
}

// made is the case's export, with its changes, in a new folder.
func (c *corpusCase) made(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "export")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("corpus/exports", c.Export))); err != nil {
		t.Fatal(err)
	}
	for _, change := range c.Changes {
		change.apply(t, dir)
	}
	return dir
}

func (c *corpusCase) options(t testing.TB) *Options {
	t.Helper()
	trusted, err := ReadPublicKeys(filepath.Join("corpus", or(c.Keys, "keys")))
	if err != nil {
		t.Fatal(err)
	}
	plain := plainKinds(t)
	return &Options{Trusted: trusted, Open: c.Open, Kinds: func(kind string) bool { return slices.Contains(plain, kind) }}
}

// plainKinds is the list of README.md.
func plainKinds(t testing.TB) []string {
	t.Helper()
	section, ok := strings.CutPrefix(regexp.MustCompile(`(?s)## Plain kinds\n.*?\n\n    .*?\n\n`).FindString(readme(t)), "## Plain kinds\n")
	if !ok {
		t.Fatal("README.md has no list of plain kinds")
	}
	_, list, _ := strings.Cut(section, "\n\n")
	return strings.Fields(list)
}

// examine verifies what the case describes with this package.
func (c *corpusCase) examine(t testing.TB) []Fault {
	t.Helper()
	whole := filepath.Join("corpus/exports", c.Export)
	switch c.Needs {
	case "":
		res, err := VerifyExport(c.made(t), c.options(t))
		if err != nil {
			t.Fatal(err)
		}
		return res.Faults
	case "store":
		opts := c.options(t)
		opts.State, opts.Lifecycle = c.State, func(state string, e Record) string {
			if e.Kind == "intent.attest" {
				return "completed"
			}
			return state
		}
		v, h, dir := NewVerifier(opts), Hash{}, c.made(t)
		var hashes []Hash
		for b := range lines(whole, recordsFile) {
			h = h.Next(b)
			hashes = append(hashes, h)
		}
		i := 0
		for b := range lines(dir, recordsFile) {
			v.Add(b, &hashes[i])
			i++
		}
		return v.Close().Faults
	case "files":
		dir := t.TempDir()
		for b := range lines(whole, recordsFile) {
			if name, content, err := EnvelopeFile(b); err == nil && os.WriteFile(filepath.Join(dir, name), content, 0o600) != nil {
				t.Fatal(name)
			}
		}
		for _, change := range c.Changes {
			change.apply(t, dir)
		}
		faults, err := VerifyFiles(dir, lines(whole, recordsFile))
		if err != nil {
			t.Fatal(err)
		}
		return faults
	case "writer":
		_, err := canon.Exact([]byte(c.Body))
		if unsafe := new(canon.UnsafeNumber); errors.As(err, &unsafe) {
			err = ErrNumberUnsafe
		}
		if c.Value > 0 {
			_, err = Detach("effect.finished", false, []byte(`{"value":`+text(c.Value)+`}`), newLibrary().put)
		}
		var r Result
		if err != nil {
			r.fault(0, "", err)
		}
		return r.Faults
	}
	t.Fatalf("no verifier for what needs %q", c.Needs)
	return nil
}

func findings(faults []Fault) []finding {
	found := []finding{}
	for _, f := range faults {
		found = append(found, finding{f.Code, f.Seq, f.File})
	}
	return found
}

func TestCorpus(t *testing.T) {
	names := map[string]bool{}
	for _, c := range corpusCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			if names[c.Name] {
				t.Error("two cases have this name")
			}
			names[c.Name] = true
			if got := findings(c.examine(t)); !slices.Equal(got, c.Faults) {
				t.Errorf("found %v\nwant  %v", got, c.Faults)
			}
			if want := map[bool]int{true: 0, false: 6}[len(c.Faults) == 0]; c.Exit != want && c.Needs != "writer" {
				t.Errorf("exit %d with %d faults", c.Exit, len(c.Faults))
			}
		})
	}
}

// The corpus is of use only if it has every fault.
func TestCorpusHasEveryFault(t *testing.T) {
	source, err := os.ReadFile("fault.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range corpusCases(t) {
		for _, f := range c.Faults {
			found[string(f.Code)] = true
		}
	}
	names := regexp.MustCompile(`FaultCode += "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(names) < 24 {
		t.Fatalf("only %d names in fault.go", len(names))
	}
	for _, m := range names {
		// Whether a run asks for an anchor says its plan, which this package cannot read.
		if !found[m[1]] && FaultCode(m[1]) != ErrUnanchored {
			t.Errorf("no case has the fault %s", m[1])
		}
	}
}

// The corpus as a third party uses it: apply.py makes the exports, verify.py looks
// at them.
func TestPythonPassesCorpus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cases")
	if out, err := exec.Command(python(t), "-B", "corpus/apply.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	groups := map[string][]string{} // by the arguments they need
	for _, c := range corpusCases(t) {
		if c.Needs != "" {
			continue
		}
		args := filepath.Join("corpus", or(c.Keys, "keys"))
		if c.Open {
			args = "--open " + args
		}
		groups[args] = append(groups[args], filepath.Join(dir, c.Name))
	}
	found := map[string][]string{}
	for args, dirs := range groups {
		for dir, faults := range verdicts(t, false, args, dirs...) {
			found[filepath.Base(dir)] = faults
		}
	}
	for _, c := range corpusCases(t) {
		if c.Needs != "" {
			continue
		}
		if got, want := found[c.Name], printed(c.Faults); !slices.Equal(got, want) {
			t.Errorf("%s: verify.py found %q\nwant %q", c.Name, got, want)
		}
	}
}

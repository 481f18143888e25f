package mcp

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The protocol's suite plays the server in a number of scenarios and judges what
// its client sends. What Tipstaff is known to fail stands in conformance.yaml with
// the reason; anything else that fails, and anything listed that passes, is a
// fault.
func TestConformance(t *testing.T) {
	in := installed(t)
	known := knownFailures(t)
	has := map[string]bool{}
	for _, s := range in.scenarios(t) {
		has[s.name] = true
		for _, version := range s.versions {
			t.Run(s.name+" "+version, func(t *testing.T) {
				t.Parallel()
				in.judge(t, s.name, version, known)
			})
		}
	}
	for entry := range known {
		if name, _, _ := strings.Cut(entry, ":"); name != authorization && !has[name] {
			t.Errorf("conformance.yaml lists %s, which the suite does not have", name)
		}
	}
}

// knownFailures are the reasons, by scenario, or by scenario:check where only that
// check of it may fail.
func knownFailures(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Reason    string   `yaml:"reason"`
		Scenarios []string `yaml:"scenarios"`
	}
	if err := yaml.UnmarshalWithOptions(data, &groups, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, g := range groups {
		for _, s := range g.Scenarios {
			if g.Reason == "" || known[s] != "" {
				t.Errorf("conformance.yaml: %s is there twice, or without a reason", s)
			}
			known[s] = g.Reason
		}
	}
	return known
}

// authorization stands for all scenarios about it.
const authorization = "auth/*"

type scenario struct {
	name     string
	versions []string
}

// dated are the revisions whose servers behave differently: up to the first one
// there are sessions, from the second on there are none.
var dated = []string{"2025-11-25", "2026-07-28"}

var listedScenario = regexp.MustCompile(`(?m)^\s+- (\S+) \[(.*)\]$`)

// scenarios are all that the suite has for clients. Those about authorization are
// run once, as they all fail for one reason.
func (i installation) scenarios(t *testing.T) (list []scenario) {
	t.Helper()
	out, err := exec.Command(i.node, start(i.folder(suite)), "list", "--client").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range listedScenario.FindAllStringSubmatch(string(out), -1) {
		s := scenario{name: m[1]}
		versions := strings.Split(m[2], ",")
		for _, v := range dated {
			if slices.Contains(versions, v) && !strings.HasPrefix(s.name, strings.TrimSuffix(authorization, "*")) {
				s.versions = append(s.versions, v)
			}
		}
		if s.versions == nil {
			s.versions = versions[len(versions)-1:]
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		t.Fatalf("the suite lists no scenario:\n%s", out)
	}
	return list
}

// check is one finding of the suite.
type check struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// verdict is what the suite has to say of one scenario.
type verdict struct {
	failed  bool     // as the suite sees it
	checks  []string // that failed, sorted
	looked  bool     // at something: what is skipped counts neither way
	written string   // all that there is to read
}

// judge runs one scenario and compares its end with what is known of it.
func (i installation) judge(t *testing.T, name, version string, known map[string]string) {
	t.Helper()
	v := i.play(t, name, version)
	var excused []string
	for entry := range known {
		if scenario, check, one := strings.Cut(entry, ":"); one && scenario == name {
			excused = append(excused, check)
		}
	}
	slices.Sort(excused)
	if strings.HasPrefix(name, strings.TrimSuffix(authorization, "*")) {
		name = authorization
	}
	reason, whole := known[name]
	switch fails := v.failed || !v.looked; {
	case whole && !fails:
		t.Errorf("it passes: take it out of conformance.yaml, which says: %s", reason)
	case !whole && len(excused) > 0 && !slices.Equal(v.checks, excused):
		t.Errorf("conformance.yaml says that it fails at %v, but it fails at %v\n%s", excused, v.checks, v.written)
	case !whole && len(excused) == 0 && fails:
		t.Errorf("it fails\n%s", v.written)
	}
}

func (i installation) play(t *testing.T, name, version string) verdict {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tipstaff, err := command()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{start(i.folder(suite)), "client", "--command", self, "--scenario", name, "--output-dir", dir}
	if slices.Contains(dated, version) {
		args = append(args, "--spec-version", version)
	}
	c := exec.Command(i.node, args...)
	c.Env = append(os.Environ(), commandVariable+"="+tipstaff)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	v := verdict{failed: err != nil, written: string(out) + clientSaid(dir)}
	for _, c := range readChecks(t, dir) {
		switch c.Status {
		case "SUCCESS":
			v.looked = true
		case "FAILURE", "WARNING":
			v.checks = append(v.checks, c.ID)
		}
	}
	slices.Sort(v.checks)
	v.checks = slices.Compact(v.checks)
	return v
}

func readChecks(t *testing.T, dir string) (all []check) {
	t.Helper()
	for _, file := range resultFiles(dir, "checks.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// clientSaid is what the driver printed.
func clientSaid(dir string) string {
	var b strings.Builder
	for _, name := range []string{"stdout.txt", "stderr.txt"} {
		for _, file := range resultFiles(dir, name) {
			if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
				b.WriteString("\nthe client's " + name + ":\n" + string(text))
			}
		}
	}
	return b.String()
}

// resultFiles are below a folder for each scenario, whose name may have a slash.
func resultFiles(dir, name string) []string {
	shallow, _ := filepath.Glob(filepath.Join(dir, "*", name)) // the pattern is well-formed
	deep, _ := filepath.Glob(filepath.Join(dir, "*", "*", name))
	return append(shallow, deep...)
}

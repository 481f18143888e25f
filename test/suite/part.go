package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// part is one step of the suite: a call of go test, or a command.
type part struct {
	name, about string
	in          []string // the lists that it stands in: test, soak
	command     []string // in place of go test
	packages    []string // of go test
	without     []string // of those packages
	files       []string // of runner, the tests in these alone: names without _test.go
	build       []string // flags of go test that go build has, too
	flags       []string // others
	disk        bool     // tests write to the disk that there is, and not to memory
	env         []string // NAME=@FILE is what the file holds
}

// raced are the packages that start goroutines: their tests run under the race detector before a
// merge, and those of all the others in make soak. Those that take longest begin.
var raced = []string{"./store", "./runner", "./tool", "./worker", "./rpc", "./supervisor", "./web", "./sqlite", "./flow", "./flow/simtest", "./tool/builtin"}

// slowest are the other packages whose tests take longest: they begin.
var slowest = []string{"./cmd/tipstaff", "./test/golden", "./test/page", "./runner", "./delivery", "./docs", "./test/rpc", "./journal"}

// racedFiles hold the tests of runner that are about several at once: callers, servers, hosts,
// processes. The others drive one run after another, and take five times as long under the detector.
var racedFiles = []string{"bed", "child_pool", "correct_carry", "correct_owner", "elsewhere", "expiry", "fenced", "foreign", "handed_callers", "hosts", "launch", "look_internal", "message", "overtaken",
	"pipeline_draft", "pipeline_draft_agent", "pool", "queue", "queue_internal", "runner", "session", "talk", "told", "transient", "turn_crash", "watch", "withdrawn"}

// racedLater start goroutines, too. That they are raced in make soak alone has a reason.
var racedLater = map[string]string{
	"agent":        "one that reads a stream of events; whoever drives turns is runner",
	"cli":          "few, between a terminal and one run",
	"cmd/tipstaff": "its tests start the binary",
	"command":      "its tests start the binary",
	"e2e":          "one scenario, which runs against the binary",
	"mcpserver":    "its sessions are those of the SDK; the watch that it shares is raced in runner and web",
	"postgres":     "its tests need a server: make test-scale has the detector",
	"process":      "one, around a process",
	"telemetry":    "a queue of one exporter",
	"temporal":     "its tests need a server: make test-engine has the detector",
	"web/page":     "one reader of a feed; the feed is raced in web",
	".":            "readers of a watch, which runner and web race",
}

// before are the flags of what runs before a merge.
var before = []string{"-vet=off", "-short", "-shuffle=on", "-timeout=20m", atOnce()}

var parts = []part{
	{name: "checks", about: "what must hold of the text, all of it", in: []string{"soak"}, command: []string{"scripts/check.sh", "--all"}},
	{name: "servers", about: "MCP servers of others, from npm and PyPI, for the tests that need them", in: []string{"soak"}, command: []string{"scripts/mcp.sh", "--or-skip"}},
	{name: "race", about: "packages that start goroutines, under the race detector", in: []string{"test"},
		packages: raced, files: racedFiles, build: race(), flags: append([]string{"-ldflags=-s -w"}, before...),
		env: []string{"CGO_ENABLED=1", "TIPSTAFF_BINARY=bin/tipstaff", "TIPSTAFF_FLOWTEST=memory", "TIPSTAFF_SIM=5s"}},
	{name: "plain", about: "all other packages, and runner as a whole, compiled as the release is", in: []string{"test"},
		packages: append(slowest, "./..."), without: slices.DeleteFunc(slices.Clone(raced), func(p string) bool { return p == "./runner" }),
		build: released, flags: append([]string{"-ldflags=-s -w"}, before...),
		env: []string{"CGO_ENABLED=0", "TIPSTAFF_BINARY=bin/tipstaff", "TIPSTAFF_SIM=3s"}},
	{name: "engine", about: "the engine on SQLite", in: []string{"test"},
		packages: []string{"./sqlite"}, build: released, flags: append([]string{"-run=^TestFlow$", "-ldflags=-s -w"}, before...),
		env: []string{"CGO_ENABLED=0", "TIPSTAFF_FLOWTEST=sqlite"}},
	{name: "large", about: "the simulator at full speed, and what is large", in: []string{"test"},
		packages: []string{"./flow/simtest", "./flow", "./runner", "./test/rpc"}, build: released,
		flags: []string{"-run=^(TestSchedules|TestTheSameChoices.*|TestTooLarge.*)$", "-ldflags=-s -w", "-vet=off", "-shuffle=on", "-timeout=20m", atOnce()},
		env:   []string{"CGO_ENABLED=0", "TIPSTAFF_SIM=15s"}},

	{name: "simulator", disk: true, about: "schedules for as long as SIM says", in: []string{"soak"},
		packages: []string{"./flow/simtest", "./plan", "./pipeline", "./agent"}, build: released,
		flags: []string{"-vet=off", "-timeout=0", "-run=^(TestSchedules|TestSimulated)$"},
		env:   []string{"CGO_ENABLED=0", "TIPSTAFF_SIM=" + or("SIM", "10m"), "TIPSTAFF_SIM_SEED=" + or("SEED", "1")}},
	{name: "kills", disk: true, about: "hundreds of kills of real processes", in: []string{"soak"},
		packages: []string{"./cmd/tipstaff"}, build: race(), flags: []string{"-vet=off", "-timeout=120m", "-run=Kill"},
		env: []string{"CGO_ENABLED=1", "TIPSTAFF_KILLS=" + or("KILLS", "400")}},
	{name: "whole", disk: true, about: "every test in full, under the race detector", in: []string{"soak"},
		packages: []string{"./..."}, build: race(), flags: []string{"-vet=off", "-shuffle=on", "-timeout=180m", "-ldflags=-s -w"},
		env: []string{"CGO_ENABLED=1", "TIPSTAFF_FLOWTEST=sqlite,memory", "TIPSTAFF_MCP=@.cache/mcp/there"}},
	{name: "more", about: "what needs a registry, a server, a second binary or a module", in: []string{"soak"}, command: []string{"scripts/more.sh"}, env: []string{"RACING=yes"}},
}

// released are the flags of what is released, with which everything else is compiled, too.
var released = []string{"-trimpath"}

// race returns the flags of the race detector, which the Makefile has.
func race() []string { return strings.Fields(os.Getenv("RACE")) }

// atOnce is how many packages are tested at the same time: tests wait about as long as they
// compute, so three keep two cores busy.
func atOnce() string { return "-p=" + strconv.Itoa(max(1, runtime.NumCPU()*3/2)) }

func or(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// list returns the packages of a part.
func (p part) list() ([]string, error) {
	if slices.Equal(p.build, race()) && len(p.build) == 0 {
		return nil, fmt.Errorf("RACE names no flags of the race detector: start the suite with make")
	}
	var text string
	for _, pattern := range p.packages { // of several the go command makes a list in an order of its own
		one, err := goOutput(p.environ(), "list", pattern)
		if err != nil {
			return nil, err
		}
		text += one
	}
	var packages []string // in the order of the part
	for pkg := range strings.FieldsSeq(text) {
		if !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if len(p.without) > 0 {
		packages = slices.DeleteFunc(packages, func(pkg string) bool { return slices.Contains(p.without, "./"+short(pkg)) })
	}
	return packages, nil
}

var declared = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// unselected names the tests of runner that are in none of the files.
func unselected(root string, files []string) (names []string, err error) {
	all, err := filepath.Glob(filepath.Join(root, "runner", "*_test.go"))
	for _, file := range all {
		if slices.Contains(files, strings.TrimSuffix(filepath.Base(file), "_test.go")) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, err
}

// selected returns the flag that leaves out what is in none of the part's files.
func (p part) selected() ([]string, error) {
	if p.files == nil {
		return nil, nil
	}
	names, err := unselected(".", p.files)
	return []string{"-skip=^(" + strings.Join(names, "|") + ")$"}, err
}

// environ returns the part's own variables. Those that name a file in bin name it wholly.
func (p part) environ() (env []string) {
	for _, e := range p.env {
		name, value, _ := strings.Cut(e, "=")
		if file, ok := strings.CutPrefix(value, "@"); ok {
			b, _ := os.ReadFile(file) // there is none: nothing could be installed
			value = strings.TrimSpace(string(b))
		} else if strings.HasPrefix(value, "bin/") {
			if whole, err := filepath.Abs(value); err == nil {
				value = whole
			}
		}
		env = append(env, name+"="+value)
	}
	return env
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A bug holds one slip, and the suites that are to find it.
type bug struct {
	id string
	// guarantee is a number of docs/guarantees.md. 0: what breaks is a promise of another
	// page, which page names.
	guarantee int
	page      string
	says      string // the promise, as it stands on the page
	slip      string // what the engineer did, or thought

	file, old, new string

	// only says that nothing less finds it: processes or race. Whoever makes the tests
	// shorter must keep the suite that does.
	only level

	suites []suite // in the order in which they are tried, the cheapest first
}

// level orders suites by what they cost.
type level string

const (
	memory    level = "memory"    // flow/flowtest over the log in memory
	simulator level = "simulator" // flow/simtest
	inProcess level = "package"   // tests of one package that start no process of ours
	scripts   level = "scripts"   // transcripts of the command line
	golden    level = "golden"    // journals of earlier versions
	processes level = "processes" // real processes: kills, sweeps, tampering from outside
	race      level = "race"      // the race detector
)

var levels = []level{memory, simulator, inProcess, scripts, golden, processes, race}

// A suite names a run of go test.
type suite struct {
	level level
	pkg   string // a folder of the module
	run   string // what -run takes
	env   []string
}

// themes returns parts of flow/flowtest, which every log passes, over the log in memory.
func themes(names string) suite {
	return suite{level: memory, pkg: "flow/flowtest", run: "^TestMem$/^(" + names + ")$"}
}

// simulated returns programs under schedules that nobody thought of.
func simulated() suite {
	return suite{level: simulator, pkg: "flow/simtest", run: "^TestSchedules$", env: []string{"TIPSTAFF_SIM=5s", "TIPSTAFF_SIM_SEED=1"}}
}

// seeded returns the programs and schedules that have found something before.
func seeded() suite {
	return suite{level: simulator, pkg: "flow/simtest", run: "^TestSchedules$", env: []string{"TIPSTAFF_SIM=0s"}}
}

// tests returns some tests of a package. run takes names, separated by |.
func tests(pkg, run string) suite { return suite{level: inProcess, pkg: pkg, run: "^(" + run + ")$"} }

// rules returns some of those that every store passes, over SQLite.
func rules(names string) suite {
	return suite{level: inProcess, pkg: "sqlite", run: "^TestRules$/^(" + names + ")$"}
}

// script returns transcripts of the command line.
func script(names string) suite {
	return suite{level: scripts, pkg: "cmd/tipstaff", run: "^TestScripts$/^(" + names + ")$"}
}

// started returns tests that start processes of the command, or of programs that it runs.
func started(pkg, run string) suite {
	s := tests(pkg, run)
	s.level = processes
	return s
}

// builds reports whether tests of the suite build the command themselves.
func (s suite) builds() bool { return s.level == scripts || s.level == golden || s.level == processes }

// raced returns a suite under the race detector.
func raced(s suite) suite {
	s.level = race
	return s
}

// bugs returns all of them, by the guarantee that they break.
func bugs() []bug {
	return slices.Concat(kills, bounds, allowed, tampering, watching, programs, refusals, workers, others, engineBugs, moneyBugs, versionsBugs, serversBugs, shellBugs, trustBugs, clientsBugs, rightsBugs, ownrunBugs, auditBugs, deliveryBugs, writeBugs, gateBugs, gitBugs, clisBugs, filesBugs)
}

// promise returns what the bug breaks, with where it stands.
func (b bug) promise() string {
	says := strings.Join(strings.Fields(b.says), " ") // which may be broken into lines on the page
	if b.guarantee == 0 {
		return b.page + ": " + says
	}
	return fmt.Sprintf("%d. %s", b.guarantee, says)
}

func (b bug) onlyText() string {
	if b.only == "" {
		return ""
	}
	return " (only " + string(b.only) + ")"
}

// planted returns the text of the bug's file with the bug in it.
func (b bug) planted(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, b.file))
	if err != nil {
		return nil, fmt.Errorf("the list is stale: %w", err)
	}
	if n := strings.Count(string(text), b.old); n != 1 {
		return nil, fmt.Errorf("the list is stale: its text stands %d times in %s, and must once; write the bug anew in test/plant for the code as it is, or remove it there if it can no longer be made:\n%s", n, b.file, b.old)
	}
	return []byte(strings.Replace(string(text), b.old, b.new, 1)), nil
}

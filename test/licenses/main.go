// Command licenses checks that every module whose code is in the programs of this repository may
// be distributed with them: it reads the licence files in the module cache. It prints a line for
// each module that has none, or one that is not on the list.
//
// With -sbom FILE ARCHIVE PROGRAM it writes a bill of materials of the program in an archive of a
// release, with the licences that it finds in the same way.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences under which others' code may be part of a program under Apache-2.0.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-2-Clause-FreeBSD", "BSD-3-Clause", "BSD-3-Clause-NoTrademark", "ISC", "0BSD", "PostgreSQL", "Unlicense", "CC0-1.0", "CC-BY-4.0", "GooglePatentClause"}

// excepted are files of modules, or modules without one, that may stay for a reason.
var excepted = map[string]string{
	"github.com/nexus-rpc/nexus-proto-annotations": "one generated file of annotations that Temporal's API imports, without a licence file; by the authors of nexus-rpc/sdk-go, which is MIT",
	"modernc.org/sqlite/LICENSE-SQLITE":            "SQLite itself is in the public domain, and says so in words of its own",
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "-sbom" {
		if err := writeSBOM(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	modules, err := modules(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	used, faults := map[string]bool{}, 0
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		for file, why := range refused(modules[module]) {
			at := path.Join(module, file)
			if excepted[at] != "" {
				used[at] = true
				continue
			}
			faults++
			fmt.Printf("%s: %s\n", at, why)
		}
	}
	for at := range excepted {
		if !used[at] {
			faults++
			fmt.Printf("%s is excepted and need not be: take it out\n", at)
		}
	}
	if faults > 0 {
		fmt.Println("replace a module that may not be distributed; except one that may after all, in test/licenses, with the reason")
		os.Exit(1)
	}
	fmt.Printf("%d modules\n", len(modules))
}

// modules returns the folders of the modules that packages are built from, but for their own.
// env is added to the environment of the go command.
func modules(packages []string, env ...string) (map[string]string, error) {
	c := exec.Command("go", append([]string{"list", "-deps", "-json=Module"}, packages...)...)
	c.Env, c.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	found := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Module *struct {
				Path, Dir string
				Main      bool
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if m := p.Module; m != nil && !m.Main {
			found[m.Path] = m.Dir
		}
	}
}

var named = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$`)

// Not of the code: a picture; what the module's own dependencies are under, which are modules here.
var beside = regexp.MustCompile(`(?i)logo|3rd-?party|third-?party`)

// refused says why the module in a folder may not be used, by the file that says so; of one
// without a licence file the name is empty.
func refused(dir string) map[string]string {
	files, err := licenceFiles(dir)
	if err != nil {
		return map[string]string{"": err.Error()}
	}
	faults := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			faults[name] = err.Error()
		} else if why := refusedText(text); why != "" {
			faults[name] = why
		}
	}
	if len(files) == 0 {
		faults[""] = "it has no licence file"
	}
	return faults
}

func refusedText(text []byte) string {
	found := licensecheck.Scan(text)
	if len(found.Match) == 0 {
		return "it is no licence that is known"
	}
	for _, m := range found.Match {
		if !slices.Contains(allowed, m.ID) {
			return m.ID + " is not on the list"
		}
	}
	const least = 60 // percent of the text; the rest is names, notices and lists
	if found.Percent < least {
		return fmt.Sprintf("only %.0f percent of it is a licence that is known", found.Percent)
	}
	return ""
}

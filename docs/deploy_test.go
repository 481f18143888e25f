package docs_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tipstaff/tipstaff/workspace"
)

// deployed is what a file of deploy asks of the command: its command lines, the variables
// that it sets, the paths that are probed, and the manifests of workspaces in it.
type deployed struct {
	lines     [][]string
	variables []string
	probed    []string
	manifests []string
}

// walk collects from a document that was read from YAML.
func (d *deployed) walk(key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, v := range v {
			d.take(key, k, v)
			d.walk(k, v)
		}
	case []any:
		for _, v := range v {
			d.walk(key, v)
		}
	}
}

func (d *deployed) take(above, key string, v any) {
	text, _ := v.(string)
	list, _ := v.([]any)
	switch {
	case above == "environment":
		d.variables = append(d.variables, key)
	case above == "env" && key == "name":
		d.variables = append(d.variables, text)
	case above == "httpGet" && key == "path":
		d.probed = append(d.probed, text)
	case key == "tipstaff.yaml":
		d.manifests = append(d.manifests, text)
	case (key == "command" || key == "args") && len(list) > 0:
		var line []string
		for _, word := range list {
			text, _ := word.(string)
			line = append(line, text)
		}
		if line[0] != "sh" {
			d.lines = append(d.lines, line)
		}
	}
}

// What the files in deploy ask of the command exists: its flags, variables and routes.
func TestDeployedCommandsAreReal(t *testing.T) {
	var d deployed
	for _, name := range []string{"compose.yaml", "kubernetes.yaml"} {
		for part := range strings.SplitSeq(readPage(t, "../deploy/"+name), "\n---\n") {
			var document map[string]any
			if err := yaml.Unmarshal([]byte(part), &document); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			d.walk("", document)
		}
	}
	image := readPage(t, "../deploy/Dockerfile")
	var standard []string
	if err := json.Unmarshal([]byte(regexp.MustCompile(`(?m)^CMD (.*)$`).FindStringSubmatch(image)[1]), &standard); err != nil {
		t.Fatal(err)
	}
	d.lines = append(d.lines, standard)
	unit := regexp.MustCompile(`(?m)^ExecStart=\S+/tipstaff (.*)$`).FindStringSubmatch(readPage(t, "../deploy/tipstaff.service"))
	d.lines = append(d.lines, strings.Fields(unit[1]))
	for _, m := range regexp.MustCompile(`(?m)^ENV (\w+)=`).FindAllStringSubmatch(image, -1) {
		d.variables = append(d.variables, m[1])
	}
	d.manifests = append(d.manifests, readPage(t, "../deploy/tipstaff.yaml"))
	if len(d.lines) < 3 || len(d.probed) < 2 || len(d.manifests) < 2 {
		t.Fatalf("the files are not read as they are written: %+v", d)
	}
	for _, line := range d.lines {
		known := helpFlag.FindAllStringSubmatch(help(t, line[0]), -1)
		for _, word := range line[1:] {
			if flag, ok := strings.CutPrefix(word, "--"); ok && !slices.ContainsFunc(known, func(f []string) bool { return f[1] == flag }) {
				t.Errorf("%s has no flag %s", line[0], word)
			}
		}
	}
	global := help(t)
	for _, name := range d.variables {
		if strings.HasPrefix(name, "TIPSTAFF_") && !strings.Contains(global, "$"+name) {
			t.Errorf("the command knows no variable %s", name)
		}
	}
	routes := section(t, "http.md", "## Routes")
	for _, path := range d.probed {
		if !strings.Contains(routes, "`GET "+path+"`") {
			t.Errorf("%s is probed, which is no route", path)
		}
	}
	for _, text := range d.manifests {
		if _, problems := workspace.ParseIn(os.DirFS("../deploy"), "tipstaff.yaml", []byte(text)); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, text)
		}
		for _, m := range regexp.MustCompile(`\$env:(\w+)`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(d.variables, m[1]) {
				t.Errorf("%s is used and never set", m[1])
			}
		}
	}
}

package docs_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inputsOf are what plans need that have an input without default.
var inputsOf = map[string][]string{"approval.yaml": {"--input", "to=Ada"}}

func TestExamplesAreValid(t *testing.T) {
	plans, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(plans) < 2 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	deliveries, err := filepath.Glob("../examples/deliver/deliver.yaml")
	if err != nil || len(deliveries) != 1 {
		t.Fatalf("%d deliveries, %v", len(deliveries), err)
	}
	pipelines, err := filepath.Glob("../examples/pipelines/*.yaml")
	if err != nil || len(pipelines) < 2 {
		t.Fatalf("%d pipelines, %v", len(pipelines), err)
	}
	home := t.TempDir()
	examples := filepath.Join(newWorkspace(t, home), "examples")
	for _, program := range slices.Concat(plans, pipelines, deliveries) {
		name, workspace := filepath.Base(program), examples
		if below := filepath.Base(filepath.Dir(program)); below != "examples" {
			workspace = filepath.Join(examples, below)
		}
		if name == "tipstaff.yaml" || name == "script.yaml" {
			continue
		}
		command := exec.Command(filepath.Join(binDir, "tipstaff"), append([]string{"run", name, "--dry-run"}, inputsOf[name]...)...)
		command.Dir, command.Env = workspace, environment(home)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestDemo is make demo with nobody at the terminal.
func TestDemo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	demo := exec.CommandContext(ctx, "../examples/demo.sh")
	demo.Env = append(environment(home), "TIPSTAFF="+filepath.Join(binDir, "tipstaff"), "FILESERVER="+filepath.Join(binDir, "fileserver"))
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, said := range []string{"model is scripted", "Ada asks for the notes by Friday", "run  completed  success", "It is not known whether tool.call took effect", "conformance: ok", "signature_invalid", "deliver  check passed  test", "deliver  delivered  tipstaff/deliver/", "http://127.0.0.1:8080/ui/"} {
		if !strings.Contains(string(out), said) {
			t.Errorf("the demo never says %q:\n%s", said, out)
		}
	}
	if lines := strings.Count(string(out), "\n"); lines > 150 {
		t.Errorf("the demo says %d lines, which nobody reads", lines)
	}
	if left, _ := filepath.Glob(filepath.Join(home, "*")); len(left) > 0 {
		t.Errorf("the demo left %v behind", left)
	}
}

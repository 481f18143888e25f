package workspace_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// Whatever init is asked for, its manifest can be read and says what it should.
func TestStarter(t *testing.T) {
	example := workspace.StarterModel{Provider: "anthropic", Model: "a-1", Key: "A_KEY"}
	own := workspace.StarterModel{Provider: "openai", Model: "o-1", Key: "O_KEY"}
	for name, c := range map[string]struct {
		start   workspace.Start
		files   []string
		agent   string // the model of the agent
		worker  string // the type of the worker bound to implementer
		command []string
	}{
		"nothing": {workspace.Start{}, []string{"tipstaff.yaml", "hello.yaml"}, "", "", nil},
		"a repository": {workspace.Start{Worker: workspace.Scripted},
			[]string{"tipstaff.yaml", "hello.yaml", "deliver.yaml", "worker.yaml"}, "", "scripted", nil},
		"a coding CLI": {workspace.Start{Worker: "claude"}, []string{"tipstaff.yaml", "hello.yaml", "deliver.yaml"}, "", "claude", nil},
		"keys":         {workspace.Start{Models: []workspace.StarterModel{own, example}}, []string{"tipstaff.yaml", "hello.yaml"}, "openai", "", nil},
		"Python":       {workspace.Start{Python: true}, []string{"tipstaff.yaml", "hello.yaml", "headline.yaml", "agents.py"}, "", "", nil},
		"a server": {workspace.Start{Server: &workspace.StarterServer{Name: "odd", Command: []string{"a b", `say "hi"`, "#1", "$HOME", "ä: {"}}},
			[]string{"tipstaff.yaml", "hello.yaml"}, "", "", []string{"a b", `say "hi"`, "#1", "$HOME", "ä: {"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.start.Example = example
			var names []string
			files, beside := c.start.Files(), fstest.MapFS{}
			for _, f := range files {
				names = append(names, f.Name)
				beside[f.Name] = &fstest.MapFile{Data: f.Text}
			}
			if !slices.Equal(names, c.files) {
				t.Errorf("files %q", names)
			}
			m, problems := workspace.ParseIn(beside, "tipstaff.yaml", files[0].Text)
			if len(problems) > 0 {
				t.Fatalf("%v\n%s", problems, files[0].Text)
			}
			if a, _ := m.Agent(""); a.Model != c.agent {
				t.Errorf("the agent is %+v", a)
			}
			if m.Allows(flow.Once) || !m.Allows(flow.Idempotent) {
				t.Errorf("effects %v", m.AllowedEffects)
			}
			if bound := m.Bindings["implementer"]; (bound != "") != (c.worker != "") || bound != "" && m.Workers[bound].Type != c.worker {
				t.Errorf("implementer is %q of %+v", bound, m.Workers)
			}
			if c.command != nil && !slices.Equal(m.Servers["odd"].Command, c.command) {
				t.Errorf("the server is started as %q", m.Servers["odd"].Command)
			}
		})
	}
}

// What stands in a comment of the manifest is valid once the comment is taken away.
func TestStarterComments(t *testing.T) {
	start := workspace.Start{Example: workspace.StarterModel{Provider: "anthropic", Model: "a-1", Key: "A_KEY"}}
	text := string(start.Files()[0].Text)
	for _, line := range []string{"  # time: {", "# models:", "#   anthropic:", "# agents:", "#   default:"} {
		uncommented := strings.Replace(text, "\n"+line, "\n"+strings.Replace(line, "# ", "", 1), 1)
		if uncommented == text {
			t.Fatalf("there is no comment %q in\n%s", line, text)
		}
		text = uncommented
	}
	m, problems := workspace.Parse("tipstaff.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	if a, _ := m.Agent(""); a.Model != "anthropic" || len(m.Servers["time"].Command) == 0 {
		t.Errorf("agent %+v, servers %+v", a, m.Servers)
	}
}

// A folder without a manifest has tools that read, asked of nobody, and no others.
func TestImplicit(t *testing.T) {
	m, err := workspace.Implicit([]workspace.StarterModel{{Provider: "openai", Model: "o-1", Key: "O_KEY"}, {Provider: "anthropic", Model: "a-1", Key: "A_KEY"}})
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := m.Agent(""); a.Model != "openai" || !slices.Equal(a.Tools, []string{"builtin/*"}) {
		t.Errorf("the agent is %+v", a)
	}
	if other, _ := m.Model("anthropic"); other.Model != "a-1" || other.APIKey != "$env:A_KEY" {
		t.Errorf("the other model is %+v", other)
	}
	if !m.Allows(flow.Read) || m.Allows(flow.Idempotent) || m.Allows(flow.Once) {
		t.Errorf("effects %v", m.AllowedEffects)
	}
	// A run keeps that there was no file.
	if again, err := workspace.ParseFrozen(m.Frozen()); err != nil || !again.Implicit {
		t.Errorf("read again: %v", err)
	}
}

func TestNobodyWritesThatAManifestIsImplicit(t *testing.T) {
	if _, problems := workspace.Parse("tipstaff.yaml", []byte("implicit: true\n")); len(problems) != 1 || problems[0].Code != "field_unknown" {
		t.Errorf("%+v", problems)
	}
}

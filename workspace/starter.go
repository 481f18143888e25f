package workspace

import (
	"embed"
	"fmt"
	"strings"
)

// Start says what the files that a workspace begins with hold.
type Start struct {
	// Models are those whose keys are there. The first answers for the agent; none: the
	// manifest shows in a comment how one is added.
	Models []StarterModel
	// Example is the model of that comment.
	Example StarterModel
	// Worker is the type of the worker that makes changes, Scripted for one without a model;
	// "": there is no repository in which they could be made.
	Worker string
	// Python adds a pipeline whose stages are functions of a Python program.
	Python bool
	// Server is an MCP server; nil: the manifest shows one in a comment.
	Server *StarterServer
}

// StarterModel is a model that a starter manifest declares, under its provider's name.
type StarterModel struct {
	Provider string
	Model    string // as the vendor calls it
	Key      string // the variable that holds the key
}

// StarterServer is an MCP server that is started as a program.
type StarterServer struct {
	Name    string
	Command []string
}

// StarterFile is a file that a workspace begins with.
type StarterFile struct {
	Name string
	Text []byte
}

// Scripted is the type of worker that needs neither a CLI nor a model.
const Scripted = "scripted"

//go:embed starter
var starterFiles embed.FS

// Files returns the manifest, a plan, and a pipeline that delivers a change where there is
// a worker to make it.
func (s Start) Files() []StarterFile {
	names := []string{"hello.yaml"}
	if s.Worker != "" {
		names = append(names, "deliver.yaml")
	}
	if s.Worker == Scripted {
		names = append(names, "worker.yaml")
	}
	if s.Python {
		names = append(names, "headline.yaml", "agents.py")
	}
	files := []StarterFile{{"tipstaff.yaml", s.manifest()}}
	for _, name := range names {
		text, err := starterFiles.ReadFile("starter/" + name)
		if err != nil {
			panic("workspace: " + err.Error())
		}
		files = append(files, StarterFile{name, text})
	}
	return files
}

const starterTop = `# What runs in this folder may use. Whatever is not listed here is refused.
version: 1

# Effects that tools may have: read changes nothing, idempotent may be repeated. Add once,
# which must not happen twice, to let them start programs and send things.
allowed_effects: [read, idempotent]

servers:
  builtin:                  # tools that come with Tipstaff
    roots: ["."]            # they reach this folder and what is below it, nothing else
    tools: {list_dir: {}, read_file: {}, write_file: {}}
`

const starterServerComment = `
  # An MCP server of yours. "tipstaff tools pin" starts it, shows its tools and locks them.
  # time: {command: [uvx, mcp-server-time]}
`

const starterPolicy = `
policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
    # An agent asks before each call that no rule allows.
`

const starterNoModel = `
# An agent needs a model. With %[3]s set, this lets "tipstaff chat" talk to one:
# models:
#   %[1]s: {provider: %[1]s, model: %[2]s, api_key: "$env:%[3]s"}
# agents:
#   default: {model: %[1]s, tools: [builtin/*]}
`

const starterAgent = `
agents:
  default:                  # answers "tipstaff chat"
    model: %s
    tools: [builtin/*]      # all tools of that server above
    # system: You answer questions about this project, and quote what you rely on.
`

func (s Start) manifest() []byte {
	var b strings.Builder
	b.WriteString(starterTop)
	if s.Server == nil {
		b.WriteString(starterServerComment)
	} else {
		fmt.Fprintf(&b, "\n  %s:%s# \"tipstaff tools pin\" starts it, shows its tools and locks them\n    command: [%s]\n    # env: {TOKEN: \"$env:TOKEN\"}\n",
			s.Server.Name, strings.Repeat(" ", max(1, 25-len(s.Server.Name))), flowWords(s.Server.Command))
	}
	b.WriteString(starterPolicy)
	if len(s.Models) > 0 {
		b.WriteString("\n" + starterModels(s.Models))
		fmt.Fprintf(&b, starterAgent, s.Models[0].Provider)
	} else {
		fmt.Fprintf(&b, starterNoModel, s.Example.Provider, s.Example.Model, s.Example.Key)
	}
	switch s.Worker {
	case "":
	case Scripted:
		b.WriteString("\nworkers:                    # coding CLIs\n  # One line for a real one: coder: {type: claude, posture: write}, or codex, gemini, opencode.\n" +
			"  coder: {type: scripted, script: worker.yaml, posture: write}\nbindings: {implementer: coder}\n")
	default:
		fmt.Fprintf(&b, "\nworkers:                    # coding CLIs\n  coder: {type: %s, posture: write}\nbindings: {implementer: coder}\n", s.Worker)
	}
	return []byte(b.String())
}

func starterModels(models []StarterModel) string {
	var b strings.Builder
	b.WriteString("models:\n")
	for _, m := range models {
		fmt.Fprintf(&b, "  %s: {provider: %s, model: %s, api_key: \"$env:%s\"}\n", m.Provider, m.Provider, m.Model, m.Key)
	}
	return b.String()
}

// flowWords are texts as items of a list in YAML.
func flowWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, ", ")
}

// implicit is the manifest of a folder without one, below its models: an agent that reads.
const implicit = `
agents: {default: {model: %s, tools: [builtin/*]}}
servers: {builtin: {roots: ["."], tools: {list_dir: {}, read_file: {}}}}
allowed_effects: [read]
policy: {rules: [{id: reads, tool: "builtin/*", effect: read, do: allow}]}
`

// Implicit is the manifest of a workspace without one, for turns: its agent is answered for
// by the first of the models, of which there is at least one, and reads files.
func Implicit(models []StarterModel) (*Manifest, error) {
	m, problems := Parse("the manifest of a folder without tipstaff.yaml", []byte(starterModels(models)+fmt.Sprintf(implicit, models[0].Provider)))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].File, problems[0].Message)
	}
	m.Implicit = true
	return m, nil
}

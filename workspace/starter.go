package workspace

import (
	"fmt"
	"strings"
)

// StarterModel is a model that a starter manifest declares, under its provider's name.
type StarterModel struct {
	Provider string
	Model    string // as the vendor calls it
	Key      string // the variable that holds the key
}

// starter is what follows the models: tools that read, and leave to do it unasked.
const starter = `
agents:
  default:                  # answers ` + "`tipstaff chat`" + `
    model: %s
    tools: [builtin/*]      # all tools of that server below
    # system: You answer questions about this project, and quote what you rely on.

servers:
  builtin:                  # tools that come with Tipstaff
    roots: ["."]            # they reach this folder and what is below it, nothing else
    tools: {list_dir: {}, read_file: {}}

# Effects that tools may have at all. To let the agent write files, add idempotent
# here, and write_file: {} to the tools of builtin.
allowed_effects: [read]

policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
    # Every call that no rule speaks of is asked about.
`

// Starter is the text of a manifest to begin with: its agent is answered for by the first
// of the models, of which there is at least one, and reads files.
func Starter(models []StarterModel) []byte {
	var b strings.Builder
	b.WriteString("# What agents may use in this folder, and what they may do with it.\n\nmodels:\n")
	for _, m := range models {
		fmt.Fprintf(&b, "  %s: {provider: %s, model: %s, api_key: \"$env:%s\"}\n", m.Provider, m.Provider, m.Model, m.Key)
	}
	fmt.Fprintf(&b, starter, models[0].Provider)
	return []byte(b.String())
}

// Implicit is what Starter writes, for turns in a workspace that has no manifest.
func Implicit(models []StarterModel) (*Manifest, error) {
	m, problems := Parse("the manifest of a folder without tipstaff.yaml", Starter(models))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].File, problems[0].Message)
	}
	m.Implicit = true
	return m, nil
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// mcpEntry is what our server is called in the configuration of a client.
const mcpEntry = "tipstaff"

// mcpClient is how a client is told of a server: by a command of its own, which alone writes
// its files, or by text that a person pastes.
type mcpClient struct {
	file   string // of the project, that the text belongs into
	member string // of that file's JSON, with all servers; "": the file is TOML
	schema string // of the file, where it has one
	entry  func(argv []string) any
	// add are the words of the client's command, before those that start the server; nil: it
	// has none.
	add []string
}

// mcpClients are those that are known.
var mcpClients = map[string]mcpClient{
	"claude": {file: ".mcp.json", member: "mcpServers", add: []string{"claude", "mcp", "add", "--scope", "project", mcpEntry, "--"},
		entry: func(argv []string) any {
			return struct {
				Type string `json:"type"`
				commandEntry
			}{"stdio", commandEntry{argv[0], argv[1:]}}
		}},
	"cursor": {file: ".cursor/mcp.json", member: "mcpServers", entry: entryOf},
	"codex":  {file: ".codex/config.toml", add: []string{"codex", "mcp", "add", mcpEntry, "--"}},
	"gemini": {file: ".gemini/settings.json", member: "mcpServers", entry: entryOf, add: []string{"gemini", "mcp", "add", "--scope", "project", mcpEntry}},
	"opencode": {file: "opencode.json", member: "mcp", schema: "https://opencode.ai/config.json", add: []string{"opencode", "mcp", "add", mcpEntry, "--"},
		entry: func(argv []string) any {
			return struct {
				Type    string   `json:"type"`
				Command []string `json:"command"`
				Enabled bool     `json:"enabled"`
			}{"local", argv, true}
		}},
}

type commandEntry struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func entryOf(argv []string) any { return commandEntry{argv[0], argv[1:]} }

func mcpClientNames() []string { return slices.Sorted(maps.Keys(mcpClients)) }

// text is a configuration that has our server alone.
func (c mcpClient) text(argv []string) string {
	if c.member == "" { // texts and lists of them are written in TOML as in JSON
		return fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = %s\n", mcpEntry, jsonOf(argv[0]), jsonOf(argv[1:]))
	}
	schema := ""
	if c.schema != "" {
		schema = fmt.Sprintf(`"$schema":%s,`, jsonOf(c.schema))
	}
	text := fmt.Sprintf(`{%s%s:{%s:%s}}`, schema, jsonOf(c.member), jsonOf(mcpEntry), jsonOf(c.entry(argv)))
	var indented bytes.Buffer
	_ = json.Indent(&indented, []byte(text), "", "  ") // it was just written
	return indented.String() + "\n"
}

// command is the client's own command that adds our server; nil: it has none.
func (c mcpClient) command(argv []string) []string {
	switch {
	case c.add == nil:
		return nil
	case c.add[0] == "gemini": // which takes the command for one of its own words, and what comes after -- for the rest
		return slices.Concat(c.add, argv[:1], []string{"--"}, argv[1:])
	}
	return slices.Concat(c.add, argv)
}

// configure tells a client of our server, or says how a person does.
func (o *mcpOptions) configure(ctx context.Context, argv []string) error {
	c := mcpClients[o.config]
	dir, err := filepath.Abs(o.workspaceDir())
	if err != nil {
		return err
	}
	command := c.command(argv)
	if o.write && command != nil {
		code, err := o.env.RunClient(ctx, dir, command)
		if err == nil && code == 0 {
			o.sayDecide()
			return nil
		}
		why := fmt.Sprintf("%s has not added the server: it ended with code %d", command[0], code)
		if err != nil {
			why = fmt.Sprintf("%s cannot be started: %v", command[0], err)
		}
		return o.notAdded(c, dir, argv, why)
	}
	if o.write {
		return o.notAdded(c, dir, argv, o.config+" has no command that adds servers")
	}
	fmt.Fprint(o.out, c.text(argv))
	fmt.Fprintf(o.err, "this belongs into %s\n", clean(filepath.Join(dir, c.file)))
	if command != nil {
		fmt.Fprintf(o.err, "or, as --write does: %s\n", clean(shellLine(command)))
	}
	o.sayDecide()
	return nil
}

// notAdded gives a person the text that the client was not told.
func (o *mcpOptions) notAdded(c mcpClient, dir string, argv []string, why string) error {
	fmt.Fprint(o.out, c.text(argv))
	return tipstaff.Errorf(tipstaff.Refused, "%s", why).WithCommand("put the text above into %s: nothing was written", filepath.Join(dir, c.file))
}

// sayDecide says what the client may not do, and how a person lets it.
func (o *mcpOptions) sayDecide() {
	if !o.ReadOnly {
		fmt.Fprintln(o.err, "it decides no gates: you do, and --decide after the word mcp lets it")
	}
}

func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = tipstaff.ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

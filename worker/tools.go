package worker

import (
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// What a native tool does.
const (
	reads = "read"
	edits = "edit" // changes files
	execs = "exec" // runs commands
	nets  = "net"  // fetches
)

// nativeTool is a tool that a CLI brings along.
type nativeTool struct{ name, does string }

// tools are the native tools of a type that a posture is about.
func (t *cliType) tools() []nativeTool {
	var tools []nativeTool
	add := func(does string, names []string) {
		for _, n := range names {
			tools = append(tools, nativeTool{n, does})
		}
	}
	add(reads, t.reads)
	add(edits, slices.Sorted(maps.Keys(t.edits)))
	add(execs, t.execs)
	add(nets, t.nets)
	return tools
}

func (t *cliType) does(tool string) string {
	switch {
	case slices.Contains(t.execs, tool):
		return execs
	case slices.Contains(t.nets, tool):
		return nets
	}
	return ""
}

// class is the effect class of a tool of a server of the CLI.
func (t *cliType) class(server, tool string) flow.Class {
	if server == nativeServer(t.name) {
		return flow.Class(nativeClass(t.name, tool))
	}
	return flow.Once
}

// resolve is the server and the tool that a name in a CLI's stream stands for.
func (t *cliType) resolve(name string, servers []string) (server, tool string) {
	if t.mcpTool != nil {
		if server, tool, ok := t.mcpTool(name, servers); ok {
			return server, tool
		}
	}
	return nativeServer(t.name), name
}

// joined is how CLIs write the name of an MCP tool: a prefix, the server, a separator, the
// tool. Servers are looked up, for their names may contain the separator.
func joined(prefix, separator string) func(string, []string) (string, string, bool) {
	return func(name string, servers []string) (server, tool string, ok bool) {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			return "", "", false
		}
		for _, s := range servers {
			if t, ok := strings.CutPrefix(rest, s+separator); ok && t != "" && len(s) >= len(server) {
				server, tool = s, t
			}
		}
		return server, tool, server != ""
	}
}

// typeOf is the type of a name; one that is not known has no tools.
func typeOf(name string) *cliType {
	for _, r := range rowsOf(name) {
		return r.of
	}
	return &cliType{name: name}
}

// nativeClass is the effect class of a CLI's own tool.
func nativeClass(typ, tool string) string {
	if slices.Contains(typeOf(typ).reads, tool) {
		return string(flow.Read)
	}
	return string(flow.Once)
}

// nativeServer is the server that a CLI's own tools count as.
func nativeServer(typ string) string { return "worker-" + typ }

// plainName reports whether a name has the characters that names of tools have in policies.
func plainName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	})
}

// toolName is a tool by the name that policies and records have for it: one of the
// channel is tipstaff/<tool>, any other is the CLI's own.
func toolName(typ, name string) string {
	for _, prefix := range []string{"mcp__" + ServerName + "__", "mcp_" + ServerName + "_", ServerName + "_", ServerName + "/"} {
		own, ok := strings.CutPrefix(name, prefix)
		if ok && (own == ApproveTool || slices.Contains(taskTools(), own)) {
			return ServerName + "/" + own
		}
	}
	return nativeServer(typ) + "/" + name
}

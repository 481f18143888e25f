package worker

import (
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// ChannelServer is the name of the channel among the MCP servers of a CLI.
const ChannelServer = "tipstaff"

// ChannelTools are those that a model may call.
var channelTools = []string{"task_status", "task_set_status", "task_log", "task_ask", "task_output"}

// What a native tool does.
const (
	reads = "read"
	edits = "edit" // changes files
	execs = "exec" // runs commands
	nets  = "net"  // fetches
)

// nativeTool is a tool that a CLI brings along.
type nativeTool struct{ name, does string }

func native(does string, names ...string) []nativeTool {
	var tools []nativeTool
	for _, n := range names {
		tools = append(tools, nativeTool{n, does})
	}
	return tools
}

// NativeServer is the server under which the native tools of a type are known to policies.
func NativeServer(typ string) string { return "worker-" + typ }

// Class is the effect class of a native tool: that of a reading one is read, of all others
// once, also of those that nobody knows.
func Class(typ, tool string) flow.Class {
	for _, r := range rowsOf(typ) {
		return r.of.class(tool)
	}
	return flow.Once
}

func (t *cliType) class(tool string) flow.Class {
	for _, n := range t.tools {
		if n.name == tool && n.does == reads {
			return flow.Read
		}
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
	return NativeServer(t.name), name
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

package worker

import (
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// native are the tools of a CLI that need to be known by name. A tool that is not listed
// has an effect that must not be repeated.
type native struct {
	reads []string          // change nothing
	edits map[string]string // change a file: the argument that is its path
}

var natives = map[string]native{
	"claude": {
		reads: []string{"Read", "Grep", "Glob", "LS", "NotebookRead"},
		edits: map[string]string{"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"},
	},
	"gemini": {
		reads: []string{"read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search"},
		edits: map[string]string{"write_file": "file_path", "replace": "file_path"},
	},
	"opencode": {
		reads: []string{"read", "glob", "grep", "list"},
		edits: map[string]string{"edit": "filePath", "write": "filePath"},
	},
	"scripted": {
		reads: []string{"read_file", "list_dir", "json_query"},
		edits: map[string]string{"write_file": "path"},
	},
}

// nativeClass is the effect class of a CLI's own tool.
func nativeClass(typ, tool string) string {
	if slices.Contains(natives[typ].reads, tool) {
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

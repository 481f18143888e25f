// Package builtin holds the tools that come with Tipstaff: seven functions for
// files, HTTP, programs, queries and waiting.
//
// They are listed with definitions of the protocol, so that they are pinned and
// checked like the tools of any MCP server, and called as Go functions. What they
// may touch is what [Options] list and nothing else: files lie under roots,
// requests go to hosts, processes run programs. The package knows no runs beyond
// the two markers that its processes carry.
//
// Start at [Server.Call]; each tool has a file of its own.
package builtin

// Package builtin is the MCP server that comes with Tipstaff: seven tools for
// files, HTTP, programs, queries and waiting.
//
// It is a real server, spoken to over an in-memory connection, so that its tools
// are listed, pinned, checked and called like any other. What they may touch is
// what [Options] list and nothing else: files lie under roots, requests go to
// hosts, processes run programs. It imports nothing of ours and knows no runs
// beyond the two markers that its processes carry.
//
// Start at [New], then server.go; each tool has a file of its own.
package builtin

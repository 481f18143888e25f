// Package mcpserver is the control plane of runs for MCP clients: tools, resources and
// prompts over [tipstaff.Control], by way of standard input and output or over HTTP.
//
// It translates and holds no logic: each tool is one method of Control. It starts no
// process, opens no file and knows no store. Start at tools.go, the catalogue; server.go has
// what a call goes through, errors.go what becomes of an error.
package mcpserver

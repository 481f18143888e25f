// Package mcp holds no code, but tests: Tipstaff as it is released, against MCP
// servers that other people wrote and against the protocol's own conformance
// suite. scripts/mcp.sh installs both from npm and runs them (make test-mcp);
// without TIPSTAFF_MCP in the environment everything here is skipped, for a
// machine may have neither Node nor a network.
//
// The tests see what a user sees: they write a manifest and plans, start the
// command, and read what it prints. What the servers did is read elsewhere: from
// the files they wrote, from what came in at their standard input, from the table
// of processes.
//
// Start at workspace_test.go, then at the file that is named after a server.
// conformance_test.go runs the suite, and driver_test.go is the client that the
// suite starts.
package mcp

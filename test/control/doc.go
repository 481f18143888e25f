// Package control holds no code, but tests: the control plane of Tipstaff as it is released
// (tipstaff mcp, tipstaff serve), used by programs that other people wrote. They are the MCP
// Inspector and the protocol's conformance suite, the coding CLIs as clients of MCP, curl and a
// browser's EventSource, a client that is generated from the OpenAPI document and checked by
// its compiler, Prometheus, and k6 for load.
//
// scripts/control.sh installs them (make test-control). Without TIPSTAFF_CONTROL in the
// environment everything here is skipped, for a machine may have neither Node nor a network;
// what needs a program that could not be had is skipped, too, and says so.
//
// Start at bed_test.go, which has the workspace and the daemon, then at the file that is named
// after a program. What each tool and route promises is tried in the packages mcpserver and web.
package control

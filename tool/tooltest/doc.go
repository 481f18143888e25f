// Package tooltest is an MCP server for tests, written by hand so that it can do
// what no server should: answer twice or never, change its tools, print to the
// wrong place, leave processes behind, give credentials away.
//
// It runs as a process of its own: a test binary calls [Main] first thing in its
// TestMain, and is then a server wherever it is started with the arguments that
// [Command] gives. What the server does is chosen by options, which concern it as
// a whole, and by the tool that is called.
package tooltest

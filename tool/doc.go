// Package tool names tools, decides whether a call may be sent, and sends it.
//
// A tool is an MCP tool with a pinned name ([URI]). The [Manifest] declares which
// servers and tools exist here and what they may do; a [Registry] holds the
// definitions as servers list them on the wire, and can be frozen into a run; the
// [Lock] holds those that someone has accepted, and nothing else is called; the
// [Gate] is one pure function over these that allows, asks or refuses, each
// refusal with its own code. A [Manager] keeps the connections of one driven run
// and performs the activity tool.call, asking the gate again on the very bytes
// that it sends.
//
// Everything is denied unless it was declared. The package opens no gate of a
// run and writes no record but the output of a call. A [Server] gives a session, and
// all servers are called in the same way: the functions of builtin inside this
// process, programs over their input and output, others over HTTP.
//
// Credentials are references in the manifest. A [redact.Redactor] replaces their values by
// these references in everything that a server sends.
//
// Start at [Gate.Ask], then [Manager.Activity]; for servers at [Servers].
package tool

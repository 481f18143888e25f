// Package plan holds plan documents: trees of tool calls, steps, gates and
// child runs, with the values that pass between them. It reads them from YAML
// or JSON, says everything that is wrong with one at once, and walks one over a
// [flow.Context].
//
// The walk is deterministic. It reads no clock, starts no goroutine and does no
// I/O; what a leaf does is done by [Handlers]. What the package must know about
// tools, skills and agents it asks of a [Resolver]: it imports none of the
// packages that hold them.
//
// Start at [Check], which parses and validates, then [Document] and [Walk].
package plan

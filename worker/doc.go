// Package worker drives the coding CLIs of others: Claude Code, Codex, Gemini CLI,
// opencode, Cursor. A worker is a black box with a loop of its own. Tipstaff gives it a
// bounded place to run, a channel to report through, a policy for what it asks, and an
// end that is never misread.
//
// A type is a CLI, a worker a configured one. An invocation is one process of it, from
// spawn or resume to its end; a session is the CLI's own conversation, over several
// invocations. What the package needs of processes, policy, prices and the store it
// declares as interfaces, which are joined in cmd.
//
// Start at [Worker], then argv.go (how each CLI is called), stream.go (what it prints),
// channel.go (how it reports) and drive.go (how a run deals with all that).
package worker

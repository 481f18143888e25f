// Package api is a model's API on the loopback interface that says what a script tells it
// to say. It speaks the four dialects that coding CLIs speak, each by the routes and events
// of its vendor, so that the real programs can be run without a network and without a model:
// Anthropic Messages, OpenAI Responses, OpenAI chat completions and Gemini.
//
// A script is a list of turns. A request takes the first turn that is not used up and whose
// When is in its last message. Requests that a CLI makes on its own account, for a title or
// a probe, declare no tools: they get a short answer and take no turn. Every request is kept.
//
// Start at script.go, then server.go; each dialect has a file.
package api

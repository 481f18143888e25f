// Package provider holds the models that answer the agent loop: those of Anthropic,
// OpenAI and Google, those behind the chat completions format, and Scripted, which
// answers from a file for tests, demonstrations and replay.
//
// A provider makes exactly one attempt per Stream. Whether and when another one
// follows is the engine's decision; a provider only says, in a *flow.Error, whether
// it would help. It reads no environment: keys, addresses and prices are handed to
// it, and no key leaves it other than in the header of a request.
//
// Start reading at config.go ([Open]), then vendor.go, what vendors have in common, with
// anthropic.go, openai.go, openai_chat.go and gemini.go; scripted.go is the scripted model. Of what comes back, transport.go says
// how long it may take, events.go takes the stream apart, stream.go and the answers
// put the response together, and failure.go says what every fault means. What people
// write (tables of models, scripts) is read by package file.
//
// Requests are small types of our own, sent over plain HTTP: the vendors' SDKs were
// two fifths of the binary, and of the time to compile it, for this alone. Tests in
// test/referee, a module of its own, hold requests and answers against those SDKs.
package provider

// Package reply reads what vendors of models send: event streams of both formats,
// refusals, and connections that break. It does not know what is asked for, so that
// what comes from outside can be tested by itself.
//
// [Wire] is the way to one vendor. Its Ask sends a request and reads the answer: Do
// makes the one attempt, [Events] takes the stream apart, and Follow puts the answer
// together. failure.go says what every fault means, transport.go how long anything
// may take, text.go why text is read as raw JSON.
package reply

// Names of the formats, and of the vendors who made them.
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
)

package tipstaff

import "encoding/json"

// WorkerRequest is what a gate asks about that a worker's request has opened.
type WorkerRequest struct {
	Worker     string          `json:"worker"`
	Type       string          `json:"type"`
	CLIVersion string          `json:"cli_version"`
	Tool       string          `json:"tool"` // worker-<type>/<native name>
	Class      string          `json:"class"`
	Rule       string          `json:"rule"`
	Dir        string          `json:"dir"`
	Args       json.RawMessage `json:"args"`
	ArgsDigest string          `json:"args_digest"`
	Facts      json.RawMessage `json:"facts,omitempty"`
	Claim      string          `json:"claim,omitempty"` // what the CLI says of it
}

// WorkerQuestion is what a gate asks about that a worker has opened by a question, or by
// coming to nothing. The texts are the worker's own.
type WorkerQuestion struct {
	Worker     string   `json:"worker"`
	Task       string   `json:"task"`
	Question   string   `json:"question,omitempty"`
	Options    []string `json:"options,omitempty"`
	Outcome    string   `json:"outcome,omitempty"` // of an invocation that came to nothing
	Text       string   `json:"text,omitempty"`    // last of the worker
	StderrTail string   `json:"stderr_tail,omitempty"`
	Changed    []string `json:"changed,omitempty"` // files
}

package agent

import "context"

// Decision is an approver's answer. Its zero value denies.
type Decision int

const (
	Deny     Decision = iota
	Allow             // this call
	AllowAll          // and do not ask again this turn for the same tool, class and findings
)

// Approver answers approval gates for the library form and for chat.
type Approver interface {
	Approve(ctx context.Context, r ToolCallRequest) (Decision, error)
}

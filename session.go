package tipstaff

import (
	"context"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// WorkerSession is a conversation with a worker: the CLI's own, over several
// invocations. It takes one at a time.
type WorkerSession struct {
	ID          string              `json:"id"`         // a ULID
	SessionID   string              `json:"session_id"` // the CLI's; "": not known yet
	Previous    []string            `json:"previous_ids"`
	Worker      string              `json:"worker"`
	Type        string              `json:"type"`
	Family      string              `json:"family"`
	CLIVersion  string              `json:"cli_version"`
	Host        string              `json:"host"`
	Dir         string              `json:"dir"`
	Model       string              `json:"model,omitempty"`
	Posture     string              `json:"posture"`
	Settings    string              `json:"settings"`
	RoleDigest  string              `json:"role_digest,omitempty"`
	Run         string              `json:"run_id"`
	Path        string              `json:"path"` // of the step or stage, with the session's number there
	Task        string              `json:"task"`
	User        string              `json:"user"`
	State       SessionState        `json:"state"`
	Folder      string              `json:"folder"` // private files of the CLI
	Totals      SessionTotals       `json:"totals"`
	Invocations []SessionInvocation `json:"invocations"`
	Lease       *flow.Owner         `json:"lease,omitempty"` // who has an invocation under way
	CreatedAt   time.Time           `json:"created_at"`
	UpdatedAt   time.Time           `json:"updated_at"`
}

// SessionState is what is known of a session.
type SessionState string

const (
	SessionNew    SessionState = "new" // no event of it was seen
	SessionLive   SessionState = "live"
	SessionLost   SessionState = "lost"   // the CLI does not know it
	SessionClosed SessionState = "closed" // its task has ended
)

// SessionTotals are amounts as the CLI counts them over the session.
type SessionTotals struct {
	Usage   ModelUsage `json:"usage"`
	CostUSD USD        `json:"cost_usd"`
}

// SessionInvocation is one process of a session.
type SessionInvocation struct {
	ID       string          `json:"id"`
	Identity ProcessIdentity `json:"identity"`
	Started  time.Time       `json:"started_at"`
	Ended    time.Time       `json:"ended_at,omitzero"`
	Outcome  string          `json:"outcome,omitempty"` // "": it has not ended, or nobody saw it end
}

// Sessions are conversations: those of chat, whose turns are runs, and those of workers.
type Sessions interface {
	// Chats is a page of the conversations that the caller may see, the one that was taken
	// up last first.
	Chats(context.Context, ChatsRequest) (ChatPage, error)
	// Chat is one of them with its last turns, or with the last before a run. One that is
	// not there is session_unknown, another user's is forbidden.
	Chat(ctx context.Context, session string, before ID, turns int) (Chat, error)
	// Agents are those that a conversation can be begun with, sorted by name: what a worker
	// does is no conversation.
	Agents(context.Context) ([]AgentInfo, error)
	// WorkerSessions are the caller's, newest first.
	WorkerSessions(context.Context, SessionQuery) ([]WorkerSession, error)
}

// ChatsRequest selects conversations.
type ChatsRequest struct {
	Limit  int `json:"limit,omitempty"` // from 1 to 1000; 0 is 50
	Before ID  `json:"before,omitzero"` // those whose last turn is older than this run
}

// ChatPage is a page of conversations.
type ChatPage struct {
	Chats []Chat `json:"chats"` // each with its last turn
	Next  ID     `json:"next,omitzero"`
}

// Chat is a conversation and some of its turns.
type Chat struct {
	Session string `json:"session"`
	Opening string `json:"opening"`          // how its first message begins
	Turns   []Run  `json:"turns"`            // newest first, at least one
	Earlier ID     `json:"earlier,omitzero"` // the run before which there are more; zero: there are none
	Own     bool   `json:"own"`              // it is the caller's, who may go on with it
}

// Last is its newest turn, of those that it has here.
func (c Chat) Last() Run { return c.Turns[0] }

// AgentInfo is an agent of the workspace.
type AgentInfo struct {
	Name  string `json:"name"`
	Model string `json:"model"` // by its name in the manifest
}

// SessionQuery selects sessions of workers.
type SessionQuery struct {
	Prefix string `json:"prefix,omitempty"` // of the id
	Run    string `json:"run,omitempty"`
	All    bool   `json:"all,omitempty"` // closed and lost ones, too
}

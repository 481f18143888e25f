package tipstaff

import "time"

// FolderTrust is whether a user trusts a workspace: whether what it would have started or sent
// may be.
type FolderTrust struct {
	Workspace string    `json:"workspace"` // links resolved
	Trusted   bool      `json:"trusted"`
	Starts    []string  `json:"starts"`          // what it would have started or sent; none: it needs no trust
	Was       []string  `json:"was,omitempty"`   // what was on the list that was trusted, if that is another
	Why       string    `json:"why,omitempty"`   // it is not trusted
	Since     time.Time `json:"since,omitzero"`  // when it was trusted
	Digest    string    `json:"digest,omitzero"` // of the list
}

// Refusal is why nothing is started or sent in a workspace that is not trusted.
func (t FolderTrust) Refusal() error {
	return Errorf(WorkspaceUntrusted, "%s is not trusted: %s", t.Workspace, t.Why).
		WithHint("its owner has to trust it first").
		WithCommand("`tipstaff trust --workspace %s` shows what that is, and asks", ShellWord(t.Workspace))
}

package tipstaff

import "encoding/json"

// Bodies of the records of delivery.

// RunFiles is where the agents of a run work. It is settled when the run is made.
type RunFiles struct {
	Mode  string           `json:"mode"`            // worktree or checkout
	Place *RepositoryPlace `json:"place,omitempty"` // of a worktree
	Base  string           `json:"base,omitempty"`  // the commit that it begins with
}

// RepositoryPlace is where a repository lies. It is recorded with a run, so that nothing
// is looked for again where an agent may have moved it.
type RepositoryPlace struct {
	Checkout string `json:"checkout"`         // the top of the user's working tree
	Prefix   string `json:"prefix,omitempty"` // of the project below it, with slashes; "": the top
	GitDir   string `json:"git_dir"`
	Common   string `json:"common_dir"` // the same, unless the checkout is a worktree itself
	Format   string `json:"format"`     // of object names: sha1 or sha256
}

// WorktreeCreated is the body of worktree.created.
type WorktreeCreated struct {
	Path     string `json:"path"`
	Branch   string `json:"branch"`
	Base     string `json:"base"`     // the commit that it begins with
	Checkout string `json:"checkout"` // of the user: where `apply` would put the changes
	Dirty    int    `json:"dirty,omitempty"`
}

// FileChange is how one file differs from the base.
type FileChange struct {
	Path      string `json:"path"`
	Old       string `json:"old,omitempty"` // what it was called before, if it was moved
	Status    string `json:"status"`        // added, modified, deleted, renamed, type
	Added     int64  `json:"added,omitempty"`
	Removed   int64  `json:"removed,omitempty"`
	Binary    bool   `json:"binary,omitempty"`    // or too large for its lines to be counted
	Untracked bool   `json:"untracked,omitempty"` // it is new, and the agent has not added it to git
	Submodule bool   `json:"submodule,omitempty"` // it is a commit of another repository
}

// Statuses of a [FileChange].
const (
	FileAdded    = "added"
	FileModified = "modified"
	FileDeleted  = "deleted"
	FileRenamed  = "renamed"
	FileRetyped  = "type" // a file became a link, or the other way about
)

// DiffRecorded is the body of diff.recorded: what has changed since the base.
type DiffRecorded struct {
	Stage     string `json:"stage,omitempty"` // <stage>#<visit>, of what one step has left; "": at the end
	Base      string `json:"base"`
	Tree      string `json:"tree"`
	Patch     string `json:"patch_digest"` // of the text for people
	List      string `json:"list_digest"`  // of a list of [FileChange]
	Files     int    `json:"files"`
	Added     int64  `json:"added"`
	Removed   int64  `json:"removed"`
	Truncated bool   `json:"truncated,omitempty"` // the patch leaves files out: it would be too long
}

// Receipt is what is known of a check: it holds for the tree that it ran on, and for no
// other.
type Receipt struct {
	Name     string   `json:"name"`
	Argv     []string `json:"argv"`
	Required bool     `json:"required"`
	Tree     string   `json:"tree"`
	ExitCode int      `json:"exit_code"`
	Code     string   `json:"code,omitempty"`    // why it could not be run, or did not end; "": it ended by itself
	Message  string   `json:"message,omitempty"` // of that
	Output   string   `json:"output_digest,omitempty"`
	Ms       int64    `json:"duration_ms"`
}

// Passed reports whether the check is good for a tree.
func (r Receipt) Passed(tree string) bool { return r.Code == "" && r.ExitCode == 0 && r.Tree == tree }

// CheckFinished is the body of check.finished.
type CheckFinished struct {
	Receipt
}

// DeliveryCommitted is the body of delivery.committed.
type DeliveryCommitted struct {
	Gate   string `json:"gate"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// DeliveryApplied is the body of delivery.applied.
type DeliveryApplied struct {
	Gate    string `json:"gate"`
	Commit  string `json:"commit"`
	Patch   string `json:"patch_digest"`
	Already bool   `json:"already,omitempty"` // the checkout had the changes before
}

// DeliverySkipped is the body of delivery.skipped.
type DeliverySkipped struct {
	Gate string `json:"gate,omitempty"` // "": nothing had changed, and nobody was asked
	By   string `json:"by,omitempty"`
}

// FollowupCreated is the body of followup.created.
type FollowupCreated struct {
	Child string `json:"child"`
	Gate  string `json:"gate"`
	By    string `json:"by"`
}

// FollowupFixedPoint is the body of followup.fixed_point: a follow-up has left everything
// as it stood at its parent's gate.
type FollowupFixedPoint struct {
	Parent string `json:"parent"`
	Fixpoint
}

// Fixpoint is what two runs are compared by: the second of two that agree in it has
// changed nothing that matters.
type Fixpoint struct {
	Tree     string   `json:"tree"`
	Findings []string `json:"findings"` // ids of those that are open, sorted
	Failing  []string `json:"failing"`  // names of checks, sorted
}

// Notice is something that a decider should know, and that blocks nothing.
type Notice struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

package tipstaff

import (
	"encoding/json"
	"fmt"
	"strings"
)

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
	// Own is of a run whose worktree has a repository of its own; nil: it was made earlier,
	// and the worktree is one of the repository's.
	Own *OwnRepository `json:"own,omitempty"`
}

// OwnRepository is how the repository of a run's own is made, and what was so in the user's
// when the run was made.
type OwnRepository struct {
	Name     string            `json:"name"` // of the user: author and committer
	Email    string            `json:"email"`
	Settings []GitSetting      `json:"settings"`        // that are taken over
	Guard    map[string]string `json:"guard,omitempty"` // digests of settings that start or redirect something, by key
	// GuardRule is the version of the rule that says which settings these are. Earlier runs
	// have none, or GuardsRemotes in its place, which is version 1.
	GuardRule     int  `json:"guard_rule,omitempty"`
	GuardsRemotes bool `json:"guards_remotes,omitempty"`
}

// GitSetting is an entry of git's configuration.
type GitSetting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// WorktreeCreated is the body of worktree.created.
type WorktreeCreated struct {
	Path     string `json:"path"`
	Branch   string `json:"branch"`
	Base     string `json:"base"`     // the commit that it begins with
	Checkout string `json:"checkout"` // of the user: where `apply` would put the changes
	Dirty    int    `json:"dirty,omitempty"`
}

// WorktreePrepared is the body of worktree.prepared: what a worktree was given beside the
// files of its base, before anybody worked there.
type WorktreePrepared struct {
	Copied     int               `json:"copied,omitempty"` // files of the checkout
	Bytes      int64             `json:"bytes,omitempty"`  // of these
	Linked     []LinkedFile      `json:"linked,omitempty"`
	Submodules bool              `json:"submodules,omitempty"`
	LFS        bool              `json:"lfs,omitempty"`
	Ports      []int             `json:"ports,omitempty"`
	LeftOut    []FileLeftOut     `json:"left_out,omitempty"` // the first of what was named and is not there
	Teardown   []TeardownCommand `json:"teardown,omitempty"` // what runs when the worktree goes
}

// String is what was given, in words.
func (b WorktreePrepared) String() string {
	var words []string
	if b.Copied > 0 {
		words = append(words, Plural(b.Copied, "file")+" copied")
	}
	for _, l := range b.Linked {
		words = append(words, l.Path+" linked")
	}
	if b.Submodules {
		words = append(words, "submodules")
	}
	if b.LFS {
		words = append(words, "contents of git LFS")
	}
	for _, p := range b.Ports {
		words = append(words, fmt.Sprintf("port %d", p))
	}
	for _, f := range b.LeftOut {
		words = append(words, f.Path+" left out: "+f.Why)
	}
	return strings.Join(words, ", ")
}

// LinkedFile is a file or folder of the checkout that a worktree has a link to.
type LinkedFile struct {
	Path   string `json:"path"`   // in the worktree, and in the checkout
	Source string `json:"source"` // where it lies
	Digest string `json:"digest"` // of what it held
}

// FileLeftOut is something that was to be copied or linked, and was not.
type FileLeftOut struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// TeardownCommand is a command that runs when a worktree goes.
type TeardownCommand struct {
	Argv    []string `json:"argv"`
	Timeout string   `json:"timeout"`
}

// Phases of the commands around the work in a worktree.
const (
	PhaseSetup    = "setup"
	PhaseTeardown = "teardown"
)

// SetupFinished is the body of setup.finished: a command has made a worktree ready, or has
// ended what was made.
type SetupFinished struct {
	Phase string `json:"phase"`
	Receipt
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

// ObeyedFile is a changed file of which more is to be known than that it has changed: programs
// obey it, it leads elsewhere or can be started, or it is not delivered as it lies in the
// worktree.
type ObeyedFile struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	Apply  string `json:"apply,omitempty"` // what `apply` does with it; "": what it does with every file
}

// Kinds of an [ObeyedFile], in the order in which gates name them.
const (
	ObeyedDecides    = "decides"       // about what runs may do and start
	ObeyedLeaves     = "link"          // out of the tree, or to what decides
	ObeyedElsewhere  = "configuration" // of other agents, editors and CI
	ObeyedStarted    = "executable"    // that was none before
	ObeyedRepository = "submodule"
	ObeyedLeftOut    = "not_delivered"
	ObeyedRaw        = "unfiltered" // it is delivered, but not as its filter would store it
)

// What `apply` does with an [ObeyedFile].
const (
	ApplyNever = "never"
	ApplyAsks  = "asks" // once more, naming it
)

// FolderChange is how much has changed below a folder.
type FolderChange struct {
	Path    string `json:"path"` // "": the top itself
	Files   int    `json:"files"`
	Added   int64  `json:"added,omitempty"`
	Removed int64  `json:"removed,omitempty"`
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
	// Notices are of what was done beside the worktree: by one step, or at the end by all.
	Notices []Notice `json:"notices,omitempty"`
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
	In       string   `json:"in,omitempty"` // clean: in the clean checkout; else in the worktree, which checks of newer runs say
}

// Where a check, or a command of a set-up, has run.
const (
	InClean    = "clean"    // in a checkout of what is delivered, and nothing else
	InWorktree = "worktree" // where the program has worked, with whatever lies there
)

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

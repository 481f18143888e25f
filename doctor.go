package tipstaff

// Severities of a [Diagnostic].
const (
	SeverityError   = "error"   // something is lost, or cannot be used
	SeverityWarning = "warning" // nothing is lost, but something should be done
	SeverityNote    = "note"    // nothing is wrong, and it is good to know
)

// Diagnostic is something that is wrong with a workspace, or good to know of it, and what to
// do about it.
type Diagnostic struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Where    string `json:"where"` // a file, a folder or a run
	Message  string `json:"message"`
	Remedy   string `json:"remedy"`
}

// Backup is what a copy of a workspace holds.
type Backup struct {
	Dir     string   `json:"dir"`
	Runs    int64    `json:"runs"`
	Records int64    `json:"records"`
	Blobs   int      `json:"blobs"`
	Missing int      `json:"missing_blobs"` // that its records may name and nobody has
	Files   []string `json:"files"`         // of the workspace, beside its store
}

// StoreCopy is what was copied from one store to another.
type StoreCopy struct {
	From    string `json:"from"` // a folder, or an address without its password
	To      string `json:"to"`
	Runs    int64  `json:"runs"`
	Records int64  `json:"records"`
	Blobs   int64  `json:"blobs"`
	Missing int64  `json:"missing_blobs"` // that its records may name and nobody has
	Tasks   int64  `json:"tasks"`
	Memory  int64  `json:"memory"` // records of it
	Keys    string `json:"keys"`   // the folder with the keys that the copy goes on with
}

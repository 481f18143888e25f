package tipstaff

// Backup is what a copy of a workspace holds.
type Backup struct {
	Dir     string   `json:"dir"`
	Runs    int64    `json:"runs"`
	Records int64    `json:"records"`
	Blobs   int      `json:"blobs"`
	Missing int      `json:"missing_blobs"` // that its records may name and nobody has
	Files   []string `json:"files"`         // of the workspace, beside its store
}

package tipstaff

// Correction is a revised program for a run that is executing.
type Correction struct {
	Program []byte // YAML or JSON
	Name    string // of the file, for messages
	Reason  string // why, for the record; required
}

// Corrected is a correction that was handed in. One that is material takes effect
// when somebody has accepted it, another at once.
type Corrected struct {
	Revision int `json:"revision"` // its number; the program that a run starts with is 1
	Classification
}

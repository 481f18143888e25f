package tipstaff

// Severities of a [Diagnostic].
const (
	SeverityError   = "error"   // something is lost, or cannot be used
	SeverityWarning = "warning" // nothing is lost, but something should be done
)

// Diagnostic is something that is wrong with a workspace, and what to do about it.
type Diagnostic struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Where    string `json:"where"` // a file, a folder or a run
	Message  string `json:"message"`
	Remedy   string `json:"remedy"`
}

package tipstaff

// WorkerInfo is a worker, and what is bound to it.
type WorkerInfo struct {
	Name    string       `json:"name"`
	Type    string       `json:"type"`
	Set     string       `json:"set"`              // where: tipstaff.yaml, or built in
	Command string       `json:"command"`          // that is looked for
	Binary  string       `json:"binary,omitempty"` // that was found; "": none
	Version string       `json:"version,omitempty"`
	Model   string       `json:"model,omitempty"`   // "": the CLI's own choice
	Posture string       `json:"posture"`           // outside of roles
	Roles   []WorkerRole `json:"roles"`             // that are bound to it
	Trouble string       `json:"trouble,omitempty"` // why it cannot run
}

// WorkerRole is a role that is bound to a worker.
type WorkerRole struct {
	Name    string `json:"name"`
	Set     string `json:"set"`     // where: bindings.NAME, a variable, or default
	Posture string `json:"posture"` // of the worker in this role
}

// WorkerCheck is how a worker would be run, and what is wrong with it.
type WorkerCheck struct {
	WorkerInfo
	Family        string   `json:"family,omitempty"`
	Source        string   `json:"source,omitempty"`       // of its command line: tested, or documented
	Missing       []string `json:"missing"`                // flags that its help does not show
	Resume        bool     `json:"resume"`                 // it can go on with a session
	SessionFrom   string   `json:"session_from,omitempty"` // who makes the id of a session: tipstaff or cli
	Permission    string   `json:"permission,omitempty"`   // hook: it asks before each call; compiled: it is told the rules before it starts
	Inexpressible []string `json:"inexpressible"`          // rules that it cannot be told
	Containment   string   `json:"containment,omitempty"`  // of its processes, here
	Credentials   []string `json:"credentials"`            // names of variables that are set
	EndLimits     []string `json:"end_limits"`             // limits that are known to be reached only at the end of a turn
	Warnings      []string `json:"warnings"`               // that do not keep it from running
	Code          Code     `json:"code,omitempty"`         // of Trouble
}

// Bound reports whether work comes to the worker without being given to it by name.
func (w WorkerInfo) Bound() bool { return len(w.Roles) > 0 }

// WorkerNotLookedAt is the trouble of a worker whose CLI is not started, because its workspace is
// not trusted.
const WorkerNotLookedAt = "not looked at: untrusted"

package workspace

import "github.com/tipstaff/tipstaff"

// MCP is what the manifest says of MCP clients.
type MCP struct {
	// Elicitation says which gates a client may put to its person, whose answer it then
	// reports: nobody else has seen that it was the person's.
	Elicitation string `doc:"elicitation,in=on|off|all"` // "": on
}

// Elicits reports whether an answer that an MCP client reports closes a gate of a kind. What
// changes the user's files, and what says of a call whether it took place, is for a person to
// say where we see them.
func (m *Manifest) Elicits(kind tipstaff.GateKind) bool {
	switch m.orNone().MCP.Elicitation {
	case "off":
		return false
	case "all":
		return true
	}
	return kind != tipstaff.Delivery && kind != tipstaff.InDoubt
}

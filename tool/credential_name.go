package tool

import (
	"regexp"
	"strings"
)

// credentialName are the words by which a name says that its value is secret.
var credentialName = regexp.MustCompile(`auth|cookie|token|secret|passw|api-?key|credential|private-?key|session`)

// speaksOfCredentials reports whether a value of this name is a credential. Case
// and the kind of dash do not matter.
func speaksOfCredentials(name string) bool {
	return credentialName.MatchString(strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

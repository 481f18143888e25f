package document

import "regexp"

// Verbs are what plans and skills are for; x:<name> is another: see [IsExtension].
var Verbs = []string{"find", "acquire", "build", "modify", "deliver", "analyze", "negotiate", "schedule", "monitor", "delegate"}

var (
	extensionForm = regexp.MustCompile(`^x:[a-z0-9][a-z0-9_-]{0,63}$`)
	nameForm      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// IsExtension reports whether a word is x:<name>, which authors may use beside the words
// that are known.
func IsExtension(word string) bool { return extensionForm.MatchString(word) }

// IsName reports whether an input or an output may be called so: 1 to 64 of A-Z,
// a-z, 0-9, _ and -.
func IsName(name string) bool { return nameForm.MatchString(name) }

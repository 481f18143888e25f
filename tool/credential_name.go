package tool

import (
	"math"
	"net/url"
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

// credentialOption are the options whose values are credentials, not the names of
// files that hold them, or numbers of tokens.
var credentialOption = regexp.MustCompile(`^-{1,2}([a-z0-9]+[-_])*(token|secret|passwd|password|passphrase|api[-_]?key|access[-_]?key|secret[-_]?key|auth[-_]?key|bearer)$`)

// assignment is an argument that gives a variable or a header a value.
var assignment = regexp.MustCompile(`^-{0,2}([A-Za-z][A-Za-z0-9_-]*)\s*[=:]\s*(.+)$`)

// credentialArgument is the argument of a command that is a credential; -1: there is
// none.
func credentialArgument(argv []string) int {
	for i, arg := range argv {
		if i == 0 {
			continue
		}
		if credentialOption.MatchString(strings.ToLower(argv[i-1])) && !strings.HasPrefix(arg, "-") && secretLike(arg) {
			return i
		}
		parts := assignment.FindStringSubmatch(arg)
		if parts == nil || !secretLike(parts[2]) {
			continue
		}
		option := strings.HasPrefix(arg, "-")
		if option && credentialOption.MatchString("--"+strings.ToLower(parts[1])) || !option && speaksOfCredentials(parts[1]) {
			return i
		}
	}
	return -1
}

// secretLike reports whether a value can be a credential: it is not the name of a
// variable that a program puts in place itself, and not a path.
func secretLike(value string) bool {
	return value != "" && !strings.HasPrefix(value, "$") && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "./") && !strings.Contains(value, "${")
}

var randomForm = regexp.MustCompile(`^[A-Za-z0-9+/_=-]{32,}$`)

// looksRandom reports whether a text looks like a key that a machine has made:
// long, of one piece, of letters in both cases and digits, without repetition.
func looksRandom(text string) bool {
	if !randomForm.MatchString(text) || strings.HasPrefix(text, "/") || strings.Count(text, "/") > 3 {
		return false
	}
	count, kinds := map[rune]float64{}, map[string]bool{}
	for _, r := range text {
		count[r]++
		switch {
		case r >= '0' && r <= '9':
			kinds["digit"] = true
		case r >= 'a' && r <= 'z':
			kinds["lower"] = true
		case r >= 'A' && r <= 'Z':
			kinds["upper"] = true
		}
	}
	bits := 0.0
	for _, n := range count {
		p := n / float64(len(text))
		bits -= p * math.Log2(p)
	}
	return len(kinds) == 3 && bits > 4
}

// password is that of a URL; "" if a text is none or has none.
func password(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return ""
	}
	p, _ := u.User.Password()
	return p
}

// placeholder is a way in which other programs write the value of a variable.
var placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}|^\$\(?([A-Za-z_][A-Za-z0-9_]*)\)?$`)

// foreignReference is the variable that a text means by what is no reference here;
// "": there is none.
func foreignReference(text string) string {
	parts := placeholder.FindStringSubmatch(text)
	switch {
	case parts == nil:
		return ""
	case parts[1] != "":
		return parts[1]
	}
	return parts[2]
}

package workspace

import (
	"cmp"
	"math"
	"regexp"
	"strings"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/redact"
)

// secretShapes are texts that are credentials whatever name they stand under.
var secretShapes = []struct {
	name string
	form *regexp.Regexp
}{
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)},
	{"an API key", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{8,}`)},
	{"a GitHub token", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{8,}`)},
	{"a Slack token", regexp.MustCompile(`\bxox[a-z]-[A-Za-z0-9-]{8,}`)},
	{"an AWS key", regexp.MustCompile(`\bAKIA[0-9A-Z]{12,}`)},
	{"a GitHub token", regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{20,}`)},
	{"a GitLab token", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{16,}`)},
	{"a Google API key", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`)},
	{"a Stripe key", regexp.MustCompile(`\b[rs]k_(live|test)_[A-Za-z0-9]{16,}`)},
	{"a Hugging Face token", regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`)},
	{"an npm token", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{30,}`)},
	{"a URL with a password", regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@"'<>]*:[^/\s@"'<>$]+@`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*`)},
}

// credentials reports every text in the document that has the shape of a secret.
// A manifest is read, shown, frozen into runs and kept in version control: none
// of these may hold one. The message does not repeat it.
func credentials(ps *document.Problems, v *document.Value, path string) {
	switch v.Kind {
	case document.Object:
		for _, m := range v.Members {
			credential(ps, m.At, path, m.Key)
			credentials(ps, m.Value, strings.TrimPrefix(path+"."+m.Key, "."))
		}
	case document.List:
		for i, item := range v.Items {
			credentials(ps, item, index(path, i))
		}
	case document.Text:
		credential(ps, v.At, path, v.Text)
	}
}

func credential(ps *document.Problems, at document.Position, path, text string) {
	for _, shape := range secretShapes {
		if shape.form.MatchString(text) {
			ps.Add(CodeCredential, at, path, "%s has what looks like %s: take it out of the file, replace it where it was issued, and put the new one into a variable, which env and headers name as $env:NAME",
				cmp.Or(path, "the document"), shape.name)
			return
		}
	}
}

// conceal takes what has the shape of a secret out of a message: another problem
// at the same place must not show it.
func conceal(message string) string {
	for _, shape := range secretShapes {
		message = shape.form.ReplaceAllString(message, "(hidden)")
	}
	return message
}

// IsCredential reports whether a variable holds a credential, by its name or by the
// form of its value.
func IsCredential(name, value string) bool {
	return speaksOfCredentials(name) || redact.Password(value) != "" || looksRandom(value) || conceal(value) != value
}

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

package tool

import (
	"regexp"
	"strconv"

	"github.com/tipstaff/tipstaff/document"
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
func (r *reader) credentials(n at) {
	switch n.value.Kind {
	case document.Object:
		for _, m := range n.value.Members {
			r.credential(at{place: m.At, path: n.path}, m.Key)
			r.credentials(atValue(m.Value, join(n.path, m.Key)))
		}
	case document.List:
		for i, v := range n.value.Items {
			r.credentials(atValue(v, join(n.path, strconv.Itoa(i))))
		}
	case document.Text:
		r.credential(n, n.value.Text)
	}
}

func (r *reader) credential(n at, text string) {
	for _, shape := range secretShapes {
		if shape.form.MatchString(text) {
			r.report(ProblemCredential, n, "%s has what looks like %s: take it out of the file, replace it where it was issued, and put the new one into a variable, which env and headers name as $env:NAME", subject(n.path), shape.name)
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

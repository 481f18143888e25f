package tipstaff

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// What an error may say to somebody elsewhere.
const (
	MaxReply     = 6 << 10 // bytes in all
	maxProblems  = 20
	maxErrorText = 1000 // characters
	maxProblem   = 300  // characters of a problem's message, of a hint and of a detail
	maxDetails   = 20
	maxQuoted    = 100 // characters of what the caller itself has sent
	longWord     = 160 // characters of what nobody has written by hand
)

// Reply is the error as a caller elsewhere may see it: without the folders of this machine,
// whose files it tells by their relative names, without advice for the command line unless
// that is who asks, and no longer than anybody reads. The inner folders come first. A last
// problem, "more", counts those that are left out.
//
// fits says whether what is left is small enough to be sent; nil: as JSON it takes at most
// [MaxReply]. Of what does not fit, the last problems go first.
func (e *Error) Reply(folders []string, commandLine bool, fits func(*Error) bool) *Error {
	if fits == nil {
		fits = fitsAsJSON
	}
	short := func(text string, most int) string { return shorten(text, folders, most) }
	message := *e
	if e.Code == Internal {
		message.Err = nil // its text stays here
	}
	r := &Error{Code: e.Code, Run: e.Run, Message: short(message.Error(), maxErrorText), Hint: short(e.Hint, maxProblem)}
	if commandLine {
		r.Command = short(e.Command, maxProblem)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Details))[:min(len(e.Details), maxDetails)] {
		if r.Details == nil {
			r.Details = make(map[string]string)
		}
		r.Details[short(name, maxQuoted)] = short(e.Details[name], maxProblem)
	}
	var told []Problem
	for _, p := range e.Problems[:min(len(e.Problems), maxProblems)] {
		p.Path, p.File, p.Message = short(p.Path, maxProblem), short(p.File, maxProblem), short(p.Message, maxProblem)
		told = append(told, p)
	}
	for {
		r.Problems = told
		if left := len(e.Problems) - len(told); left > 0 {
			r.Problems = append(slices.Clip(told), Problem{Code: "more", Message: fmt.Sprintf("%d more problems are not shown", left)})
		}
		switch n := len(told); {
		case fits(r):
			return r
		case n > 0:
			told = told[:n-1]
		case r.Hint != "" || r.Command != "" || r.Details != nil:
			r.Hint, r.Command, r.Details = "", "", nil
		case utf8.RuneCountInString(r.Message) > 2:
			r.Message = cut(r.Message, utf8.RuneCountInString(r.Message)/2)
		default:
			return r // no caller takes so little
		}
	}
}

func fitsAsJSON(e *Error) bool {
	text, err := json.Marshal(e)
	return err != nil || len(text) <= MaxReply
}

// shorten is a text as callers elsewhere may see it, with at most so many characters.
func shorten(text string, folders []string, most int) string {
	for _, dir := range folders {
		text = strings.ReplaceAll(strings.ReplaceAll(text, dir+"/", ""), dir, ".")
	}
	text = inQuotes.ReplaceAllStringFunc(strings.ToValidUTF8(text, "\uFFFD"), func(q string) string { return `"` + cut(q[1:len(q)-1], maxQuoted) + `"` })
	return cut(cutWords(text), most)
}

// inQuotes is what stands in quotation marks.
var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// cutWords shortens what has no end: a key, a name, a path that somebody sent.
func cutWords(text string) string {
	if len(text) <= longWord {
		return text
	}
	words := strings.Split(text, " ")
	for i, word := range words {
		if utf8.RuneCountInString(word) > longWord {
			words[i] = cut(word, maxQuoted)
		}
	}
	return strings.Join(words, " ")
}

// cut is the first so many characters of a text, and a sign where there were more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := 0
	for at := range text {
		if n == most {
			return text[:at] + "…"
		}
		n++
	}
	return text
}

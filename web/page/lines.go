package page

import "strings"

const diffMost = 1000 // lines of a side that are compared one by one

// linesDiffer shows how one text became another, line by line.
func linesDiffer(name, was, now string) patchFile {
	f := patchFile{Name: name}
	a, b := linesOf(was), linesOf(now)
	old, fresh := 0, 0
	add := func(class, text string) {
		l := patchLine{Class: class, Text: text}
		if class != "added" {
			old++
			l.Old = old
		}
		if class != "removed" {
			fresh++
			l.New = fresh
		}
		switch class {
		case "added":
			f.Added++
		case "removed":
			f.Removed++
		}
		f.Lines = append(f.Lines, l)
	}
	common := commonLines(a, b)
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			add("", "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common(i+1, j) >= common(i, j+1):
			add("removed", "- "+a[i])
			i++
		default:
			add("added", "+ "+b[j])
			j++
		}
	}
	return f
}

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// commonLines tells how many lines the rests of two texts have in common, in order. Of texts
// that are too long to be compared it says none.
func commonLines(a, b []string) func(i, j int) int {
	if len(a) > diffMost || len(b) > diffMost {
		return func(int, int) int { return 0 }
	}
	width := len(b) + 1
	longest := make([]int16, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	return func(i, j int) int { return int(longest[i*width+j]) }
}

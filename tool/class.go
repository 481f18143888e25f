package tool

import "github.com/tipstaff/tipstaff/flow"

// strictness orders the classes; an unknown one is as strict as can be.
func strictness(c flow.Class) int {
	switch c {
	case flow.Read:
		return 1
	case flow.Idempotent:
		return 2
	}
	return 3
}

// effective is the stricter of what the manifest and the hints state, "" being
// nothing. With neither it is once.
func effective(declared, hinted flow.Class) flow.Class {
	switch {
	case declared == "" && hinted == "":
		return flow.Once
	case declared == "":
		return hinted
	case hinted == "" || strictness(declared) >= strictness(hinted):
		return declared
	}
	return hinted
}

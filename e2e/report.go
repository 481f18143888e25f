package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Report is what was found.
type Report struct {
	Passed     int               `json:"passed"`
	Total      int               `json:"total"`
	Assertions []Assertion       `json:"assertions"`
	Broken     map[string]string `json:"broken,omitempty"` // why a run could not go on, by its name
	Faults     []Fault           `json:"faults,omitempty"` // if sabotage was wanted
}

// Assertion is one definition as it was found in one run, or in all of them.
type Assertion struct {
	Run      string          `json:"run"` // "": in all
	Group    string          `json:"group"`
	Name     string          `json:"name"`
	OK       bool            `json:"ok"`
	Expected json.RawMessage `json:"expected,omitempty"` // with Got, if it is not
	Got      json.RawMessage `json:"got,omitempty"`
}

// Fault is what became of a definition whose evidence was spoiled.
type Fault struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	Fault string `json:"fault"`
	Found bool   `json:"found"` // the definition has failed, as it must
}

// OK reports that all was as it must be.
func (r *Report) OK() bool {
	return r.Passed == assertions && r.Total == assertions && r.found() == len(r.Faults)
}

// found is how many of the faults were.
func (r *Report) found() (n int) {
	for _, f := range r.Faults {
		if f.Found {
			n++
		}
	}
	return n
}

// judge holds the runs against the definitions.
func judge(runs []*evidence, broken map[string]string) *Report {
	r := &Report{Broken: broken}
	add := func(run string, d *definition, of []*evidence) {
		a := d.of(of)
		a.Run = run
		if r.Total++; a.OK {
			r.Passed++
		}
		r.Assertions = append(r.Assertions, a)
	}
	for i, run := range runs {
		for j := range definitions {
			if d := &definitions[j]; d.each != nil {
				add(names[i], d, []*evidence{run})
			}
		}
	}
	for j := range definitions {
		if d := &definitions[j]; d.across != nil {
			add("", d, runs)
		}
	}
	return r
}

// of is a definition as the evidence has it. One that cannot be looked at, because some of
// the evidence is missing, does not hold; nor does one that expects nothing.
func (d *definition) of(runs []*evidence) (a Assertion) {
	a.Group, a.Name = d.group, d.name
	defer func() {
		if missing := recover(); missing != nil {
			a.OK, a.Expected, a.Got = false, []byte(`"evidence"`), []byte(text(fmt.Sprint(missing)))
		}
	}()
	var expected, got any
	if d.each != nil {
		expected, got = d.each(runs[0])
	} else {
		expected, got = d.across(runs[0], runs[1], runs[2])
	}
	a.Expected, a.Got = []byte(text(expected)), []byte(text(got))
	switch string(a.Expected) {
	case "null", `""`, "[]", "{}":
		a.Expected = []byte(`"something to compare with"`)
		return a
	}
	if a.OK = string(a.Expected) == string(a.Got); a.OK {
		a.Expected, a.Got = nil, nil
	}
	return a
}

// sabotage spoils the evidence for each definition in turn.
func sabotage(runs []*evidence) (faults []Fault) {
	for i := range definitions {
		d := &definitions[i]
		spoiled := []*evidence{runs[0].clone(), runs[1].clone(), runs[2].clone()}
		found := d.spoils(spoiled[d.in]) && !d.of(spoiled).OK
		faults = append(faults, Fault{Group: d.group, Name: d.name, Fault: d.fault, Found: found})
	}
	return faults
}

// spoils reports whether there was evidence to spoil.
func (d *definition) spoils(e *evidence) (done bool) {
	defer func() { done = recover() == nil }()
	d.spoil(e)
	return true
}

// Text writes the report for people, a line for each assertion.
func (r *Report) Text(w io.Writer) {
	heading := "?"
	for i := range r.Assertions {
		a := &r.Assertions[i]
		if a.Run != heading {
			heading = a.Run
			if heading == "" {
				fmt.Fprintln(w, "runs A, B and C")
			} else {
				fmt.Fprintf(w, "run %s\n", heading)
			}
			if why := r.Broken[a.Run]; why != "" {
				fmt.Fprintf(w, "  broken off: %s\n", why)
			}
		}
		verdict := "ok  "
		if !a.OK {
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "  %s  %-11s  %s\n", verdict, a.Group, a.Name)
		if !a.OK && r.Broken[a.Run] == "" { // of a run that broke off, why it did says more
			fmt.Fprintf(w, "        expected %s\n        got      %s\n", brief(a.Expected), brief(a.Got))
		}
	}
	for i, f := range r.Faults {
		if i == 0 {
			fmt.Fprintln(w, "sabotage")
		}
		verdict := "fails "
		if !f.Found {
			verdict = "PASSES"
		}
		fmt.Fprintf(w, "  %s  %-11s  %s  (%s)\n", verdict, f.Group, f.Name, f.Fault)
	}
	if len(r.Faults) > 0 {
		fmt.Fprintf(w, "%d of %d definitions fail under their fault\n", r.found(), len(r.Faults))
	}
	if r.Total != assertions {
		fmt.Fprintf(w, "%d assertions were made, and there must be %d\n", r.Total, assertions)
	}
	fmt.Fprintf(w, "%d of %d\n", r.Passed, assertions)
}

// brief is a value as far as a line can show it; the report has all of it.
func brief(v json.RawMessage) string {
	const most = 600
	if len(v) > most {
		return fmt.Sprintf("%s … and %d bytes more", strings.ToValidUTF8(string(v[:most]), ""), len(v)-most)
	}
	return string(v)
}

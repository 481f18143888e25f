package plan

import (
	"math"
	"regexp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Bounds are the limits that a document sets, in the units of the ledger:
// cost_usd in 10⁻⁹ USD, wall_time in milliseconds. A name that is absent is not
// limited by the document.
type Bounds flow.Use

// boundNames in the order of reports.
var boundNames = []string{
	tipstaff.BoundIterations, tipstaff.BoundModelCalls, tipstaff.BoundToolCalls,
	tipstaff.BoundAgentHops, tipstaff.BoundTokens, tipstaff.BoundCostUSD, tipstaff.BoundWallTime,
}

// maxCount is the largest whole number that every JSON reader agrees on.
const maxCount = 1<<53 - 1

func decodeBounds(f *document.Fields) Bounds {
	v := f.Typed("bounds", document.Object)
	if v == nil {
		return nil
	}
	b := Bounds{}
	bf := f.Of(v, f.PathOf("bounds"))
	for _, bound := range boundNames {
		if amount, ok := readBound(bf, bound); ok {
			b[bound] = amount
		}
	}
	bf.End()
	return b
}

// readBound is one limit; ok is false where there is none, or none that can be read.
func readBound(f *document.Fields, name string) (amount int64, ok bool) {
	switch name {
	case tipstaff.BoundCostUSD:
		v := f.Get(name)
		if v == nil {
			return 0, false
		}
		return readUSD(f, name, v)
	case tipstaff.BoundWallTime:
		d := f.Duration(name)
		return d.Milliseconds(), d > 0
	}
	const absent = -1
	n := f.Integer(name, absent, 0, maxCount)
	return n, n != absent
}

var decimalGrammar = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`)

// readUSD is an amount in 10⁻⁹ USD. Amounts are strings: a number would already
// have been rounded by whoever read it.
func readUSD(f *document.Fields, name string, v *document.Value) (int64, bool) {
	if v.Kind != document.Text {
		f.Problems.Add(document.CodeFieldType, v.At, f.Path, `%s is %v; an amount is a string, like "0.50"`, name, v.Kind)
		return 0, false
	}
	if !decimalGrammar.MatchString(v.Text) {
		f.Problems.Add(document.CodeFieldInvalid, v.At, f.Path, `%s is %q; an amount has at most nine decimals, like "0.50"`, name, document.Brief(v.Text))
		return 0, false
	}
	amount, err := tipstaff.ParseUSD(v.Text)
	if err != nil || amount == math.MaxInt64 { // which is how the ledger says that there is no limit
		f.Problems.Add(document.CodeRange, v.At, f.Path, "%s is %s; that is more than can be counted", name, document.Brief(v.Text))
		return 0, false
	}
	return int64(amount), true
}

// Limits are the bounds of the document in ledger units. nil: it has none.
func (d *Document) Limits() flow.Use { return flow.Use(d.Bounds) }

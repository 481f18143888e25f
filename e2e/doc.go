// Package e2e proves a build of Tipstaff on the machine where it stands: three whole
// runs, A, B and C, from a wish in prose to a signed end, in a temporary folder and
// without a network. What the runs leave behind is held against what was to be expected,
// which is computed here once more and not by the functions under test.
//
// The product is used as any surface uses it, through [tipstaff.Service] and its
// neighbours; cmd hands them over in a [Product]. The assertions are one table,
// definitions, of pure functions over the evidence of a run. Each has a fault beside it
// that must make it fail: so none holds whatever happens.
//
// Start at [Run], then the table in definitions.go.
package e2e

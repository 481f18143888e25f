// Package policy says whether a tool call may run: allow, ask or deny, and which
// rule said so; and whether a change of a program needs a new acceptance.
//
// A [Policy] is a set of guards and rules. Guards look into the arguments of a
// call and give what they find as facts (guard.go; the one kind there is stands in
// policy/sqlguard). Then all rules are evaluated and the strictest that matches wins,
// so the order of rules never changes what is decided, only which of several equal
// rules is named. A rule may have a condition in CEL; one that cannot be evaluated
// counts against the call. A call that no rule matches is asked about.
//
// [Terms] are what somebody agrees to by accepting a program. [Classify] compares
// two of them by a fixed list of rules: whatever one of them finds makes the
// change material.
//
// The package is pure: it reads no clock, no file and no environment, and it
// knows no document syntax. The reader of a document hands its guards and rules to
// [New] and turns the problems, which name entry and field, into lines and columns.
//
// Start at [Policy.Inspect] and [Policy.Decide], or at [Classify].
package policy

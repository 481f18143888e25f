// Package policy says whether a tool call may run: allow, ask or deny, and which
// rule said so; and whether a change of a program needs a new acceptance.
//
// A [Policy] is a set of rules. All of them are evaluated and the strictest that
// matches wins, so the order of rules never changes what is decided, only which
// of several equal rules is named. A call that no rule matches is asked about.
//
// [Terms] are what somebody agrees to by accepting a program. [Classify] compares
// two of them by a fixed list of rules: whatever one of them finds makes the
// change material.
//
// The package is pure: it reads no clock, no file and no environment, and it
// knows no document syntax. Whoever reads a document hands its rules to [New]
// and turns the problems, which name rule and field, into lines and columns.
//
// Start at [Policy.Decide], or at [Classify].
package policy

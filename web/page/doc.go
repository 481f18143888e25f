// Package page is the web page of Tipstaff: HTML that the server makes of the projections of
// the root package, under /ui. It sees the root package alone, and computes no state, cost or
// outcome of its own.
//
// [Site] answers requests; begin there. A page is a method of *view that gathers values and a
// template that draws them. signin.go signs people in, guard.go keeps other sites out,
// stream.go sends finished parts to pages that are open, and layout.go places the graph of a
// pipeline.
package page

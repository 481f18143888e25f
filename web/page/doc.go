// Package page is the web page of Tipstaff: HTML that the server makes of the projections of
// the root package. It sees the root package alone.
//
// Layout places the graph of a pipeline; begin there with [Arrange].
package page

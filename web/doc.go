// Package web is the HTTP API of the daemon: requests and answers in JSON, and the records of
// a run as they are written, as server-sent events.
//
// It translates. A route reads its request strictly, makes one call into the root package and
// writes what comes back. What it holds itself is what HTTP needs: who may speak to it at all
// (guard.go), how much it reads and how long it waits, and one reader of the journal for all
// who follow a run (feed.go). Start with the table in route.go.
package web

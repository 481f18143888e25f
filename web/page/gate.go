package page

// gatePages show gates, and what can be done with a run.
var gatePages = pages{}

package page

// recordPages show what is recorded of a run: journal, cost and files.
var recordPages = pages{}

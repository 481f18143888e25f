package page

// kinPages show a run beside others, what was said in it, and that it can be proven.
var kinPages = pages{}

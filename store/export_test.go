package store

// WhereRuns is how runs are selected, for those who ask the planner.
var WhereRuns = whereRuns

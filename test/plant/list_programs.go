package main

const endsWithItsCall = "A program that `exec` started ends with its call, its group with it."
const foundByMarkers = "What an owner that was killed left behind is found by its markers and ended before the run goes on."

// Bugs against guarantee 6.
var programs = []bug{
	{
		id: "program-without-its-group", guarantee: 6, says: endsWithItsCall,
		slip:   "forgets the minus by which a signal goes to the group of a program",
		file:   "supervisor/process_linux.go",
		old:    "\t_ = syscall.Kill(-pid, syscall.SIGKILL)",
		new:    "\t_ = syscall.Kill(pid, syscall.SIGKILL)",
		suites: []suite{tests("supervisor", "TestTheGroupOfAProgramEndsWithIt")},
	},
	{
		id: "rest-not-ended", guarantee: 6, says: endsWithItsCall,
		slip:   "takes a process without children of its own for one that has left nothing",
		file:   "supervisor/adopt_linux.go",
		old:    "\treturn adopted.on && errors.Is(",
		new:    "\treturn !adopted.on || errors.Is(",
		suites: []suite{tests("supervisor", "TestNothingOutlivesTheProgram|TestCloseEndsTheDeaf")},
	},
	{
		id: "sweep-by-launch-alone", guarantee: 6, says: foundByMarkers,
		slip:   "ends whatever carries the launch, of whichever run",
		file:   "supervisor/sweep_linux.go",
		old:    "\t\treturn run != \"\" && launches[launch] == run",
		new:    "\t\treturn run != \"\" && launches[launch] != \"\"",
		suites: []suite{tests("supervisor", "TestSweepLeavesOthersAlone")},
	},
	{
		id: "marker-of-the-parent", guarantee: 6, says: foundByMarkers,
		slip:   "goes by the last of several values of a marker",
		file:   "supervisor/sweep_linux.go",
		old:    "\t\t\tif found != \"\" && found != string(v) {\n\t\t\t\treturn \"\"\n\t\t\t}\n",
		new:    "",
		suites: []suite{tests("supervisor", "TestCarried")},
	},
	{
		id: "reused-pid", guarantee: 6, says: "A signal goes to no process but the one that was recorded, by its start time.",
		slip:   "takes a running process with the pid for the one that was found",
		file:   "supervisor/sweep_linux.go",
		old:    "\treturn !running || start != p.start",
		new:    "\treturn !running || start == 0",
		suites: []suite{tests("supervisor", "TestSweepLeavesReusedPidAlone|TestStrangersAreNotStopped|TestSweepIdentitySparesOthers")},
	},
	{
		id: "strangers-stopped", guarantee: 6, says: "A signal goes to no process but the one that was recorded, by its start time.",
		slip:   "sweeps programs of another boot, whose pids are others' by now",
		file:   "supervisor/sweep.go",
		old:    "return id.Boot != boot || id.PidNS != ns })",
		new:    "return id.Boot != boot && id.PidNS != ns })",
		suites: []suite{tests("supervisor", "TestSweepIdentity.*")},
	},
	{
		id: "adopted-too-young", guarantee: 6, says: "Where\nseveral programs run at the same time, it is ended with the last one that can have started it.",
		slip:   "ends adopted processes that a living program may have started",
		file:   "supervisor/adopt_linux.go",
		old:    "\t\tif oldest >= 0 && oldest <= start {",
		new:    "\t\tif oldest >= 0 && oldest > start {",
		suites: []suite{tests("supervisor", "TestHiddenProcessesAreAdoptedAndEnded")},
	},
	{
		id: "nothing-adopted", guarantee: 6, says: "Tipstaff is given every descendant that loses its parent.",
		slip:   "looks for adopted processes in the session of the command alone",
		file:   "supervisor/adopt_linux.go",
		old:    "\t\tcase started || c.Session == session: // what it starts is younger",
		new:    "\t\tcase started || c.Session == session || c.Session > 0: // what it starts is younger",
		suites: []suite{tests("supervisor", "TestHiddenProcessesAreAdoptedAndEnded")},
	},
	{
		id: "sweep-of-owners-alone", guarantee: 6, says: foundByMarkers,
		slip:   "sweeps what owners have left, and not what launches have whose owner is not known any more",
		file:   "runner/cancel.go",
		old:    "\t\tif row.Owner != nil && row.Owner.Launch != \"\" {\n\t\t\tlaunches[row.Owner.Launch] = row.ID\n\t\t}",
		new:    "\t\tif row.Owner != nil && row.Launch != nil {\n\t\t\tlaunches[row.Owner.Launch] = row.ID\n\t\t}",
		suites: []suite{tests("runner", "TestRecoveryMarksTheRunsOfDeadOwnersOnce"), started("cmd/tipstaff", "TestNoChildOutlivesItsRun")},
	},
	{
		id: "servers-without-markers", guarantee: 6, says: foundByMarkers,
		slip:   "starts tool servers without the markers of the run",
		file:   "runner/runner.go",
		old:    "tool.Launch{Workspace: dir, Markers: markers, Environ:",
		new:    "tool.Launch{Workspace: dir, Environ:",
		suites: []suite{script("markers")},
	},
}

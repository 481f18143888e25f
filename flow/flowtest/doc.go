// Package flowtest is the suite that every flow.Log passes, whatever it keeps
// its records in.
//
// It drives programs with the engine over the log under test, kills the process
// at every write, lets decisions race with everything they can race with, and
// then asks three independent witnesses whether the outcome is right: a [World]
// that counts effects outside of the engine and outlives every crash, the
// journal itself, and a replay of that journal.
//
// A log joins in with a [Bed] and one line:
//
//	func TestFlow(t *testing.T) { flowtest.Run(t, func(t *testing.T) flowtest.Bed { … }) }
//
// Crashes are simulated in one process by [Faulty], which stops storing at any
// chosen write. What needs real processes, disks or network is tested by the log
// itself. Nothing here may be imported by production code.
//
// Start reading at [Run] and rig.go; each theme has a file of its own.
package flowtest

package supervisor

// Every process of a run carries these in its environment, and so does what it
// starts, however it is started.
const (
	runMarker    = "TIPSTAFF_RUN_ID="
	launchMarker = "TIPSTAFF_LAUNCH="
	spawnMarker  = "TIPSTAFF_SPAWN=" // of what one spawned program starts
)

// matcher recognises processes by their environment.
type matcher func(environ []byte) bool

// Markers is what to add to the environment of every process of a run.
func Markers(run, launch string) []string {
	return []string{runMarker + run, launchMarker + launch}
}

package runner

import (
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Tell tells something of a run, as its drive would.
func (r *Runner) Tell(run string, d flow.Draft) { r.transient.publish(run, d, r.Now()) }

// Heard is how much a follower that does not read hears at most.
const Heard = transientBuffer

// AwaitHosts sets how long a once call waits for the host that it was lost with.
func (r *Runner) AwaitHosts(d time.Duration) { r.hosts.absent = d }

// Places sets how many runs are driven at once.
func (r *Runner) Places(n int) { r.queue = newQueue(n, 1) }

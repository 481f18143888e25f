package runner

import "github.com/tipstaff/tipstaff/flow"

// Tell tells something of a run, as its drive would.
func (r *Runner) Tell(run string, d flow.Draft) { r.talk.tell(run, d, r.Now()) }

// Heard is how much a follower that does not read hears at most.
const Heard = heldTalk

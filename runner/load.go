package runner

// Load is how many runs this process drives, and how many of its own wait for their turn.
func (r *Runner) Load() (driving, queued int) { return r.queue.sizes() }

package runtime

// What asks the database, one statement at a time each, beside the claims of the
// queues, of which at most claimsAtOnce go on at once. So that none of them waits for
// a connection of another, the store has as many.
const (
	// The keeper, the settler, the sweeper, the watch of cancels, the scheduler,
	// retention, and the listener where it finds out whether it hears anything.
	loopsAlways = 7
	// The relay's look for events, its watch, and the record of a projection whose
	// transaction came to nothing.
	loopsOfEvents = 3
	// The sampler.
	loopsOfMetrics = 1
)

// connections is for how many statements at a time the worker's store has room.
func (w *Worker) connections() int {
	n := min(len(w.queues), claimsAtOnce) + loopsAlways
	if w.relay != nil {
		n += loopsOfEvents
	}
	if w.metrics != nil {
		n += loopsOfMetrics
	}
	return n
}
